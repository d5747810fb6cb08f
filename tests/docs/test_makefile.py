"""The Makefile, dry or in a folder of its own with programs that only say how they were called. Nothing is installed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = Path("backend/web")
INPUTS = (
    *("pyproject.toml", "backend/requirements.txt", "backend/requirements-uv.txt", "tests/requirements.txt"),
    *(
        WEB / name
        for name in (
            "requirements.txt",
            "package.json",
            "package-lock.json",
            "build.mjs",
            "runtime/index.js",
            "compiler/index.mjs",
        )
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


def make(folder: Path, *arguments: str, path: str = os.environ["PATH"], **variables: str) -> str:
    environment = {"PATH": path, **variables}
    done = subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_mini_program_is_built_by_the_locked_node_whatever_the_machine_has(checkout, tmp_path):
    for name in ("node", "npm"):
        program(tmp_path / "machine" / name, f"echo an old {name}; exit 1")
    program(checkout / ".venv/bin/node", 'echo "the locked node: $*"')
    program(checkout / ".venv/bin/npm", 'echo "the locked npm: $1"; node script-of-npm')
    for name in ("bin/python", ".installed-uv", ".installed-node"):
        (checkout / ".venv" / name).touch()
    said = make(checkout, "backend/web/dist/index.html", path=f"{tmp_path / 'machine'}:{os.environ['PATH']}")
    calls = [line for line in said.splitlines() if not line.startswith("dogsnap: ")]
    assert calls == ["the locked npm: ci", "the locked node: script-of-npm", "the locked node: backend/web/build.mjs"]


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "--use-system-ca"), ({"NODE_OPTIONS": "-r x"}, "-r x --use-system-ca")]
)
def test_npm_trusts_the_certificates_of_the_system(checkout, given, expected):
    program(checkout / ".venv/bin/node", "true")
    program(checkout / ".venv/bin/npm", "echo npm has $NODE_OPTIONS")
    for name in ("bin/python", ".installed-uv", ".installed-node"):
        (checkout / ".venv" / name).touch()
    assert f"npm has {expected}\n" in make(checkout, "backend/web/dist/index.html", **given)


def test_the_locked_node_takes_the_option_that_trusts_the_system():
    node = ROOT / ".venv/bin/node"
    if not node.exists():
        pytest.skip("the locked Node is missing: `make setup` installs it")
    (options,) = re.findall(r'NODE_OPTIONS="\$\$NODE_OPTIONS([^"]*)"', (ROOT / "Makefile").read_text(encoding="utf-8"))
    subprocess.run([node, "--eval", ""], env={"NODE_OPTIONS": options}, timeout=60, check=True)


def test_node_and_what_only_the_tests_need_of_npm_are_no_part_of_what_serves(checkout):
    said = make(checkout, "--dry-run", "backend/web/dist/index.html")
    assert "--require-hashes -r backend/web/requirements.txt" in said
    assert "npm ci --omit dev " in said
    assert not re.search("^nodejs", (ROOT / "backend/requirements.txt").read_text(encoding="utf-8"), re.M)
    assert "npm ci --prefix" in make(checkout, "--dry-run", "backend/web/node_modules/.installed-test")


@pytest.fixture
def installers(checkout) -> Path:
    """The folder of a pip that knows another package index, and of a uv; both note how they were called."""
    folder = checkout / ".venv/bin"
    program(
        folder / "pip", 'case "$*" in *config*) echo https://index.example/simple;; *) echo "pip $*" >> calls;; esac'
    )
    program(folder / "uv", 'echo "uv $UV_DEFAULT_INDEX $*" >> calls; test ! -e uv-fails')
    (folder / "python").touch()
    return folder


LOCKED = "--require-hashes -r backend/requirements.txt"


def test_uv_installs_what_is_locked_from_the_index_that_pip_is_configured_for(checkout, installers):
    make(checkout, ".venv/.installed")
    calls = (checkout / "calls").read_text().splitlines()
    assert calls[0].endswith("install --quiet --require-hashes -r backend/requirements-uv.txt")
    assert calls[1] == f"uv https://index.example/simple pip install --python .venv/bin/python {LOCKED}"
    assert [call.split()[0] for call in calls] == ["pip", "uv", "uv"]


def test_pip_installs_the_same_where_uv_fails(checkout, installers):
    (checkout / "uv-fails").touch()
    assert "uv failed, so pip installs" in make(checkout, ".venv/.installed")
    assert f"install --no-compile {LOCKED}" in (checkout / "calls").read_text()


def test_the_dependencies_can_be_locked_in_a_new_checkout(checkout):
    said = make(checkout, "--dry-run", "lock")
    assert said.index("install --require-hashes -r tests/requirements.txt") < said.index(".venv/bin/uv pip compile")


def test_extras_are_installed_into_the_environment_when_they_are_named():
    install = "install --no-build-isolation --editable '.[vit,ray]'"
    assert install in make(ROOT, "--dry-run", "setup", "EXTRAS=vit,ray")
    assert "'.[" not in make(ROOT, "--dry-run", "setup")


def test_set_up_leaves_it_to_the_command_which_versions_are_built(checkout):
    said = make(checkout, "--dry-run", "versions")
    assert "dogsnap export inception_v3 --from models/inception_v3 --out models/ --merged --renew" in said
