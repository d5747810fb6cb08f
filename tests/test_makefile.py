"""The Makefile, dry or in a folder of its own with programs that only say how they were called. Nothing is installed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WEB = Path("backend/web")
INPUTS = (
    *("pyproject.toml", "backend/requirements.txt", "tests/requirements.txt"),
    *(
        WEB / name
        for name in ("package.json", "package-lock.json", "build.mjs", "runtime/index.js", "compiler/index.mjs")
    ),
    "miniprogram/app.js",
)

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="make, which the Makefile is for, is missing")


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


def make(folder: Path, *arguments: str, path: str = os.environ["PATH"]) -> str:
    done = subprocess.run(
        ["make", *arguments], cwd=folder, env={"PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_mini_program_is_built_by_the_locked_node_whatever_the_machine_has(checkout, tmp_path):
    for name in ("node", "npm"):
        program(tmp_path / "machine" / name, f"echo an old {name}; exit 1")
    program(checkout / ".venv/bin/node", 'echo "the locked node: $*"')
    program(checkout / ".venv/bin/npm", 'echo "the locked npm: $1"; node script-of-npm')
    (checkout / ".venv/.installed").touch()
    said = make(checkout, "backend/web/dist/index.html", path=f"{tmp_path / 'machine'}:{os.environ['PATH']}")
    calls = [line for line in said.splitlines() if not line.startswith("dogsnap: ")]
    assert calls == ["the locked npm: ci", "the locked node: script-of-npm", "the locked node: backend/web/build.mjs"]


def test_the_dependencies_can_be_locked_in_a_new_checkout(checkout):
    said = make(checkout, "--dry-run", "lock")
    assert said.index("install --require-hashes -r tests/requirements.txt") < said.index(".venv/bin/uv pip compile")


def test_extras_are_installed_into_the_environment_when_they_are_named():
    install = "install --no-build-isolation --editable '.[vit,ray]'"
    assert install in make(ROOT, "--dry-run", "setup", "EXTRAS=vit,ray")
    assert "'.[" not in make(ROOT, "--dry-run", "setup")
