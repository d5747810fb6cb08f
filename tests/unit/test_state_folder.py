"""A server finds its file of switches again, whatever its paths and engines are called now."""

import json
import shutil
from pathlib import Path

import pytest
from dogsnap.routing import state_folder
from dogsnap.routing.choices import Change
from dogsnap.routing.chosen_versions import ChosenVersions
from dogsnap.routing.state_folder import find_file, first_file, other_files
from dogsnap.routing.store_opening import name_store, open_store
from dogsnap.routing.switch_log import Who
from dogsnap.settings import Settings


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for release in ("one", "two", "other"):
        (tmp_path / release).mkdir()
    (tmp_path / "current").symlink_to("one")
    return tmp_path / "state" / "dogsnap"


def serving(tmp_path: Path, folder: str = "current", engine: str = "") -> Settings:
    return Settings(models=tmp_path / folder, engine=engine)


def with_a_switch(file: str | Path) -> ChosenVersions:
    chosen = ChosenVersions(open_store(str(file)))
    chosen.follow()
    chosen.switch(lambda: [Change("dog", "default", "", None, 1)], Who("alice"))
    return chosen


def test_each_folder_has_a_file_of_its_own_by_whatever_link_and_a_gateway_another(tmp_path, state):
    folders = ("one", "one", "current", "other")
    files = [name_store(serving(tmp_path, folder)) for folder in folders]
    files.append(name_store(serving(tmp_path, "one", "grpc://host:1")))
    assert files[0] == files[1] == files[2]
    assert len(set(files)) == 3
    assert {Path(file).parent for file in files} == {state}
    assert name_store(Settings(switch_log="redis://h")) == "redis://h"


def test_a_link_that_is_turned_to_the_next_release_keeps_the_file_and_takes_nobody_elses(tmp_path):
    first, other = find_file(serving(tmp_path)), find_file(serving(tmp_path, "other"))
    for release in ("two", "other"):
        (tmp_path / "current").unlink()
        (tmp_path / "current").symlink_to(release)
        assert find_file(serving(tmp_path)) == first
    assert find_file(serving(tmp_path, "two")) == first
    assert find_file(serving(tmp_path, "other")) == other


@pytest.mark.parametrize(
    "later",
    [
        "grpc://a:1,b:2",
        "grpc://b:2,a:1",
        "grpc://b:2, c:3",
        "grpc://d:4",
        "grpc://a:1?key=secret",
        "grpc://a:1/",
    ],
)
def test_an_engine_that_comes_goes_or_moves_keeps_the_gateways_file(tmp_path, state, later):
    first = find_file(serving(tmp_path, engine="grpc://a:1"))
    find_file(serving(tmp_path, engine="grpc://b:2,a:1"))
    assert find_file(serving(tmp_path, engine=later)) == first
    assert find_file(serving(tmp_path, "other", "grpc://b:2")) == first
    assert find_file(serving(tmp_path)) != first
    assert "secret" not in (state / state_folder.LIST).read_text()


@pytest.mark.parametrize("engine", ["", "grpc://a:1"])
def test_the_file_of_an_earlier_release_is_found_once_and_then_as_every_other(tmp_path, engine):
    before = first_file(serving(tmp_path, engine=engine))
    before.parent.mkdir(parents=True)
    before.touch()
    assert find_file(serving(tmp_path, engine=engine)) == before
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("two")
    assert find_file(serving(tmp_path, engine=engine and "grpc://a:1,b:2")) == before


@pytest.mark.parametrize("damage", ["full", "{", "[]", '{"x": 1}'])
def test_a_list_that_is_damaged_or_cannot_be_written_still_gives_a_server_one_file(
    tmp_path, state, monkeypatch, damage
):
    if damage == "full":
        monkeypatch.setattr(state_folder, "write_json", refuse)
    else:
        state.mkdir(parents=True)
        (state / state_folder.LIST).write_text(damage)
    assert find_file(serving(tmp_path)) == find_file(serving(tmp_path))


def refuse(content: object, file: Path) -> None:
    raise OSError(28, "No space left on device")


def test_without_its_list_a_server_finds_the_file_that_it_began(tmp_path, state):
    first = find_file(serving(tmp_path))
    (state / state_folder.LIST).unlink()
    assert find_file(serving(tmp_path)) == first == first_file(serving(tmp_path))


def test_the_list_names_files_beside_it_alone(tmp_path, state):
    find_file(serving(tmp_path))
    text = (state / state_folder.LIST).read_text()
    (state / state_folder.LIST).write_text(text.replace("switches-", "/etc/switches-"))
    assert find_file(serving(tmp_path)).parent == state
    assert len(json.loads(text)) == 2


def test_a_start_names_the_file_with_its_switches_and_a_new_one_the_others(tmp_path, caplog):
    caplog.set_level("INFO", logger="dogsnap.switches")
    old = find_file(serving(tmp_path))
    with_a_switch(old).close()
    copy = shutil.copy(old, tmp_path / "copy.db")
    caplog.clear()
    for file in (old, copy, find_file(serving(tmp_path, "other"))):
        chosen = ChosenVersions(open_store(str(file)))
        chosen.follow()
        chosen.close()
    kept = [record.message for record in caplog.records if record.levelname == "INFO"]
    for file, line in zip((old, copy), kept[:2], strict=True):
        assert f"{file}, which has 1 switch" in line
    (warned,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert f"is new; other files here have switches: {old} (1)" in warned
    assert other_files(str(old)) == []


def test_a_bucket_keeps_its_file_whatever_stands_around_its_path(state):
    first = find_file(Settings(models="s3://bucket/models"))
    for url in ("s3://bucket/models/", "s3://me:secret@bucket/models?key=secret"):
        assert find_file(Settings(models=url)) == first
    assert find_file(Settings(models="s3://bucket/others")) != first
    assert "secret" not in (state / state_folder.LIST).read_text()
