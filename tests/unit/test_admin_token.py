"""The file with the token: where it lies, who can read it, and what is done about one that others could read."""

import os
import shutil
import stat
import time
from pathlib import Path

import pytest
from dogsnap.admin_token import find_file, find_token, keep_token, token_files, write_token
from support.command_line import dogsnap, refused
from support.ports import free_port


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch) -> tuple[Path, Path]:
    """The runtime folder, and the one for state."""
    runtime, state = tmp_path / "runtime", tmp_path / "state"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    return runtime, state


def test_the_token_is_random_for_its_user_alone_and_of_one_port(folders):
    token = write_token(8501)
    (file,) = (folders[0] / "dogsnap").glob("admin-token-*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert (len(token) >= 32, find_token(8501), find_token(8502)) == (True, token, "")
    assert write_token(8502) != token


def test_a_server_that_takes_anothers_place_has_the_same_token():
    assert write_token(8501) == write_token(8501)


def test_without_a_runtime_folder_of_its_own_it_lies_in_the_folder_for_state(folders, monkeypatch):
    for runtime in ("", str(folders[0] / "missing")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        assert token_files(1) == [folders[1] / "dogsnap" / "admin-token-1"]
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    token = write_token(8501)
    assert token_files(8501)[0].is_relative_to(folders[1])
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folders[0]))  # as in the shell of the service's user
    assert find_token(8501) == token
    assert write_token(8501) == token
    newer = write_token(8501, "another token of some length")
    assert find_token(8501) == newer


@pytest.mark.parametrize(
    "spoil", [lambda file: file.chmod(0o644), lambda file: file.write_text("short")]
)
def test_a_token_that_others_could_read_or_guess_is_replaced(spoil):
    token = write_token(8501)
    spoil(token_files(8501)[0])
    assert find_token(8501) != token
    assert write_token(8501) != token
    assert len(find_token(8501)) >= 32


@pytest.mark.parametrize(
    "gone", ["the file", "what is in the runtime folder", "the runtime folder"]
)
def test_a_running_servers_token_is_written_again_when_its_user_has_logged_out(folders, gone):
    token = write_token(8501)
    assert not keep_token(8501, token)
    if gone == "the file":
        token_files(8501)[0].unlink()
    else:
        shutil.rmtree(folders[0])
    if gone == "what is in the runtime folder":
        folders[0].mkdir()
    assert find_token(8501) == ""
    assert keep_token(8501, token)
    assert find_token(8501) == token
    assert stat.S_IMODE(token_files(8501)[0].stat().st_mode) == 0o600
    assert write_token(8501) == token


@pytest.mark.parametrize("when", ["at the start", "later"])
def test_where_the_runtime_folder_cannot_be_written_it_lies_in_the_folder_for_state(folders, when):
    token = write_token(8501) if when == "later" else ""
    shutil.rmtree(folders[0] / "dogsnap", ignore_errors=True)
    (folders[0] / "dogsnap").touch()  # in the place of the folder
    if when == "later":
        assert keep_token(8501, token)
    else:
        token = write_token(8501)
    assert find_token(8501) == token
    assert find_file(8501).is_relative_to(folders[1])
    assert not keep_token(8501, token)


def test_a_token_that_can_be_read_stays_where_its_file_cannot_be_written(folders):
    token = write_token(8501)
    (lock,) = (folders[0] / "dogsnap").glob(".*.lock")
    lock.unlink()
    lock.mkdir()
    assert write_token(8501) == token
    assert find_token(8501) == token


def test_a_file_of_a_later_time_in_the_other_folder_hides_no_running_servers_token(folders):
    token = write_token(8501)
    other = token_files(8501)[1]
    other.parent.mkdir(parents=True)
    other.touch(0o600)
    other.write_text("a token of a time when the clock was ahead")
    tomorrow = time.time() + 86400
    os.utime(other, (tomorrow, tomorrow))
    assert keep_token(8501, token)
    assert find_token(8501) == token
    assert not keep_token(8501, token)


def test_without_its_file_a_server_gets_a_new_token_whatever_lay_elsewhere_before(folders):
    before = write_token(8501)
    shutil.rmtree(folders[0])
    keep_token(8501, before)  # into the folder for state
    folders[0].mkdir()
    token = write_token(8501, "another token of some length")
    find_file(8501).unlink()
    assert write_token(8501) not in (before, token)


def test_it_goes_back_into_the_runtime_folder_with_the_next_server(folders):
    token = write_token(8501)
    shutil.rmtree(folders[0])
    keep_token(8501, token)
    folders[0].mkdir()
    assert write_token(8501) == token
    assert find_file(8501).is_relative_to(folders[0])


def test_it_stays_where_both_folders_are_the_same(folders):
    folders[1].symlink_to(folders[0])
    token = write_token(8501)
    assert find_token(8501) == token


@pytest.fixture
def no_home(monkeypatch) -> None:
    """As in a container for a user that it does not know."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    for name in ("HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_a_user_without_a_home_is_told_which_folder_to_set(no_home, tmp_path):
    (tmp_path / "half" / "1").mkdir(parents=True)
    refused(dogsnap("serve", "--models", tmp_path), "this user has no home; set XDG_STATE_HOME")
    url = (tmp_path / "half").as_uri()
    off = ("--switch-log", "off")
    refused(dogsnap("serve", "--models", url, *off), "this user has no home; set XDG_CACHE_HOME")
    port = str(free_port())
    refused(dogsnap("models", "list", DOGSNAP_PORT=port), "no server answers")
    assert find_file(8501) is None
    with pytest.raises(OSError, match="set XDG_STATE_HOME"):
        write_token(8501)
