"""The tutorials and the five commands of the README run as they are printed, against a real server with small models."""

import shutil
from pathlib import Path

import pytest
import tiny_models
from colour_photos import RED, encode, plain
from tutorials import blocks_of, run_page

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "backend" / "tutorials"
WITHOUT_COMMANDS = {"README.md", "publish_in_wechat.md"}

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="curl is missing: install Debian's package curl")


@pytest.fixture
def folder(tmp_path, colour_models) -> Path:
    """What every page takes for granted: models/ with versions 1 and 2, and a photo."""
    shutil.copytree(colour_models, tmp_path / "models")
    (tmp_path / "dog.jpg").write_bytes(encode(plain(RED), "JPEG"))
    return tmp_path


@pytest.mark.parametrize("page", [ROOT / "README.md", TUTORIALS / "first_answer.md"], ids=lambda page: page.name)
def test_the_commands_of_a_page_run_in_their_order(page, folder):
    assert run_page(page, folder) >= 3


@pytest.mark.long
def test_the_tutorial_about_switching_runs_with_a_version_that_answers_otherwise(folder):
    """Version 3 takes green for red, so that the page can tell which version answered."""
    tiny_models.confused(folder / "models/inception_v3/2", 3)
    assert run_page(TUTORIALS / "switch_a_version.md", folder) >= 9


@pytest.mark.long
def test_the_tutorial_about_an_own_model_runs(folder):
    assert run_page(TUTORIALS / "own_model.md", folder) >= 8


def test_every_tutorial_is_in_the_index_and_runs_in_a_test():
    pages = {page.name for page in TUTORIALS.glob("*.md")}
    index = (TUTORIALS / "README.md").read_text(encoding="utf-8")
    assert {page for page in pages if f"]({page})" in index} == pages - {"README.md"}
    tests = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    for page in pages - WITHOUT_COMMANDS:
        assert f'"{page}"' in tests or f"/{page}" in tests, f"no test runs {page}"


def test_the_runner_finds_the_blocks_of_a_page_and_what_they_print():
    page = "```sh server\nserve\n```\nText.\n```sh\none\n```\n\n```text\n1\n```\n```\nnot run\n```\n```text\nno output\n```\n"
    assert [(block.kind, block.text, block.output) for block in blocks_of(page)] == [
        ("server", "serve\n", None),
        ("run", "one\n", "1\n"),
    ]


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        ("```sh\nfalse\n```\n", "these commands failed"),
        ("```sh\necho one\n```\n```text\ntwo\n```\n", "print something else"),
        ("```sh\nfalse | cat\n```\n", "these commands failed"),
    ],
)
def test_the_runner_fails_where_a_command_fails_or_prints_something_else(tmp_path, block, sentence):
    page = tmp_path / "page.md"
    page.write_text(block)
    with pytest.raises(pytest.fail.Exception, match=sentence):
        run_page(page, tmp_path)
