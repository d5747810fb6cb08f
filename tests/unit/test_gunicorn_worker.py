"""What a later worker cannot do at its start is tried again: the server has answered before."""

import logging
import os
import shutil
import signal
from pathlib import Path

import pytest
from dogsnap.errors import Unavailable
from dogsnap.server import gunicorn_worker
from dogsnap.server.gunicorn_config import CANNOT_START
from dogsnap.server.gunicorn_worker import Server, code_on_disk
from dogsnap.settings import Settings

OURS = [Unavailable("not now"), OSError(28, "No space left on device")]
OTHERS = [ImportError("no name"), RuntimeError("Failed to bind"), KeyError("x"), ValueError("y")]


@pytest.fixture
def server(monkeypatch) -> Server:
    monkeypatch.setattr(gunicorn_worker.time, "sleep", lambda seconds: None)
    monkeypatch.delenv(gunicorn_worker.MASTER, raising=False)
    return Server(Settings())


def begin(server: Server, number: int, error: Exception) -> None:
    server._starts = number
    with server._starting():
        raise error


@pytest.mark.parametrize("error", [*OURS, *OTHERS], ids=repr)
def test_whatever_a_later_worker_fails_at_leaves_the_server_to_start_the_next_one(
    server, error, caplog
):
    with pytest.raises(SystemExit) as ended:
        begin(server, 2, error)
    assert ended.value.code not in (0, 3, CANNOT_START)  # with which gunicorn ends, too
    assert str(error) in caplog.text


@pytest.mark.parametrize("error", OURS, ids=repr)
def test_what_the_first_one_cannot_do_ends_the_server_with_a_sentence(server, error):
    with pytest.raises(SystemExit) as ended:
        begin(server, 1, error)
    assert ended.value.code == CANNOT_START


def test_a_fault_of_ours_in_the_first_one_keeps_its_traceback(server):
    with pytest.raises(KeyError):
        begin(server, 1, KeyError("x"))


@pytest.mark.parametrize("change", ["written", "gone", "of a library", "none"])
def test_a_later_worker_of_other_code_than_the_masters_has_a_new_server_started(
    server, change, tmp_path, monkeypatch
):
    copy = shutil.copytree(
        Path(gunicorn_worker.dogsnap.__file__).parent,
        tmp_path / "dogsnap",
        ignore=lambda folder, names: [name for name in names if name == "pages"],
    )
    library = tmp_path / "library.py"
    library.touch()
    monkeypatch.setattr(gunicorn_worker.dogsnap, "__file__", str(copy / "__init__.py"))
    monkeypatch.setattr(logging, "__file__", str(library))
    server._code, server._starts = code_on_disk(), 2
    if change == "written":
        (copy / "serving/photos/photo.py").write_text("x = 1\n")
    elif change == "gone":
        (copy / "logs.py").unlink()
    elif change == "of a library":
        library.write_text("x = 1\n")
    sent = []
    monkeypatch.setattr(os, "kill", lambda *signalled: sent.append(signalled))
    if change == "none":
        server._check_code()
    else:
        with pytest.raises(gunicorn_worker.CodeReplaced):
            server._check_code()
    assert sent == ([] if change == "none" else [(os.getppid(), signal.SIGUSR2)])
