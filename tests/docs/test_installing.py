"""Installing, with programs in place of uv and pip that only say how they were called."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "backend" / "install.py"
LOCKED = ("--require-hashes", "-r", "backend/requirements.txt")
# Of whoever runs the tests.
OWN = ("UV_DEFAULT_INDEX", "PIP_INDEX_URL")


def program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@pytest.fixture
def environment(tmp_path) -> Path:
    """An environment whose pip is configured for a company's index."""
    folder = tmp_path / "environment"
    calls = tmp_path / "calls"
    program(
        folder / "bin/pip",
        f'case "$*" in *config*) echo https://index.example/simple;; *) echo "pip $*" >> {calls};; esac',
    )
    program(
        folder / "bin/uv",
        f'echo "uv $UV_DEFAULT_INDEX $UV_SYSTEM_CERTS $https_proxy $*" >> {calls}; test ! -e {tmp_path}/uv-fails',
    )
    program(folder / "bin/python", "")
    return folder


def install(environment: Path, **variables: str) -> tuple[list[str], str]:
    """How uv and pip were called, and what was said."""
    environ = {name: value for name, value in os.environ.items() if name not in OWN}
    done = subprocess.run(
        [sys.executable, SCRIPT, environment, *LOCKED],
        env={**environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return (environment.parent / "calls").read_text().splitlines(), done.stderr


def test_uv_installs_from_the_index_that_pip_is_configured_for_and_trusts_the_system(environment):
    (call,), said = install(environment, https_proxy="http://proxy.example:3128")
    assert call.startswith(
        "uv https://index.example/simple 1 http://proxy.example:3128 pip install"
    )
    assert call.endswith(f"--python {environment}/bin/python {' '.join(LOCKED)}")
    assert said == ""


@pytest.mark.parametrize("variable", OWN)
def test_an_index_in_the_environment_counts_more_than_the_configured_one(environment, variable):
    (call,), _ = install(environment, **{variable: "https://other.example/simple"})
    assert call.startswith("uv https://other.example/simple ")


def test_pip_installs_the_same_where_uv_fails(environment):
    (environment.parent / "uv-fails").touch()
    calls, said = install(environment)
    assert "uv failed, so pip installs" in said
    assert calls[-1].endswith(f"install --no-compile {' '.join(LOCKED)}")


def test_pip_installs_where_uv_cannot_even_start(environment):
    (environment / "bin/uv").write_text("made for another processor")
    calls, said = install(environment)
    assert "uv failed, so pip installs" in said
    assert calls[-1].startswith("pip ")


def test_pip_installs_without_a_word_where_there_is_no_uv_yet(environment):
    (environment / "bin/uv").unlink()
    (call,), said = install(environment)
    assert call.startswith("pip ")
    assert said == ""


@pytest.mark.parametrize("pip_version", ["23.2.1", "22.2", ""])
def test_a_new_environment_has_a_pip_of_its_own_where_the_machines_cannot_install_into_it(
    tmp_path, monkeypatch, pip_version
):
    """From pip 22.3 on it can; "": the machine has none."""
    program(tmp_path / "modules/pip.py", "")
    (tmp_path / "modules/pip.py").write_text(f"__version__ = {pip_version!r}")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.delitem(sys.modules, "pip", raising=False)
    if not pip_version:
        monkeypatch.setitem(sys.modules, "pip", None)  # import fails
    made = []
    monkeypatch.setattr(subprocess, "check_call", made.append)
    functions = runpy.run_path(str(SCRIPT))
    functions["make_environment"](tmp_path / "new")
    ((_, _, _, *arguments),) = made
    expected = ["--without-pip"] if pip_version == "23.2.1" else []
    assert arguments == [*expected, str(tmp_path / "new")]


def test_another_python_is_refused_with_what_to_do(monkeypatch):
    functions = runpy.run_path(str(SCRIPT))
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    with pytest.raises(
        SystemExit, match=r"needs Python 3\.11 to 3\.13, this is 3\.10: make PYTHON="
    ):
        functions["check_python"]()
