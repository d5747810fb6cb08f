"""README is tested: commands, settings, routes and files that it names exist, and what exists is named."""

import re
from pathlib import Path

import pytest
from flask import Flask

from backend.app import create_app
from backend.cli import COMMANDS
from backend.serving.assembly import create_predictor
from backend.settings import Settings, flag, table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE_SPANS = re.findall(r"`([^`\n]+)`", README) + re.findall(
    r"^(?:\$ )?(\S.*)$", "\n".join(re.findall(r"```.*?```", README, re.S)), re.M
)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Flask:
    settings = Settings(models=tmp_path_factory.mktemp("none"))
    return create_app(settings, create_predictor(settings))


def test_every_command_is_in_the_readme_and_every_command_in_it_exists() -> None:
    named = {match for span in CODE_SPANS for match in re.findall(r"(?:^|\s)dogsnap ([a-z]+)", span)}
    assert named == set(COMMANDS)


def test_every_setting_is_in_the_readme_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(--[a-z0-9-]+)` \| `?(.*?)`? \|", README, re.M))
    assert rows == {flag(row.name): str(row.default) for row in table()}


def test_every_route_in_the_readme_exists(app: Flask) -> None:
    adapter = app.url_map.bind("localhost")
    routes = re.findall(r"`(GET|POST|PUT|DELETE) (/[^`\s?]*)", README)
    assert len(routes) >= 10
    for method, path in routes:
        filled = re.sub(r"<\w+>|\.\.\.", "1", path)
        endpoint, _ = adapter.match(filled, method=method)
        assert endpoint != "web.page" or path == "/", f"{method} {path} is answered by no door"


def without_names(path: str) -> str:
    """A path with its parameters all alike: /models/<model> and /models/<path:name> are one."""
    return re.sub(r"<[^>]*>", "<>", path)


def paths_of(rule: str) -> list[str]:
    """The paths of a route: one for each choice where it offers some."""
    choices = re.search(r"<any\((.*?)\):\w+>", rule)
    return [rule.replace(choices[0], choice.strip(" '")) for choice in choices[1].split(",")] if choices else [rule]


def test_every_route_is_in_the_readme(app: Flask) -> None:
    named = {without_names(path) for path in re.findall(r"`(?:GET|POST) (/[^`\s?]*)", README)}
    for rule in app.url_map.iter_rules():
        door, _, endpoint = rule.endpoint.partition(".")
        if door in ("tf_serving", "web") or endpoint == "file":
            continue  # patterns, /v1/..., and the files of the mini program and of pages
        missing = [path for path in paths_of(rule.rule) if without_names(path) not in named]
        assert not missing, f"README does not name {missing}"


def test_every_make_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = {match for span in CODE_SPANS for match in re.findall(r"^make ([a-z-]+)", span)}
    assert {"run", "test", "setup"} <= named
    assert named <= targets


def test_every_file_of_the_path_of_a_photo_exists() -> None:
    steps = re.findall(r"^\| \w[\w, ]* \| `([^`]+)` \|", README, re.M)
    assert len(steps) == 9
    for path in steps:
        assert (ROOT / path).exists(), f"{path} of the path of a photo does not exist"


def test_nothing_else_lies_at_the_top_level() -> None:
    expected = {"backend", "miniprogram", "models", "tests", "README.md", "pyproject.toml", "Makefile", "LICENSE"}
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert found - {"build", "dogsnap.egg-info"} <= expected
