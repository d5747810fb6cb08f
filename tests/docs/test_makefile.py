"""The Makefile, dry or in a folder of its own with programs that only say how they were called. Nothing is installed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = Path("backend/web")
INPUTS = (
    *(
        "pyproject.toml",
        "backend/requirements.txt",
        "backend/requirements-uv.txt",
        "tests/requirements.txt",
    ),
    *(WEB / name for name in ("requirements.txt", "package.json", "package-lock.json")),
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
    for name in ("bin/python", ".installed-uv", ".installed-node"):
        (checkout / ".venv" / name).touch()
    path = f"{tmp_path / 'machine'}:{os.environ['PATH']}"
    said = make(
        checkout, "backend/dogsnap/server/pages/app/index.html", path=path, NODE_OPTIONS="-r x"
    )
    assert [line for line in said.splitlines() if not line.startswith("dogsnap: ")] == [
        "the locked npm: ci -r x --use-system-ca",  # npm trusts the certificates of the system
        "the locked node: script-of-npm",
        "the locked node: backend/web/build.mjs",
    ]


@pytest.fixture
def installers(checkout) -> Path:
    """The folder of a pip that knows another package index, and of a uv; both note how they were called."""
    folder = checkout / ".venv/bin"
    program(
        folder / "pip",
        'case "$*" in *config*) echo https://index.example/simple;; *) echo "pip $*" >> calls;; esac',
    )
    program(folder / "uv", 'echo "uv $UV_DEFAULT_INDEX $*" >> calls; test ! -e uv-fails')
    (folder / "python").touch()
    return folder


LOCKED = "--require-hashes -r backend/requirements.txt"


def test_uv_installs_what_is_locked_from_the_index_that_pip_is_configured_for(checkout, installers):
    make(checkout, ".venv/.installed")
    calls = (checkout / "calls").read_text().splitlines()
    assert calls[0].endswith("install --quiet --require-hashes -r backend/requirements-uv.txt")
    assert (
        calls[1]
        == f"uv https://index.example/simple pip install --python .venv/bin/python {LOCKED}"
    )
    assert [call.split()[0] for call in calls] == ["pip", "uv", "uv"]


def test_pip_installs_the_same_where_uv_fails(checkout, installers):
    (checkout / "uv-fails").touch()
    assert "uv failed, so pip installs" in make(checkout, ".venv/.installed")
    assert f"install --no-compile {LOCKED}" in (checkout / "calls").read_text()


def test_extras_are_installed_into_the_environment_when_they_are_named():
    install = "install --no-build-isolation --editable '.[vit,ray]'"
    assert install in make(ROOT, "--dry-run", "setup", "EXTRAS=vit,ray")
    assert "'.[" not in make(ROOT, "--dry-run", "setup")
