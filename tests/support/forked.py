"""`dogsnap serve` and other commands in processes forked from one that has imported TensorFlow: a start costs 1 s instead of 6.

Times and memory are measured on a process of its own, see `Server` in conftest.py.
"""

import importlib
import multiprocessing
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

FORKS = multiprocessing.get_context("forkserver")
WARM_UP = "dogsnap.serving.repository.local_repository.warm_up"
# What a worker of the server imports; a fork inherits it.
FORKS.set_forkserver_preload(
    ["dogsnap.commands.serve", "dogsnap.server.app", "dogsnap.server.protocols.tf_serving_grpc"]
)


class ForkedServer:
    """A `dogsnap serve` with the interface of `subprocess.Popen` as far as the tests use it."""

    def __init__(
        self,
        arguments: list[str],
        log_file: Path,
        environ: dict[str, str],
        constants: dict[str, Any],
    ) -> None:
        """`constants`: by their full names, those of the package that have other values in this server."""
        args = (arguments, str(log_file), environ, constants)
        self._process = FORKS.Process(target=_serve, args=args)
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """The exit status. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("dogsnap serve", timeout)
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """One that has ended, which `poll` hears a moment later, gets none, as of Popen."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


def printed_by(module: str, *arguments: object) -> str:
    """The standard output of a module's `main`, whose sys.argv[1:] are `arguments`, in a fork. Fails if it does."""
    with tempfile.NamedTemporaryFile() as output:
        process = FORKS.Process(
            target=_print, args=(module, list(map(str, arguments)), output.name)
        )
        process.start()
        process.join(300)
        assert process.exitcode == 0, (module, arguments, process.exitcode)
        return Path(output.name).read_text(encoding="utf-8")


def _print(module: str, arguments: list[str], output: str) -> None:
    os.dup2(os.open(output, os.O_WRONLY), 1)
    sys.argv = [module, *arguments]
    importlib.import_module(module).main()


def skip_warm_up(servable: object) -> int:
    """In place of `warm_up`: what no test asks for need not run. A merged version warms up four
    signatures, which takes longer than the rest of a start.
    """
    return 0


def _serve(
    arguments: list[str], log_file: str, environ: dict[str, str], constants: dict[str, Any]
) -> None:
    """In the fork: become what the shell would have started."""
    log = os.open(log_file, os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(environ)
    tempfile.tempdir = None  # TMPDIR may be another one
    sys.argv = ["dogsnap", "serve", *arguments]
    from dogsnap.cli import main

    for path, value in constants.items():
        owner, _, name = path.rpartition(".")
        setattr(pkgutil.resolve_name(owner), name, value)
    main()
