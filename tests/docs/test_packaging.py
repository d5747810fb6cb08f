"""What pyproject.toml asks for is what the tests run with: each lower bound is the version that the lock files hold."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
FOLDERS = ("backend", "backend/web", "tests", "backend/bench", "backend/ray")
LOCKS = [*(ROOT / folder / "requirements.txt" for folder in FOLDERS), ROOT / "backend/requirements-uv.txt"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def locked() -> dict[str, Version]:
    """Name -> the smallest version that a lock file holds: some are locked once for each Python."""
    found: dict[str, Version] = {}
    for lock in LOCKS:
        for name, version in re.findall(r"^([\w.-]+)(?:\[.*\])?==([^ ;]+)", lock.read_text(encoding="utf-8"), re.M):
            found[name] = min(found.get(name, Version(version)), Version(version))
    return found


def required() -> list[Requirement]:
    project = PROJECT["project"]
    optional, groups = project["optional-dependencies"], PROJECT["dependency-groups"]
    lines = chain(project["dependencies"], *optional.values(), *groups.values())
    return [Requirement(line) for line in lines if isinstance(line, str)]  # no {include-group = ...}


@pytest.mark.parametrize("requirement", required(), ids=str)
def test_the_lower_bound_is_a_version_that_is_tested(requirement):
    """To its minor number, as what is new in a library comes by minor versions."""
    version = locked()[requirement.name]
    assert requirement.specifier.contains(version)
    bounds = [each.version.removesuffix(".*") for each in requirement.specifier if each.operator in (">=", "==")]
    assert [Version(bound).release[:2] for bound in bounds] == [version.release[:2]], "set it to the locked version"
