"""A Ray cluster of two nodes on this machine, in a process of its own, which ends it when its own input ends.

It serves nothing by itself. The process takes lines: a word, and answers with one line of JSON.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CPUS = 4  # of each node, as Ray counts; it does not measure
OBJECTS = 80 * 2**20  # bytes of shared memory a node holds, close to the least that Ray takes
START_SECONDS = 120


class RayCluster:
    """The test's side of it: `address`, `environ`, `replicas()`, `kill_node()`, `stop()`."""

    def __init__(self, ports: list[int]):
        """`ports`: HTTP and gRPC of the first node's proxy, then of the second's."""
        self.ports = ports
        self.grpc_ports = [ports[1], ports[3]]
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DOGSNAP_", "RAY_"))
        }
        self._folder = Path(tempfile.mkdtemp(prefix="ray-"))  # its sockets need a short path
        self._errors = self._folder / "errors.txt"
        (
            self._folder / "ray"
        ).mkdir()  # where Ray keeps the address of the cluster; it does not make the folder
        self.environ = clean | {
            "RAY_TMPDIR": str(self._folder),
            "RAY_USAGE_STATS_ENABLED": "0",
            # Ray's way to have all nodes on the loopback address, whatever the system.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            # Both nodes are on one machine: the second one's proxy needs other ports than the first one's.
            "RAY_SERVE_WORKER_PROXY_HTTP_PORT": str(ports[2]),
            "RAY_SERVE_WORKER_PROXY_GRPC_PORT": str(ports[3]),
            # A proxy imports TensorFlow Serving's messages, which takes long on a busy machine.
            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        command = [sys.executable, __file__, str(self._folder)]
        pipe = subprocess.PIPE
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=errors, env=self.environ, text=True
            )
        try:
            self.address = self._answer()["address"]
        except AssertionError:
            self.stop()
            raise

    def deploy(
        self, models: Path | str, *flags: str, seconds: float = 300
    ) -> subprocess.CompletedProcess:
        """Run `dogsnap deploy ray` to its end."""
        ports = ["--port", str(self.ports[0]), "--grpc-port", str(self.ports[1])]
        command = [
            Path(sys.executable).with_name("dogsnap"),
            "deploy",
            "ray",
            "--address",
            self.address,
        ]
        command += ["--models", str(models), *ports, "--replica-cpus", "0.5", *flags]
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=seconds, check=False
        )

    def replicas(self) -> dict[str, int]:
        """How many replicas run, by application."""
        return self._ask("replicas")

    def kill_node(self) -> None:
        """Kill every process of the second node."""
        self._ask("kill")

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait(START_SECONDS)
        self._process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, word: str) -> Any:
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        for line in self._process.stdout:
            if line.startswith("{"):  # Ray prints, too
                return json.loads(line)
        said = self._errors.read_text(errors="replace").strip()
        raise AssertionError(
            f"the process of the Ray cluster has ended; its last words:\n{said[-2000:]}"
        )


def main(folder: str) -> None:
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    node = {"num_cpus": CPUS, "object_store_memory": OBJECTS, "node_ip_address": "127.0.0.1"}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={**node, "include_dashboard": False, "temp_dir": folder},
    )
    second = cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False)
    tell({"address": cluster.address})
    for line in sys.stdin:
        if line.strip() == "kill":
            cluster.remove_node(second, allow_graceful=False)
            tell({})
        else:
            tell(running(serve.status().applications))
    ray.shutdown()
    cluster.shutdown()


def running(applications: Any) -> dict[str, int]:
    return {
        name: sum(
            each.replica_states.get("RUNNING", 0) for each in application.deployments.values()
        )
        for name, application in applications.items()
    }


def tell(value: Any) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
