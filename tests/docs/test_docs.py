"""The documents are tested: what they name exists, and what exists is documented in exactly one place."""

import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import architecture
import click
import pytest
import reference
from dogsnap.cli import COMMANDS, WITHDRAWN, main
from dogsnap.server.app import create_app
from dogsnap.serving.assembly import create_predictor
from dogsnap.settings import Settings

ROOT = Path(__file__).parents[2]
FOLDERS = ("backend", "docs", "miniprogram", "models", "tests")
FILES = [
    *ROOT.glob("*.md"),
    *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.md")),
]
DOCUMENTS = {
    file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
    for file in sorted(FILES)
    if "node_modules" not in file.parts
}
SERVER = "\n".join(text for name, text in DOCUMENTS.items() if re.fullmatch(r"docs/\w+\.md", name))
FENCES = re.compile(r"^```.*?^```", re.M | re.S)
# Folders that commands write, and files that only some machines have.
MADE = re.compile(
    r"(build|models/\w+/\d+|models/vit|models/cyclegan|backend/dogsnap/server/pages/app)(/|$)"
)


def spans(text: str) -> list[str]:
    """What a document sets as code: `spans`, and each line of the fenced blocks."""
    lines = [line for block in FENCES.findall(text) for line in block.splitlines()[1:-1]]
    return re.findall(r"`([^`\n]+)`", FENCES.sub("", text)) + [line.strip() for line in lines]


EVERYWHERE = [span for text in DOCUMENTS.values() for span in spans(text)]


# -- README ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("document", "most"), [("README.md", 5000), ("docs/server.md", 6000)])
def test_the_readmes_are_short(document: str, most: int) -> None:
    assert len(DOCUMENTS[document].encode()) < most


def test_nothing_else_lies_at_the_top_level() -> None:
    expected = {
        *FOLDERS,
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "LICENSE",
        "pyproject.toml",
        "Makefile",
    }
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert found - {"build", "dogsnap.egg-info"} <= expected


