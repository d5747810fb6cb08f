"""Replacing a file: the new one is there whole, or the old one is as it was."""

from pathlib import Path

import pytest

from backend.files import replacing


def test_what_was_written_takes_the_files_place(tmp_path: Path) -> None:
    file = tmp_path / "scores.json"
    file.write_text("old")
    with replacing(file) as temporary:
        temporary.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


def test_after_a_failure_the_old_file_is_as_it_was_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "scores.json"
    file.write_text("old")

    def write_half() -> None:
        with replacing(file) as temporary:
            temporary.write_text("ne")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_half()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
