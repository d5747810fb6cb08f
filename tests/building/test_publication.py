"""Versions that belong together appear whole, or not at all."""

from pathlib import Path

import pytest

from backend.building import publication
from backend.building.publication import together


def written(folder: Path, *numbers: int) -> None:
    for number in numbers:
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / "saved_model.pb").write_text(str(number))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_versions_appear_together_under_the_next_numbers(tmp_path: Path) -> None:
    model = tmp_path / "dogs"
    written(model, 2)
    with together(model) as folder:
        assert folder.name == "dogs"
        written(folder, 3, 4)
        assert [name for name in names(model) if not name.startswith(".")] == ["2"]
    assert names(model) == ["2", "3", "4"]
    assert (model / "4" / "saved_model.pb").read_text() == "4"


def test_a_number_that_somebody_takes_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "dogs", 1)
    written(tmp_path / "new", 5)
    numbers = iter([1, 2])
    monkeypatch.setattr(publication, "next_version", lambda folder: next(numbers))
    assert publication.publish(tmp_path / "new" / "5", tmp_path / "dogs").name == "2"
    assert (tmp_path / "dogs" / "1" / "saved_model.pb").read_text() == "1"


def test_the_largest_appears_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved, rename = [], Path.rename

    def recorded(path: Path, target: Path) -> Path:
        moved.append(path.name)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", recorded)
    with together(tmp_path / "dogs") as folder:
        written(folder, 1, 2, 3)
    assert moved == ["3", "2", "1"]


def test_after_a_failure_nothing_is_there_not_even_a_new_models_folder_and_those_around_it(tmp_path: Path) -> None:
    def fail() -> None:
        with together(tmp_path / "models" / "dogs") as folder:
            written(folder, 1)
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fail()
    assert names(tmp_path) == []


def test_where_another_export_has_taken_a_number_nothing_appears(tmp_path: Path) -> None:
    def collide() -> None:
        with together(tmp_path / "dogs") as folder:
            written(folder, 1, 2)
            written(tmp_path / "dogs", 1)

    with pytest.raises(OSError, match=r"another export has written a version to .*dogs meanwhile; try again"):
        collide()
    assert names(tmp_path / "dogs") == ["1"]
