"""Replacing a file: the new one is there whole, or the old one is as it was; and one writer at a time."""

import os
import sqlite3
import stat
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from dogsnap.files import (
    check_database,
    hold_lock,
    replacing,
    without_folders,
    write_json,
    write_private,
)
from support.nobody import NOBODY, as_nobody


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


@pytest.fixture
def reached() -> Iterator[Path]:
    """A folder that other users reach, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


WRITERS = [write_json, write_private]


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_who_may_read_a_file_may_read_what_replaces_it(
    tmp_path: Path, write: Callable, mode: int
) -> None:
    file = tmp_path / "keys.json"
    file.touch()
    file.chmod(mode)
    if os.geteuid() == 0:
        os.chown(file, NOBODY, NOBODY)
    before = file.stat()
    write("new", file)
    after = file.stat()
    assert stat.S_IMODE(after.st_mode) == mode
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert "new" in file.read_text()


ACCESS = "system.posix_acl_access"


def test_who_may_read_a_file_by_its_access_list_may_read_what_replaces_it(reached: Path) -> None:
    """As `setfacl -m u:NOBODY:r` gives it."""
    anybody = 2**32 - 1
    entries = [(1, 6, anybody), (2, 4, NOBODY), (4, 0, anybody), (16, 4, anybody), (32, 0, anybody)]
    rights = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    file = reached / "keys.json"
    write_private("old", file)
    try:
        os.setxattr(file, ACCESS, rights)
    except OSError:
        pytest.skip("this file system has no access lists")
    before = file.stat().st_mtime_ns
    write_private("new", file)
    assert os.getxattr(file, ACCESS) == rights
    assert file.stat().st_mtime_ns > before
    assert as_nobody(lambda: print(file.read_text())) == ""


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path, write: Callable) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "keys").write_text("old")
    link = tmp_path / "keys.json"
    link.symlink_to("shared/keys")
    write("new", link)
    assert link.is_symlink()
    assert "new" in (tmp_path / "shared" / "keys").read_text()


def test_a_file_of_somebody_else_is_not_taken_from_its_owner(reached: Path) -> None:
    file = reached / "keys.json"
    write_private("old", file)
    reached.chmod(0o777)
    said = as_nobody(lambda: write_private("new", file))
    assert "belongs to another user" in said
    assert file.read_text() == "old"


def test_a_lock_that_root_makes_is_of_the_user_whose_file_it_is_for(reached: Path) -> None:
    os.chown(reached, NOBODY, NOBODY)
    file = reached / "keys.json"

    def lock() -> None:
        with hold_lock(file):
            pass

    lock()
    assert as_nobody(lock) == ""


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_database_that_can_be_written_is_as_it_was_after_the_try(
    tmp_path: Path, journal: str
) -> None:
    file = tmp_path / "switches"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA journal_mode={journal}")
        connection.execute("CREATE TABLE ours (x)")
        connection.commit()
    check_database(file)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("ours",)]


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("closed", ["folder", "file"])
def test_a_database_that_could_not_be_written_later_is_refused_at_once(
    reached: Path, closed: str, journal: str
) -> None:
    file = reached / "switches"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA journal_mode={journal}")
        connection.execute("CREATE TABLE ours (x)")
        connection.commit()
    reached.chmod(0o755 if closed == "folder" else 0o777)
    file.chmod(0o666 if closed == "folder" else 0o444)
    said = as_nobody(lambda: check_database(file))
    assert "folder" in said if closed == "folder" else "Permission denied" in said


def test_on_a_full_disk_or_beside_another_writer_the_start_goes_on(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "switches", isolation_level=None)) as writer:
        writer.execute("CREATE TABLE ours (x)")
        writer.execute("BEGIN IMMEDIATE")
        check_database(tmp_path / "switches")


def test_what_keeps_nothing_is_no_database_and_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for file in (pipe, Path("/dev/null")):
        with pytest.raises(OSError, match="device or a pipe"):
            check_database(file)
