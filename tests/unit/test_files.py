"""Replacing a file: the new one is there whole, or the old one is as it was; and one writer at a time."""

import os
from pathlib import Path

import pytest
from dogsnap.files import replacing, without_folders


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/srv/models/dog/2/a.pb is no graph", "a.pb is no graph"),
        ("[Errno 13] Permission denied: '/srv/models/dog'", "[Errno 13] Permission denied: 'dog'"),
        ("read file:///srv/a/b.txt;/srv/c", "read b.txt;c"),
        ("at (/usr/lib/python3/site.py:12)", "at (site.py:12)"),
        ("http://host/a/b, and/or 1/2, ./a/b", "http://host/a/b, and/or 1/2, ./a/b"),
        ("expected 1 / 2 or /", "expected 1 / 2 or /"),
    ],
)
def test_strangers_are_told_names_and_no_folders(text: str, left: str) -> None:
    assert without_folders(text) == left


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


def test_what_was_written_takes_the_files_place_at_the_end_also_of_two_that_write_at_once(
    tmp_path: Path,
) -> None:
    file = tmp_path / "scores.json"
    file.write_text("old")
    with replacing(file) as first, replacing(file) as second:
        first.write_text("first")
        second.write_text("second")
        assert file.read_text() == "old"
    assert file.read_text() == "first"
    assert list(tmp_path.iterdir()) == [file]


def test_the_content_is_on_disk_before_the_name_and_then_the_name_is(
    tmp_path: Path, monkeypatch
) -> None:
    calls = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        calls.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
        fsync(descriptor)

    def replaced(*paths: Path) -> None:
        calls.append("replaced")
        replace(*paths)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    with replacing(tmp_path / "scores.json") as temporary:
        temporary.write_text("new")
    assert calls == ["scores.json", "replaced", tmp_path.name]
