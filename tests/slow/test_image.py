"""The image of deploy/, built by buildah and run by podman as documented, within the memory set there: `make test-image`."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import requests
import yaml
from support import tiny_models
from support.colour_photos import RED, encode, plain
from support.flood import flood
from support.grpc_client import connected, values
from support.ports import free_port
from support.process_readings import worker_of
from support.real_model import ROOT, built_models
from support.waiting import answers, wait_until

DEPLOY = ROOT / "backend" / "deploy"
BASE = "docker.io/library/python:3.12-slim-bookworm"
LARGEST = 2.05e9  # bytes
TOKEN = "image-test-token-0123456789"
# Root of a container may have no right to raise limits; podman's own would be higher than this.
LIMITS = ["--ulimit=nofile=20000:20000", "--ulimit=nproc=20000:20000"]
PROGRAMS = ("buildah", "podman", "runc", "debootstrap")
MISSING = [name for name in PROGRAMS if not shutil.which(name)]
PHOTO = encode(plain(RED), "JPEG")

pytestmark = [
    pytest.mark.image,
    pytest.mark.skipif(
        bool(MISSING or os.geteuid()),
        reason=f"needs root and Debian's packages {', '.join(PROGRAMS)}",
    ),
]


def program(*command: object) -> str:
    done = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, check=False, timeout=1800
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def podman() -> Iterator[Callable[..., str]]:
    """podman with the image in a store of its own, where a base made by debootstrap may take the name of the registry's."""
    folder = Path(tempfile.mkdtemp())
    store = ("--root", folder / "store")
    run = partial(program, "podman", *store, "--runtime", "runc", "--cgroup-manager", "cgroupfs")
    try:
        _build(folder, store, run)
        yield run
    finally:
        run("rm", "--all", "--force", "--time", 1)
        run("rmi", "--all", "--force")
        subprocess.run(["umount", folder / "store" / "overlay"], check=False, capture_output=True)
        shutil.rmtree(folder)


def _build(folder: Path, store: tuple, run: Callable[..., str]) -> None:
    try:
        run("pull", "--quiet", BASE)
    except AssertionError:  # no registry is reachable
        program("sh", ROOT / "tests/support/debian_base.sh", folder / "base", folder / "base.tar")
        run("import", folder / "base.tar", BASE)
    begun = time.monotonic()
    options = [
        "--isolation",
        "chroot",
        "--runtime",
        "runc",
        "--pull-never",
        "--format",
        "docker",
        LIMITS[0],
    ]
    files = ["-f", DEPLOY / "Dockerfile", "--ignorefile", DEPLOY / "Dockerfile.dockerignore"]
    program("buildah", *store, "build", *options, *files, "-t", "dogsnap", ROOT)
    print(f"\nbuilt in {time.monotonic() - begun:.0f} s")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """The versions of `make setup`, and a model that takes numbers of any size."""
    folder = tmp_path_factory.mktemp("image") / "models"
    shutil.copytree(built_models(), folder)
    tiny_models.half_plus(2, folder / "half" / "1")
    return folder


class Container:
    """One that the `docker run` line of docs/deployment.md starts, on other ports, with the models in `models`."""

    def __init__(self, podman: Callable[..., str], models: Path, *options: str):
        document = ROOT / "docs" / "deployment.md"
        text = document.read_text(encoding="utf-8").replace("\\\n", " ")
        line = re.search(r"^docker run (.*) dogsnap$", text, re.M)[1]
        self.port, self.grpc_port = free_port(), free_port()
        for old, new in {
            "$PWD/models": models,
            ":8501:": f":{self.port}:",
            ":8500:": f":{self.grpc_port}:",
        }.items():
            assert old in line
            line = line.replace(old, str(new))
        self.podman, self.url = podman, f"http://127.0.0.1:{self.port}"
        options = (*shlex.split(line), *LIMITS, "--env", f"DOGSNAP_ADMIN_TOKEN={TOKEN}", *options)
        self.id = podman("run", "--detach", *options, "dogsnap")
        self.process = SimpleNamespace(pid=int(self.inspect(".State.Pid")))
        try:
            wait_until(lambda: answers(f"{self.url}/readyz"), 180)
        except BaseException:
            print(podman("logs", self.id))
            raise

    def inspect(self, what: str) -> str:
        return self.podman("inspect", "--format", f"{{{{{what}}}}}", self.id)

    def status(self, field: str) -> list[str]:
        """A field of the worker's status, as the kernel writes it."""
        text = Path(f"/proc/{worker_of(self)}/status").read_text(encoding="ascii")
        return re.search(rf"^{field}:\s+(.*)$", text, re.M)[1].split()

    def classify(self) -> int:
        headers = {"Content-Type": "image/jpeg"}
        return requests.post(
            f"{self.url}/api/classify", PHOTO, headers=headers, timeout=60
        ).status_code

    def stays_alive_in_a_flood(self) -> None:
        worker = worker_of(self)
        answered = flood(self, "half", "x")
        limit = int(self.inspect(".HostConfig.Memory")) / 2**30
        print(
            f"\npeak {int(self.status('VmHWM')[0]) / 2**20:.2f} GiB of {limit:.2f}, {dict(answered)}"
        )
        assert answered["RESOURCE_EXHAUSTED"] > 0
        assert worker_of(self) == worker
        assert self.classify() == 200


