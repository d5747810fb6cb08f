"""What pyproject.toml asks for is what the tests run with: each lower bound is the version that the lock files hold."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import gunicorn
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import backend.http_server
from backend.http_server import GUNICORN, arbiter, config, worker

ROOT = Path(__file__).parent.parent
LOCKS = [
    ROOT / folder / "requirements.txt" for folder in ("backend", "backend/web", "tests", "backend/bench", "backend/ray")
] + [ROOT / "backend/requirements-uv.txt"]
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
    groups = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *PROJECT["dependency-groups"].values(),
    ]
    return [
        Requirement(line) for group in groups for line in group if isinstance(line, str)
    ]  # no {include-group = ...}


@pytest.mark.parametrize("requirement", required(), ids=str)
def test_the_lower_bound_is_a_version_that_is_tested(requirement):
    """To its minor number, as what is new in a library comes by minor versions."""
    version = locked()[requirement.name]
    assert requirement.specifier.contains(version)
    bounds = [each.version.removesuffix(".*") for each in requirement.specifier if each.operator in (">=", "==")]
    assert [Version(bound).release[:2] for bound in bounds] == [version.release[:2]], (
        "set the bound to the locked version"
    )


def test_gunicorn_of_whose_private_parts_we_build_is_pinned_to_the_version_that_runs():
    (requirement,) = [each for each in required() if each.name == "gunicorn"]
    assert str(requirement.specifier) == f"=={gunicorn.__version__}"
    assert requirement.specifier.contains(GUNICORN)


def test_another_gunicorn_is_refused_with_a_sentence(monkeypatch):
    monkeypatch.setattr(gunicorn, "__version__", "26.2.0")
    sentence = rf"needs gunicorn {GUNICORN}, found 26\.2\.0; install the locked dependencies with `make setup`"
    with pytest.raises(ImportError, match=sentence):
        importlib.reload(backend.http_server)


# What Python puts into every class.
BY_PYTHON = {"__doc__", "__module__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__"}


def test_every_override_of_gunicorn_names_the_test_that_needs_it():
    ours = [each for module in (arbiter, config, worker) for each in vars(module).values() if inspect.isclass(each)]
    for each in ours:
        base = next((base for base in each.__mro__ if base.__module__.startswith("gunicorn.")), None)
        if not each.__module__.startswith("gunicorn.") and base:
            for name in {*vars(each)} & {*dir(base)} - BY_PYTHON:
                assert re.search(rf"\b{base.__name__}\.{name}\b", backend.http_server.__doc__), (
                    f"{each.__name__}.{name}"
                )
    tests = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py"))
    named = re.findall(r"\btest_\w+", backend.http_server.__doc__)
    assert [name for name in named if f"def {name}(" not in tests] == []
