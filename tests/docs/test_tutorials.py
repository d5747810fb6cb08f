"""The tutorials and the five commands of the README run as they are printed, against a real server with small models."""

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
from dogsnap.cli import main
from PIL import Image
from support.colour_photos import RED, encode, plain
from support.real_model import built_models
from support.tutorials import run_page

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
WITHOUT_COMMANDS = {"README.md", "own_photos.md", "publish_in_wechat.md"}  # or hours of a processor

pytestmark = [
    pytest.mark.early,
    pytest.mark.skipif(
        not shutil.which("curl"), reason="curl is missing: install Debian's package curl"
    ),
]


@pytest.fixture
def folder(tmp_path, colour_models) -> Path:
    """What every page takes for granted: models/ with versions 1 and 2, and a photo."""
    shutil.copytree(colour_models, tmp_path / "models")
    (tmp_path / "docs").mkdir()
    for photo in ("dog.jpg", "docs/dog.jpg"):
        (tmp_path / photo).write_bytes(encode(plain(RED), "JPEG"))
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    return tmp_path


def a_version_3(folder: Path, request: pytest.FixtureRequest) -> None:
    """The same as version 2: answers name the version."""
    shutil.copytree(folder / "models/inception_v3/2", folder / "models/inception_v3/3")


def the_real_network(folder: Path, request: pytest.FixtureRequest) -> None:
    """And photos of a breed that it does not know."""
    photo, *photos = sorted(
        (request.getfixturevalue("data_dir") / "other_dogs" / "images" / "havanese").iterdir()
    )
    shutil.rmtree(folder / "models")
    shutil.copytree(built_models(), folder / "models")
    (folder / "havanese").mkdir()
    for file in photos:
        shutil.copy(file, folder / "havanese")
    Image.open(photo).convert("RGB").save(folder / "dog.jpg")


def a_version_3_and_redis(folder: Path, request: pytest.FixtureRequest) -> None:
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is missing: install Debian's package redis-server")
    a_version_3(folder, request)


NEEDS = {
    "switch_a_version.md": a_version_3,
    "switch_a_fleet.md": a_version_3_and_redis,
    "new_breed.md": the_real_network,
}
FIRST = (ROOT / "README.md", TUTORIALS / "first_answer.md")
LATER = [
    page
    for page in TUTORIALS.glob("*.md")
    if page.name not in {*WITHOUT_COMMANDS, "first_answer.md"}
]


@pytest.mark.parametrize(
    "page",
    [*FIRST, *(pytest.param(page, marks=pytest.mark.long) for page in LATER)],
    ids=lambda page: page.name,
)
def test_the_commands_of_a_page_run_in_their_order(page, folder, request):
    if page.name in NEEDS:
        NEEDS[page.name](folder, request)
    assert run_page(page, folder) >= 3


def test_every_command_from_a_folder_of_photos_to_an_undo_parses(tmp_path, monkeypatch):
    text = (TUTORIALS / "own_photos.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.M | re.S)
    commands = "".join(blocks).splitlines()
    assert len(commands) == 13
    photo = tmp_path / "photos" / "beagle" / "1.jpg"
    photo.parent.mkdir(parents=True)
    photo.touch()
    monkeypatch.chdir(tmp_path)
    for words in map(shlex.split, commands[3:]):
        command, rest = main, words[1:]
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(command), rest.pop(0))
        command.parse_args(click.Context(command), rest)


def test_every_tutorial_is_in_the_index():
    index = (TUTORIALS / "README.md").read_text(encoding="utf-8")
    assert {page.name for page in TUTORIALS.glob("*.md") if f"]({page.name})" not in index} == {
        "README.md"
    }


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