@pytest.fixture(scope="module")
def server(podman, models) -> Container:
    return Container(podman, models)


def test_the_image_is_small_and_runs_as_its_user_with_a_root_that_cannot_be_written(podman, server):
    size = int(podman("image", "inspect", "--format", "{{.Size}}", "dogsnap"))
    print(
        f"\n{size / 1e9:.2f} GB, {int(server.status('VmRSS')[0]) / 2**20:.2f} GiB with all versions"
    )
    assert size <= LARGEST
    assert server.status("Uid") == ["10001"] * 4
    with pytest.raises(AssertionError, match="Read-only file system"):
        podman("exec", server.id, "python", "-c", "open('/app/x', 'w')")
    podman("healthcheck", "run", server.id)


def test_it_answers_by_http_and_grpc_and_counts(server):
    assert server.classify() == 200
    with connected(server.grpc_port) as client:
        assert values(client.predict("half", x=np.float32([2.0])).outputs)["y"] == [3.0]
    assert requests.get(server.url, timeout=60).text.startswith("<!")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert (
        "dogsnap_places_held"
        in requests.get(f"{server.url}/metrics", headers=headers, timeout=60).text
    )


def test_without_a_folder_to_write_into_it_ends_with_a_sentence(podman, models):
    with pytest.raises(
        AssertionError, match=r"Error: no temporary folder can be written to.*--tmpfs /tmp"
    ):
        podman(
            "run",
            "--rm",
            "--read-only",
            "--read-only-tmpfs=false",
            *LIMITS,
            f"-v={models}:/models:ro",
            "dogsnap",
        )


def test_a_flood_of_the_largest_requests_leaves_the_server_alive(server):
    server.stays_alive_in_a_flood()


def test_a_flood_of_the_largest_requests_leaves_the_gateway_alive_in_the_memory_of_its_manifest(
    podman, server, models
):
    documents = yaml.safe_load_all(
        (DEPLOY / "overlays" / "fleet" / "gateway.yaml").read_text(encoding="utf-8")
    )
    deployment = next(each for each in documents if each["kind"] == "Deployment")
    gateway = deployment["spec"]["template"]["spec"]["containers"][0]
    held = next(each["value"] for each in gateway["env"] if each["name"] == "DOGSNAP_MAX_HELD_MB")
    memory = gateway["resources"]["limits"]["memory"].removesuffix("i").lower()
    engine = f"DOGSNAP_ENGINE=grpc://{server.inspect('.NetworkSettings.IPAddress')}:8500"
    options = ("--memory", memory, "--env", engine, "--env", f"DOGSNAP_MAX_HELD_MB={held}")
    Container(podman, models, *options).stays_alive_in_a_flood()


def test_requests_in_progress_at_sigterm_are_answered(podman, server):
    with ThreadPoolExecutor(16) as pool:
        running = [pool.submit(server.classify) for _ in range(16)]
        time.sleep(0.5)
        podman("stop", server.id)  # the document's line says how long it may take
        assert {each.result() for each in running} == {200}
    assert server.inspect(".State.ExitCode") == "0"
