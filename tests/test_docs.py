"""README is tested: commands, settings, routes and files that it names exist, and what exists is named."""

import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from flask import Flask

from backend.app import create_app
from backend.cli import COMMANDS, main
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


def test_every_extra_in_the_readme_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(re.findall(r"`make setup EXTRAS=([a-z]+)`", README)) <= set(extras)


def capacity_by_the_command(command: str) -> list[tuple[str, ...]]:
    """For each rate: itself, nodes, per cent busy, 99th percentile in ms, gateways, and Mbit/s in."""
    said = CliRunner().invoke(main, command.split()[1:]).output
    row = r"^(\d+) photos/s: (\d+) x .* (\d+) % busy, .* p99 (\d+) ms; gateways: (\d+); ([\d.]+) Mbit/s in$"
    return re.findall(row, said, re.M)


def capacity_in_the_readme(column: int) -> list[tuple[str, ...]]:
    """The same from the table, where version 3 is in column 1 and version 2 in column 2."""
    found = []
    for line in re.findall(r"^\| ([\d,]+ \| \d+ nodes?\b.*) \|$", README, re.M):
        cells = line.replace(",", "").split(" | ")
        nodes = re.findall(r"(\d+) nodes?.* (\d+) % busy p99 (\d+) ms", cells[column])[0]
        network, unit = cells[4].split()
        megabits = float(network) * (1000 if unit == "Gbit/s" else 1)
        found.append((cells[0], *nodes, cells[3].replace("none", "0"), f"{megabits:.1f}"))
    return found


@pytest.mark.parametrize(("photo_ms", "column"), [(22, 1), (85, 2)])
def test_the_capacity_in_the_readme_is_what_the_command_says(photo_ms: int, column: int) -> None:
    (command,) = [span for span in CODE_SPANS if span.startswith("dogsnap capacity --photo-ms 22 ")]
    said = capacity_by_the_command(command.replace("--photo-ms 22", f"--photo-ms {photo_ms}"))
    assert len(said) == 3
    assert capacity_in_the_readme(column) == said


def test_every_file_of_the_path_of_a_photo_exists() -> None:
    steps = re.findall(r"^\| \w[\w, ]* \| `([^`]+)` \|", README, re.M)
    assert len(steps) == 9
    for path in steps:
        assert (ROOT / path).exists(), f"{path} of the path of a photo does not exist"


def test_nothing_else_lies_at_the_top_level() -> None:
    expected = {"backend", "miniprogram", "models", "tests", "README.md", "pyproject.toml", "Makefile", "LICENSE"}
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert found - {"build", "dogsnap.egg-info"} <= expected
