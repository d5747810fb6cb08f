"""The Makefile, dry or in a folder of its own with programs that only say how they were called. Nothing is installed."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = [*(ROOT / "backend").glob("requirements*.txt"), ROOT / "tests/requirements.txt"]
NO_INDEX = ("Failed to fetch", "client error", "network")
WEB = Path("backend/web")
INPUTS = (
    *(
        "pyproject.toml",
        "backend/requirements.txt",
        "backend/requirements-build.txt",
        "backend/install.py",
        "tests/requirements.txt",
    ),
    *(WEB / name for name in ("package.json", "package-lock.json")),
    *(WEB / name for name in ("build.mjs", "runtime/index.js", "compiler/index.mjs")),
    "miniprogram/app.js",
)

pytestmark = pytest.mark.skipif(
    not shutil.which("make"), reason="make, which the Makefile is for, is missing"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the Makefile looks at, empty."""
    folder = tmp_path / "checkout"
    for name in (*INPUTS, WEB / "node_modules/any"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    shutil.copy(ROOT / "Makefile", folder)
    return folder


def program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def make(folder: Path, *arguments: str, path: str = os.environ["PATH"], **variables: str) -> str:
    environment = {"PATH": path, **variables}
    done = subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_mini_program_is_built_by_the_locked_node_whatever_the_machine_has(checkout, tmp_path):
    for name in ("node", "npm"):
        program(tmp_path / "machine" / name, f"echo an old {name}; exit 1")
    program(checkout / ".venv/bin/node", 'echo "the locked node: $*"')
    program(
        checkout / ".venv/bin/npm", 'echo "the locked npm: $1 $NODE_OPTIONS"; node script-of-npm'
    )
    (checkout / ".venv/.installed-build").touch()
    path = f"{tmp_path / 'machine'}:{os.environ['PATH']}"
    said = make(
        checkout, "backend/dogsnap/server/pages/app/index.html", path=path, NODE_OPTIONS="-r x"
    )
    assert [line for line in said.splitlines() if not line.startswith("dogsnap: ")] == [
        "the locked npm: ci -r x --use-system-ca",  # npm trusts the certificates of the system
        "the locked node: script-of-npm",
        "the locked node: backend/web/build.mjs",
    ]


def test_what_is_locked_is_installed_in_this_order(checkout, tmp_path):
    """uv and Node before all else, which uv installs."""
    program(tmp_path / "python", 'echo "$*"')
    (checkout / ".venv").mkdir()
    said = make(checkout, ".venv/.installed-test", PYTHON=str(tmp_path / "python"))
    calls = [line for line in said.splitlines() if line.startswith("backend/install.py")]
    locked = [
        "backend/requirements-build.txt",
        "backend/requirements.txt",
        "tests/requirements.txt",
    ]
    assert [call.split()[-1] for call in calls] == [*locked[:2], ".", locked[2]]
    assert all("--require-hashes" in call for call in calls if not call.endswith("."))


def test_locking_again_changes_nothing(tmp_path):
    """As long as pyproject.toml asks for nothing else: what is locked stays, whatever is newer."""
    copied = ("pyproject.toml", *(str(lock.relative_to(ROOT)) for lock in LOCKS))
    for name in copied:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for command in make(ROOT, "--dry-run", "lock").splitlines():
        if " pip compile " not in command:
            continue
        words = shlex.split(command)
        words[0] = str(ROOT / words[0])
        environ = {**os.environ, "UV_SYSTEM_CERTS": "1"}
        done = subprocess.run(
            words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        if any(each in done.stderr for each in NO_INDEX):
            pytest.skip("no package index answers, which a test of the lock files asks")
        assert done.returncode == 0, done.stderr
    for name in copied:
        assert (tmp_path / name).read_text() == (ROOT / name).read_text(), f"make lock, for {name}"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_what_is_locked_has_hashes_and_no_address(lock):
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    pinned = re.split(r"^(?=[\w.-]+(?:\[.*\])?==)", text, flags=re.M)[1:]
    assert pinned
    assert all("--hash=sha256:" in each for each in pinned)


def test_extras_are_installed_into_the_environment_when_they_are_named():
    install = "backend/install.py .venv --no-build-isolation --editable '.[vit,ray]'"
    assert install in make(ROOT, "--dry-run", "setup", "EXTRAS=vit,ray")
    assert "'.[" not in make(ROOT, "--dry-run", "setup")
