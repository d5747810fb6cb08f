"""The documents are tested: what they name exists, and what exists is documented in exactly one place."""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from flask import Flask
from prometheus_client.metrics_core import Metric

from backend.app import create_app
from backend.cli import COMMANDS, main
from backend.gateway.assembly import create_gateway
from backend.serving.assembly import create_predictor
from backend.serving.inference.predictor import Predictor
from backend.settings import Settings, flag, table

ROOT = Path(__file__).parents[2]
FOLDERS = ("backend", "miniprogram", "models", "tests")
FILES = [*ROOT.glob("*.md"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.md"))]
DOCUMENTS = {
    file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
    for file in sorted(FILES)
    if "node_modules" not in file.parts
}
SERVER = DOCUMENTS["backend/README.md"]
FENCES = re.compile(r"^```.*?^```", re.M | re.S)
# Folders that commands write, and files that only some machines have.
MADE = re.compile(r"(build|models/\w+/\d+|models/vit|models/cyclegan|backend/web/dist)(/|$)")


def spans(text: str) -> list[str]:
    """What a document sets as code: `spans`, and each line of the fenced blocks."""
    lines = [line for block in FENCES.findall(text) for line in block.splitlines()[1:-1]]
    return re.findall(r"`([^`\n]+)`", FENCES.sub("", text)) + [line.strip() for line in lines]


EVERYWHERE = [span for text in DOCUMENTS.values() for span in spans(text)]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Flask:
    settings = Settings(models=tmp_path_factory.mktemp("none"))
    return create_app(settings, create_predictor(settings))


# -- README ------------------------------------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) < 8000


def test_nothing_else_lies_at_the_top_level() -> None:
    expected = {*FOLDERS, "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "Makefile"}
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert found - {"build", "dogsnap.egg-info"} <= expected


def folders_in_the_tree() -> set[str]:
    """The paths of the indented tree in the README."""
    (tree,) = re.findall(r"^```text\n(backend/.*?)^```", DOCUMENTS["README.md"], re.M | re.S)
    parents: list[str] = []
    found = set()
    for line in tree.splitlines():
        indent, name = re.match(r"( *)([\w/]+)/ ", line).groups()
        parents = [*parents[: len(indent) // 2], name]
        found.add("/".join(parents))
    return found


def test_the_tree_in_the_readme_is_the_table_of_contents() -> None:
    packages = {file.parent.relative_to(ROOT).as_posix() for file in (ROOT / "backend").rglob("__init__.py")}
    parts = {
        path for path in packages if path.endswith(("/programs", "/helpers"))
    }  # of one folder, no subject of their own
    folders = {"backend/web", "backend/deploy", "backend/tutorials", "miniprogram", "models", "tests"}
    assert folders_in_the_tree() == packages - parts | folders


# -- commands ----------------------------------------------------------------------------------------------------------


def shown_commands() -> Iterator[list[str]]:
    """Each `dogsnap ...` in the documents as words, without the value of any option that ends a sentence."""
    for span in EVERYWHERE:
        for found in re.findall(r"(?:^|[\s(])dogsnap ((?:[a-z-]+|--help)\b[^|;&>)]*)", span):
            yield found.split()


def test_every_command_is_documented_and_every_command_shown_exists() -> None:
    rows = re.findall(r"^\| `dogsnap ([a-z-]+)", SERVER, re.M)
    assert set(rows) == set(COMMANDS)
    assert {words[0] for words in shown_commands() if words[0] != "COMMAND"} == set(COMMANDS)


@pytest.mark.parametrize("words", sorted({tuple(words) for words in shown_commands()}), ids=" ".join)
def test_every_subcommand_and_flag_of_a_command_shown_exists(words: tuple[str, ...]) -> None:
    command: click.Command | None = main
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        command = command.get_command(click.Context(command), name)
        assert command is not None, f"there is no command {name!r} in {' '.join(words)}"
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in rest:
        if word.startswith("--"):
            assert word.partition("=")[0].rstrip(",.:") in known | {"--help"}, f"{word} is not an option of {words}"


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = {match for span in EVERYWHERE for match in re.findall(r"(?:^|&& )make ([a-z-]+)", span)}
    assert {"run", "test", "setup"} <= named
    assert named <= targets


def test_every_extra_is_documented_and_every_extra_named_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (sentence,) = re.findall(r"`make setup EXTRAS=vit`, or (.*?);", SERVER)
    named = {match for span in EVERYWHERE for match in re.findall(r"make setup EXTRAS=([a-z]+)", span)}
    assert {"vit", *re.findall(r"`([a-z]+)`", sentence)} == set(project["optional-dependencies"])
    assert named <= set(project["optional-dependencies"])


# -- settings, routes and metrics --------------------------------------------------------------------------------------


def test_every_setting_is_documented_once_with_its_default_and_its_help() -> None:
    rows = [
        row
        for text in DOCUMENTS.values()
        for row in re.findall(r"^\| `(--[a-z0-9-]+)` \| `(.*?)` \| (.*) \|$", text, re.M)
    ]
    assert sorted(rows) == sorted((flag(row.name), str(row.default), row.metadata["help"]) for row in table())


def named_routes(text: str) -> list[tuple[str, str]]:
    return [found for span in spans(text) for found in re.findall(r"^(GET|POST|PUT|DELETE) (/[^\s?]*)", span)]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_route_in_a_document_exists(app: Flask, document: str) -> None:
    adapter = app.url_map.bind("localhost")
    for method, path in named_routes(DOCUMENTS[document]):
        filled = re.sub(r"<\w+>|\.\.\.", "1", path)
        endpoint, _ = adapter.match(filled, method=method)
        assert not endpoint.startswith("web") or path == "/", f"{method} {path} has no route"


def without_names(path: str) -> str:
    """A path with its parameters all alike: /models/<model> and /models/<path:name> are one."""
    return re.sub(r"<[^>]*>", "<>", path)


def paths_of(rule: str) -> list[str]:
    """The paths of a route: one for each choice where it offers some."""
    choices = re.search(r"<any\((.*?)\):\w+>", rule)
    return [rule.replace(choices[0], choice.strip(" '")) for choice in choices[1].split(",")] if choices else [rule]


def test_every_route_is_documented_once(app: Flask) -> None:
    tables = "\n".join(re.findall(r"^\|.*\|$", SERVER, re.M))
    named = Counter((method, without_names(path)) for method, path in named_routes(tables))
    assert [route for route, count in named.items() if count > 1] == []
    paths = {path for _, path in named}
    for rule in app.url_map.iter_rules():
        blueprint, _, endpoint = rule.endpoint.partition(".")
        if blueprint.startswith(("tf_serving", "web")) or endpoint == "file":
            continue  # patterns, /v1/..., and the files of the mini program and of pages
        missing = [path for path in paths_of(rule.rule) if without_names(path) not in paths]
        assert not missing, f"backend/README.md does not document {missing}"


def families(predictor: Predictor) -> Iterator[Metric]:
    yield from predictor.metrics.registry.collect()
    predictor.close()


def test_every_metric_is_documented_once_with_its_type_and_its_help(tmp_path) -> None:
    rows = [
        row
        for text in DOCUMENTS.values()
        for row in re.findall(r"^\| `(dogsnap_\w+)` \| (\w+) \| .*? \| (.*) \|$", text, re.M)
    ]
    settings = Settings(models=tmp_path, engine="grpc://127.0.0.1:1")
    found = {
        (each.name + "_total" * (each.type == "counter"), each.type, each.documentation)
        for predictor in (create_predictor(settings), create_gateway(settings))
        for each in families(predictor)
        if each.name.startswith("dogsnap_")
    }
    assert len(found) > 15
    assert sorted((name, kind, text.removesuffix("; only with `--engine`")) for name, kind, text in rows) == sorted(
        found
    )


# -- files and links ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_a_document_names_exists(document: str) -> None:
    for span in spans(DOCUMENTS[document]):
        for path in re.findall(r"^(?:backend|miniprogram|models|tests)/[\w./-]*\w$", span):
            assert MADE.match(path) or (ROOT / path).exists(), f"{document} names {path}"


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.*)$", FENCES.sub("", text), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_in_a_document_leads_somewhere(document: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCES.sub("", DOCUMENTS[document])):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        file = (ROOT / document).parent / path if path else ROOT / document
        assert file.exists(), f"{document} links to {link}"
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{document} links to {link}"


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), ["README.md"]
    while waiting:
        document = waiting.pop()
        if document in reached or document not in DOCUMENTS:
            continue
        reached.add(document)
        for path in re.findall(r"\]\(([^)\s#]+\.md)", DOCUMENTS[document]):
            target = ((ROOT / document).parent / path).resolve()
            waiting.append(target.relative_to(ROOT.resolve()).as_posix())
    assert reached == set(DOCUMENTS)


# -- capacity ----------------------------------------------------------------------------------------------------------


def test_the_table_of_capacity_follows_from_its_figures() -> None:
    """The arithmetic that backend/deploy/README.md describes, with the figures that it lists."""
    text = DOCUMENTS["backend/deploy/README.md"]
    fast, plain = map(int, re.findall(r"version 3: (\d+); version 2: (\d+)", text)[0])
    gateway = int(re.findall(r"one core of a gateway .*?\| (\d+) \|", text)[0])
    kilobytes = int(re.findall(r"size of a photo from the app \| (\d+) kB", text)[0])
    rows = re.findall(r"^\| ([\d,]+) \| (\d+) \| (\d+) \| (\d+) \| ([\d,.]+) Mbit/s \|$", text, re.M)
    assert len(rows) == 3
    for row in rows:
        rate, with_fast, with_plain, gateways, megabits = (float(cell.replace(",", "")) for cell in row)
        assert with_fast == math.ceil(rate / (0.7 * fast))
        assert with_plain == math.ceil(rate / (0.7 * plain))
        assert gateways == (math.ceil(rate / (0.5 * gateway)) if with_fast > 1 else 0)
        assert megabits == pytest.approx(rate * kilobytes * 8 / 1000)
