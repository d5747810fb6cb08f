"""Version folders: which names count, and which version is which."""

import errno
import os
from pathlib import Path

import pytest
from dogsnap.serving.versions.version_folders import (
    fingerprint,
    model_folder_of,
    model_folders,
    version_folders,
)


def test_any_int64_is_a_version_and_nothing_else(tmp_path: Path) -> None:
    for name in (
        "2",
        "0010",
        "9",
        "1763725480123456789",
        "9223372036854775808",
        "1.5",
        "v3",
        "-1",
        "二",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "7").write_text("a file")
    assert sorted(version_folders(tmp_path)) == [2, 9, 10, 1763725480123456789]
    assert version_folders(tmp_path / "none") == {}


def version(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"a graph")
    return folder


def test_a_version_without_a_number_is_named_with_where_to_put_it(tmp_path: Path) -> None:
    version(tmp_path / "dogs" / "1")
    flowers = version(tmp_path / "flowers")
    cats = version(tmp_path / "cats" / "v1")
    horses = tmp_path / "horses"
    horses.mkdir()
    (horses / "model.keras").write_bytes(b"PK\3\4")
    found, troubles = model_folders(tmp_path)
    assert set(found) == {"dogs"}
    assert "model.keras is a file of Keras" in troubles.pop(horses)
    assert troubles == {
        flowers: f"{flowers} is a version without a number; move its files to {flowers / '1'}",
        cats.parent: f"{cats} is no version: expected a number as its name, such as 1",
    }


def test_models_beside_versions_are_named_as_what_is_not_served(tmp_path: Path) -> None:
    for name in ("1", "dogs/1", "cats/2"):
        version(tmp_path / name)
    found, troubles = model_folders(tmp_path)
    assert found == {tmp_path.name: tmp_path}
    assert set(troubles) == {tmp_path / "dogs", tmp_path / "cats"}
    assert "is the folder of one model" in troubles[tmp_path / "dogs"]


def test_what_a_volume_of_kubernetes_hides_is_no_model_of_its_own(tmp_path: Path) -> None:
    version(tmp_path / "..2026_11_28" / "1")
    (tmp_path / "..data").symlink_to("..2026_11_28")
    (tmp_path / "dogs").symlink_to("..data")
    (tmp_path / "1").symlink_to("..data/1")
    assert model_folders(tmp_path)[1].keys() == {tmp_path / "dogs"}
    (tmp_path / "dogs").unlink()
    assert model_folder_of(tmp_path / "1") == tmp_path
    (tmp_path / "1").unlink()
    (tmp_path / "dogs").symlink_to("..data")
    assert model_folders(tmp_path) == ({"dogs": tmp_path / "dogs"}, {})


def test_the_next_version_goes_beside_the_path_that_was_given(tmp_path: Path) -> None:
    stored = version(tmp_path / "store" / "abc")
    (tmp_path / "models" / "dogs").mkdir(parents=True)
    link = tmp_path / "models" / "dogs" / "1"
    link.symlink_to(stored)
    assert model_folder_of(link) == link.parent
    assert model_folder_of(link / ".." / "1") == link.parent
    with pytest.raises(ValueError, match=rf"move its files to {stored}/1"):
        model_folder_of(stored)
    with pytest.raises(ValueError, match=r"holds models \(dogs\)"):
        model_folder_of(version(tmp_path / "models" / "7"))


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(tmp_path, monkeypatch):
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "shard").touch()
    assert [entry[0] for entry in fingerprint(tmp_path)] == ["variables/shard"]
    scan = os.scandir

    def fail_below(path):  # as a network disk does; who runs the tests may list all folders
        if Path(path).name == "variables":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", fail_below)
    with pytest.raises(OSError, match="variables"):
        fingerprint(tmp_path)
