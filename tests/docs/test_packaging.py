"""What pyproject.toml asks for is what the tests run with: each lower bound is the version that the lock files hold."""

import ast
import re
import subprocess
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest
from dogsnap.server.gunicorn_config import Logger, gunicorn_options
from dogsnap.server.gunicorn_worker import MASTER, Server
from dogsnap.settings import Settings
from gunicorn.config import make_settings
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOCKS = [*(ROOT / "backend").glob("requirements*.txt"), ROOT / "tests/requirements.txt"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def locked() -> dict[str, Version]:
    """Name -> the smallest version that a lock file holds: some are locked once for each Python."""
    found: dict[str, Version] = {}
    for lock in LOCKS:
        for name, version in re.findall(
            r"^([\w.-]+)(?:\[.*\])?==([^ ;]+)", lock.read_text(encoding="utf-8"), re.M
        ):
            found[name] = min(found.get(name, Version(version)), Version(version))
    return found


def required() -> list[Requirement]:
    project = PROJECT["project"]
    optional, groups = project["optional-dependencies"], PROJECT["dependency-groups"]
    lines = chain(project["dependencies"], *optional.values(), *groups.values())
    return [
        Requirement(line) for line in lines if isinstance(line, str)
    ]  # no {include-group = ...}


@pytest.mark.parametrize("requirement", required(), ids=str)
def test_the_lower_bound_is_a_version_that_is_tested(requirement):
    """To its minor number, as what is new in a library comes by minor versions."""
    version = locked()[requirement.name]
    assert requirement.specifier.contains(version)
    bounds = [
        each.version.removesuffix(".*")
        for each in requirement.specifier
        if each.operator in (">=", "==")
    ]
    assert [Version(bound).release[:2] for bound in bounds] == [version.release[:2]], (
        "set it to the locked version"
    )


# What gunicorn's documentation names: https://gunicorn.org/custom and the setting logger_class.
DOCUMENTED = {"gunicorn.app.base.BaseApplication", "gunicorn.glogging.Logger"}


def imported(text: str) -> set[str]:
    """The names of gunicorn that a module imports."""
    if "gunicorn" not in text:
        return set()
    nodes = list(ast.walk(ast.parse(text)))
    whole = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    parts = {
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return {name for name in whole | parts if name.split(".")[0] == "gunicorn"}


def test_of_gunicorn_only_what_its_documentation_names_is_used():
    files = [file for file in (ROOT / "backend").rglob("*.py") if "node_modules" not in file.parts]
    assert {
        name for file in files for name in imported(file.read_text(encoding="utf-8"))
    } == DOCUMENTED


def test_every_setting_and_hook_of_gunicorn_is_one_of_its_settings(monkeypatch):
    monkeypatch.setenv(MASTER, "")  # set by a server, and meant for the process that replaces it
    server = Server(Settings())
    changed = {
        name
        for name, each in server.cfg.settings.items()
        if each.get() != make_settings()[name].get()
    }
    assert {*gunicorn_options(Settings())} <= {*server.cfg.settings}
    assert {"pre_fork", "post_worker_init", "worker_exit"} <= changed


@pytest.mark.parametrize("ours", [Server, Logger])
def test_no_private_method_of_gunicorn_is_overridden(ours):
    base = next(each for each in ours.__mro__ if each.__module__.startswith("gunicorn."))
    overridden = {name for name in {*vars(ours)} & {*dir(base)} if not name.startswith("__")}
    assert overridden <= {"load_config", "load", "setup", "error", "exception", "warning"}


@pytest.fixture(scope="module")
def wheel() -> list[str]:
    """The names in the wheel that `make wheel` builds of what is installed and built already."""
    built = (".venv/.installed", "backend/dogsnap/server/pages/app/index.html")
    command = ["make", *(f"--assume-old={file}" for file in built), "wheel"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=600)
    (file,) = (ROOT / "build" / "wheel").glob("*.whl")
    return zipfile.ZipFile(file).namelist()


def test_the_wheel_has_one_top_level_package(wheel):
    folders = {name.partition("/")[0] for name in wheel}
    packages = {folder for folder in folders if not folder.endswith(".dist-info")}
    assert packages == {"dogsnap"}


@pytest.mark.parametrize(
    "name",
    ["app/index.html", "app/app.js", "console/page.html", "docs/page.html"],
)
def test_the_wheel_has_the_app_and_the_pages(wheel, name):
    assert f"dogsnap/server/pages/{name}" in wheel


def test_the_wheel_has_no_file_of_the_tests_or_of_a_former_build(wheel):
    sources = {
        str(file.relative_to(ROOT / "backend")) for file in (ROOT / "backend/dogsnap").rglob("*.py")
    }
    assert {name for name in wheel if name.endswith(".py")} == sources