def folders_in_the_tree() -> set[str]:
    """The paths of the indented tree in the architecture."""
    (tree,) = re.findall(
        r"^```text\n(backend/.*?)^```", DOCUMENTS["docs/architecture.md"], re.M | re.S
    )
    parents: list[str] = []
    found = set()
    for line in tree.splitlines():
        indent, name = re.match(r"( *)([\w/]+)/ ", line).groups()
        parents = [*parents[: len(indent) // 2], name]
        found.add("/".join(parents))
    return found


def test_the_tree_is_the_table_of_contents() -> None:
    packages = {
        file.parent.relative_to(ROOT).as_posix() for file in (ROOT / "backend").rglob("__init__.py")
    }
    # Parts of one folder, no subject of their own.
    parts = {path for path in packages if path.endswith(("/programs", "/helpers"))}
    folders = {
        "backend",
        "backend/bench",
        "backend/web",
        "backend/deploy",
        "docs",
        "docs/tutorials",
        "miniprogram",
        "models",
        "tests",
    }
    assert folders_in_the_tree() == packages - parts | folders


def test_the_files_to_look_into_are_there() -> None:
    """A path is one below the package, of the repository, or beside the one before it."""
    table = DOCUMENTS["docs/architecture.md"].partition("## Where to look")[2].partition("\n## ")[0]
    package = ROOT / "backend" / "dogsnap"
    for row in re.findall(r"^\|.*\| (.*) \|$", table, re.M):
        folder = package
        for name in re.findall(r"`([\w./]+(?:\.\w+|/))`", row):
            places = [place for place in (package, folder, ROOT) if (place / name).exists()]
            assert places, f"{name} of {row}"
            folder = (places[0] / name).parent


# -- commands ----------------------------------------------------------------------------------------------------------


def shown_commands() -> Iterator[list[str]]:
    """Each `dogsnap ...` in the documents as words, without the value of any option that ends a sentence."""
    for span in EVERYWHERE:
        for found in re.findall(r"(?:^|[\s(])dogsnap ((?:[a-z-]+|--help)\b[^|;&>)]*)", span):
            yield found.split()


def test_every_command_is_documented_and_every_command_shown_exists() -> None:
    shown = {words[0] for words in shown_commands()} - {"COMMAND", *WITHDRAWN}
    assert shown == set(COMMANDS)


@pytest.mark.parametrize(
    "words", sorted({tuple(words) for words in shown_commands()}), ids=" ".join
)
def test_every_subcommand_and_flag_of_a_command_shown_exists(words: tuple[str, ...]) -> None:
    command: click.Command | None = main
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        command = command.get_command(click.Context(command), name)
        assert command is not None, f"there is no command {name!r} in {' '.join(words)}"
    known = {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for word in rest:
        if word.startswith("--"):
            assert word.partition("=")[0].rstrip(",.:") in known | {"--help"}, (
                f"{word} is not an option of {words}"
            )


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(
        re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    )
    named = {match for span in EVERYWHERE for match in re.findall(r"(?:^|&& )make ([a-z-]+)", span)}
    assert {"run", "test", "setup"} <= named
    assert named <= targets


def test_every_extra_is_documented_and_every_extra_named_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (sentence,) = re.findall(
        r"`make setup EXTRAS=vit`, or (.*?), several", DOCUMENTS["CONTRIBUTING.md"]
    )
    named = {
        match for span in EVERYWHERE for match in re.findall(r"make setup EXTRAS=([a-z]+)", span)
    }
    assert {"vit", *re.findall(r"`([a-z]+)`", sentence)} == set(project["optional-dependencies"])
    assert named <= set(project["optional-dependencies"])


# -- settings, routes and metrics --------------------------------------------------------------------------------------


def test_the_reference_is_what_the_code_says() -> None:
    assert DOCUMENTS["docs/reference.md"] == reference.text(), "run `make reference`"


def test_the_picture_of_the_architecture_is_what_the_imports_say() -> None:
    drawn = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    assert drawn == architecture.draw(), "run `make reference`"


def test_every_route_in_a_document_exists(tmp_path: Path) -> None:
    settings = Settings(models=tmp_path)
    adapter = create_app(settings, create_predictor(settings)).url_map.bind("localhost")
    for document in DOCUMENTS.keys() - {"docs/reference.md"}:  # which is made of the routes
        named = "\n".join(spans(DOCUMENTS[document]))
        for method, path in re.findall(r"^(GET|POST|PUT|DELETE) (/[^\s?]*)", named, re.M):
            endpoint, _ = adapter.match(re.sub(r"<\w+>|\.\.\.", "1", path), method=method)
            assert not endpoint.startswith("web") or path == "/", (
                f"{document}: {method} {path} has no route"
            )


# -- files and links ---------------------------------------------------------------------------------------------------


def test_every_file_that_a_document_names_exists() -> None:
    for span in EVERYWHERE:
        for path in re.findall(r"^(?:backend|docs|miniprogram|models|tests)/[\w./-]*\w$", span):
            assert MADE.match(path) or (ROOT / path).exists(), path


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
            assert anchor in anchors(file.read_text(encoding="utf-8")), (
                f"{document} links to {link}"
            )


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


def test_a_switch_that_may_undo_itself_is_called_guarded_everywhere() -> None:
    package = ROOT / "backend/dogsnap"
    texts = [*package.glob("server/pages/console/*"), *package.glob("commands/texts/*")]
    texts += [package / "serving/inference/guard.py", ROOT / "docs/operating.md"]
    assert [file.name for file in texts if re.search(r"\bwatch(ed|es)?\b", file.read_text())] == []


def test_the_table_of_capacity_follows_from_its_figures() -> None:
    """The arithmetic that docs/deployment.md describes, with the figures that it lists."""
    text = DOCUMENTS["docs/deployment.md"]
    fast, plain = map(int, re.findall(r"version 3: (\d+); version 2: (\d+)", text)[0])
    gateway = int(re.findall(r"one core of a gateway .*?\| (\d+) \|", text)[0])
    kilobytes = int(re.findall(r"size of a photo from the app \| (\d+) kB", text)[0])
    rows = re.findall(
        r"^\| ([\d,]+) \| (\d+) \| (\d+) \| (\d+) \| ([\d,.]+) Mbit/s \|$", text, re.M
    )
    assert len(rows) == 3
    for row in rows:
        rate, with_fast, with_plain, gateways, megabits = (
            float(cell.replace(",", "")) for cell in row
        )
        assert with_fast == math.ceil(rate / (0.7 * fast))
        assert with_plain == math.ceil(rate / (0.7 * plain))
        assert gateways == (math.ceil(rate / (0.5 * gateway)) if with_fast > 1 else 0)
        assert megabits == pytest.approx(rate * kilobytes * 8 / 1000)
