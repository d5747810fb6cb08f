"""Versions that belong together appear whole, or not at all."""

from pathlib import Path

import pytest
from dogsnap.exporting import publication
from dogsnap.exporting.publication import next_version, together


def written(folder: Path, *versions: int | str | Path) -> None:
    for version in versions:
        (folder / str(version)).mkdir(parents=True)
        (folder / str(version) / "saved_model.pb").write_text(str(version))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_versions_appear_together_under_the_next_numbers_and_the_largest_first(
    tmp_path: Path, monkeypatch
) -> None:
    model, moved, rename = tmp_path / "dogs", [], Path.rename
    monkeypatch.setattr(
        Path, "rename", lambda path, target: moved.append(path.name) or rename(path, target)
    )
    written(model, 2)
    with together(model) as folder:
        assert folder.name == "dogs"
        written(folder, 3, 4)
        assert [name for name in names(model) if not name.startswith(".")] == ["2"]
    assert names(model) == ["2", "3", "4"]
    assert moved == ["4", "3"]
    assert (model / "4" / "saved_model.pb").read_text() == "4"


def test_a_number_that_somebody_takes_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch
) -> None:
    written(tmp_path / "dogs", 1)
    written(tmp_path / "new", 5)
    numbers = iter([1, 2])
    monkeypatch.setattr(publication, "next_version", lambda folder: next(numbers))
    assert publication.publish(tmp_path / "new" / "5", tmp_path / "dogs").name == "2"
    assert (tmp_path / "dogs" / "1" / "saved_model.pb").read_text() == "1"


def test_after_a_failure_nothing_is_there_not_even_a_new_models_folder_and_those_around_it(
    tmp_path: Path,
) -> None:
    with (
        pytest.raises(OSError, match="File name too long"),
        together(tmp_path / "models" / "dogs") as folder,
    ):
        written(folder, 1, 10**300)
    assert names(tmp_path) == []


def test_where_another_export_has_taken_a_number_nothing_appears(tmp_path: Path) -> None:
    words = r"another export has written a version to .*dogs meanwhile; try again"
    with pytest.raises(OSError, match=words), together(tmp_path / "dogs") as folder:
        written(tmp_path, folder / "1", folder / "2", "dogs/1")
    assert names(tmp_path / "dogs") == ["1"]


def test_no_version_is_written_to_the_folder_of_several_models(tmp_path: Path) -> None:
    written(tmp_path / "dogs", 1)
    written(tmp_path / "cats", 3)
    with pytest.raises(
        ValueError, match=r"holds models \(cats, dogs\); expected the folder of one"
    ):
        publication.publish(tmp_path / "dogs" / "1", tmp_path)
    with pytest.raises(ValueError, match="expected the folder of one"), together(tmp_path):
        pass
    assert names(tmp_path) == ["cats", "dogs"]
    assert next_version(tmp_path / "dogs") == 2


def test_no_version_is_written_that_no_server_reads(tmp_path: Path) -> None:
    written(tmp_path / "dogs", 2**63 - 1)
    with pytest.raises(ValueError, match="has version 9223372036854775807: no server reads"):
        next_version(tmp_path / "dogs")
