"""Runs the commands of a document: its fenced `sh` blocks, in order, in one folder, against a real server.

How to mark the blocks of a page is described at `run_page`.
"""

import doctest
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from ports import START_SECONDS, free_port
from waiting import answers, wait_until

STEP_SECONDS = 300
FENCE = re.compile(r"^```(?P<language>\w+)(?: (?P<kind>\w+))?\n(?P<text>.*?)^```$", re.M | re.S)
# `make` is replaced: what it builds is there already, and it would build it into the repository.
MAKE = (
    '#!/bin/sh\ncase "$1" in run) exec dogsnap serve;; setup) ;; *) echo "make $1 is not replaced" >&2; exit 2;; esac\n'
)


@dataclass(frozen=True)
class Block:
    """One fenced block: `kind` is "run", "server" or "background"; `output` is None where nothing is expected."""

    kind: str
    text: str
    output: str | None


def blocks_of(page: str) -> list[Block]:
    """The `sh` blocks of a page. A `text` block right after one that runs is what it is expected to print."""
    found: list[Block] = []
    end = 0
    for fence in FENCE.finditer(page):
        if fence["language"] == "sh":
            found.append(Block(fence["kind"] or "run", fence["text"], None))
        elif fence["language"] == "text" and found and not page[end : fence.start()].strip():
            found[-1] = Block(found[-1].kind, found[-1].text, fence["text"])
        end = fence.end()
    return found


class Shell:
    """Runs blocks in `folder`, with ports of its own in place of 8501 and 8500."""

    def __init__(self, folder: Path):
        self.folder, self.port, self.grpc_port = folder, free_port(), free_port()
        programs = folder / ".programs"
        programs.mkdir()
        (programs / "make").write_text(MAKE)
        (programs / "make").chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DOGSNAP_")}
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        ports = {"DOGSNAP_PORT": str(self.port), "DOGSNAP_GRPC_PORT": str(self.grpc_port)}
        self._where = {"cwd": folder, "env": {**kept, **ports, "PATH": path, "TF_CPP_MIN_LOG_LEVEL": "2"}}

    def run(self, text: str) -> str:
        """What the commands print on standard output; fails the test unless each of them succeeds."""
        done = subprocess.run(
            self._command(text), **self._where, capture_output=True, text=True, timeout=STEP_SECONDS, check=False
        )
        if done.returncode:
            pytest.fail(f"these commands failed ({done.returncode}):\n{text}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    @contextmanager
    def running(self, text: str, wait: bool) -> Iterator[None]:
        """Let the commands run beside the others until the end; with `wait`, begin when they serve."""
        log_file = self.folder / f".log{time.monotonic_ns()}"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                self._command(text), **self._where, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            if wait:
                self._wait_until_ready(process, log_file)
            yield
            assert process.poll() is None, f"ended too early: {text}\n{log_file.read_text()}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)

    def _command(self, text: str) -> list[str]:
        text = text.replace("8501", str(self.port)).replace("8500", str(self.grpc_port))
        return ["bash", "-euo", "pipefail", "-c", text]

    def _wait_until_ready(self, process: subprocess.Popen, log_file: Path) -> None:
        url = f"http://127.0.0.1:{self.port}/readyz"
        wait_until(lambda: answers(url) or process.poll() is not None, START_SECONDS)
        assert process.poll() is None, f"the server did not start:\n{log_file.read_text()}"


def run_page(page: Path, folder: Path) -> int:
    """Run every `sh` block of a page in `folder`, as a reader would in the repository; gives how many there were.

    ```sh             runs, and has to succeed
    ```sh server      starts a server in the background, waits until it is ready, stops it at the end of the page
    ```sh background  runs beside the following blocks until the end of the page
    ```text           right after a block: what it prints; "..." stands for anything, spaces and line breaks count as one space

    `folder` holds what the page takes for granted, such as models/ and a photo. Ports 8501 and 8500 are replaced by free ones.
    """
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    shell = Shell(folder)
    with ExitStack() as stack:
        for block in blocks:
            if block.kind == "run":
                _check_output(block, shell.run(block.text))
            else:
                stack.enter_context(shell.running(block.text, wait=block.kind == "server"))
    return len(blocks)


def _check_output(block: Block, printed: str) -> None:
    rules = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if block.output is not None and not doctest.OutputChecker().check_output(block.output, printed, rules):
        pytest.fail(
            f"these commands print something else:\n{block.text}\nexpected:\n{block.output}\nprinted:\n{printed}"
        )
