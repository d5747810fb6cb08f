"""Runs the commands of a document: its fenced `sh` blocks, in order, in one folder, against a real server."""

import doctest
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.ports import START_SECONDS, free_port
from support.waiting import answers, wait_until

STEP_SECONDS = 300
PORTS = ("8501", "8500", "8511", "8510", "8521", "6379")  # in pages, which free ones replace
FENCE = re.compile(r"^```(?P<language>\w+)(?: (?P<kind>\w+))?\n(?P<text>.*?)^```$", re.M | re.S)
# `make` is replaced: what it builds is there already, and it would build it into the repository.
MAKE = '#!/bin/sh\ncase "$1" in run) exec dogsnap serve;; setup) ;; *) echo "no make $1 here" >&2; exit 2;; esac\n'


def blocks_of(page: str) -> list[list]:
    """The `sh` blocks of a page: "run", "server" or "background", the text, and that of a `text` block right after it or None."""
    found: list[list] = []
    end = 0
    for fence in FENCE.finditer(page):
        if fence["language"] == "sh":
            found.append([fence["kind"] or "run", fence["text"], None])
        elif fence["language"] == "text" and found and not page[end : fence.start()].strip():
            found[-1][-1] = fence["text"]
        end = fence.end()
    return found


class Shell:
    """Runs blocks in `folder`, with ports of its own instead of 8501 and 8500."""

    def __init__(self, folder: Path):
        self._ports = {printed: free_port() for printed in PORTS}
        self.folder, self.port, self.grpc_port = folder, self._ports["8501"], self._ports["8500"]
        programs = folder / ".programs"
        programs.mkdir()
        (programs / "make").write_text(MAKE)
        (programs / "make").chmod(0o755)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("DOGSNAP_")
        }
        path = os.pathsep.join(
            [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        ports = {"DOGSNAP_PORT": str(self.port), "DOGSNAP_GRPC_PORT": str(self.grpc_port)}
        self._where = {
            "cwd": folder,
            "env": {**kept, **ports, "PATH": path, "TF_CPP_MIN_LOG_LEVEL": "2"},
        }

    def run(self, text: str) -> str:
        """What the commands print on standard output; fails the test unless each of them succeeds."""
        done = subprocess.run(
            self._command(text),
            **self._where,
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
        if done.returncode:
            pytest.fail(
                f"these commands failed ({done.returncode}):\n{text}\n{done.stdout}\n{done.stderr}"
            )
        return done.stdout

    @contextmanager
    def running(self, text: str, wait: bool) -> Iterator[None]:
        """Let the commands run beside the others until the end; with `wait`, begin when they serve."""
        log_file = self.folder / f".log{time.monotonic_ns()}"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                self._command(text),
                **self._where,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            if wait:
                url = f"http://127.0.0.1:{self.port}/readyz"
                wait_until(lambda: answers(url) or process.poll() is not None, START_SECONDS)
                assert process.poll() is None, f"the server did not start:\n{log_file.read_text()}"
            yield
            assert process.poll() is None, f"ended too early: {text}\n{log_file.read_text()}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)

    def _command(self, text: str) -> list[str]:
        for printed, free in self._ports.items():
            text = text.replace(printed, str(free))
        return ["bash", "-euo", "pipefail", "-c", text]


def run_page(page: Path, folder: Path) -> int:
    """Run every `sh` block of a page in `folder`, as a reader would in the repository; gives how many there were.

    ```sh             runs, and has to succeed
    ```sh server      starts a server in the background, waits until it is ready, stops it at the end of the page
    ```sh background  runs beside the following blocks until the end of the page
    ```text           right after a block: what it prints; "..." stands for anything, spaces and line breaks count as one space

    `folder` holds what the page takes for granted, such as models/ and a photo. PORTS are replaced by free ones.
    """
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    shell = Shell(folder)
    is_as, rules = (
        doctest.OutputChecker().check_output,
        doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    with ExitStack() as stack:
        for kind, text, expected in blocks:
            if kind != "run":
                stack.enter_context(shell.running(text, wait=kind == "server"))
                continue
            printed = shell.run(text)
            if expected is not None and not is_as(expected, printed, rules):
                pytest.fail(
                    f"these commands print something else:\n{text}\nexpected:\n{expected}\nprinted:\n{printed}"
                )
    return len(blocks)
