"""Finds the file of switches in the state folder again.

A file keeps the name that it got first. A list beside it says who uses it, by
everything that a server may be known by: its folder as it is named and as links
lead to it, and of a gateway its engines. One of them is enough, so that a link
that is turned or an engine that is added changes nothing.
"""

import hashlib
import json
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from dogsnap.files import hold_lock, user_folder, write_json
from dogsnap.model_urls import is_url, without_secrets
from dogsnap.settings import Settings

LIST = "stores.json"  # the file's name by what a server is known by
FILES = "switches-*.db"
BUSY_SECONDS = 0.1  # for a file that another process writes


def state_folder() -> Path:
    return user_folder("XDG_STATE_HOME", ".local/state") / "dogsnap"


def find_file(settings: Settings) -> Path:
    """The file of this server's switches, which stays the same.

    Raises OSError if the state folder cannot be made.
    """
    folder = state_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    list_file, names = folder / LIST, _names(settings)
    first = first_file(settings).name

    def choose(known: dict[str, str]) -> str:
        return next((known[name] for name in names if name in known), first)

    known = _read(list_file)
    if not set(names) <= known.keys():
        with suppress(OSError), hold_lock(list_file):  # such as a full disk
            known = _read(list_file)
            known = dict.fromkeys(names, choose(known)) | known
            write_json(known, list_file)
    return folder / choose(known)


def first_file(settings: Settings) -> Path:
    """The file of a server that is not listed: the one that earlier releases, and a
    server whose list was lost, find by path and engines.
    """
    models = _models(settings)
    path = models if is_url(models) else Path(models).resolve()
    served = f"{path} {settings.model_name} {settings.engine}"
    digest = hashlib.sha256(os.fsencode(served)).hexdigest()[:16]
    return state_folder() / f"switches-{digest}.db"


def other_files(own: str) -> list[str]:
    """The files in the state folder that have switches, without `own`, each with
    how many; the newest first.
    """
    found = []
    for file in state_folder().glob(FILES):
        with suppress(OSError, sqlite3.Error):
            changed = file.stat().st_mtime
            with closing(sqlite3.connect(f"file:{file}?mode=ro", BUSY_SECONDS, uri=True)) as opened:
                ((count,),) = opened.execute("SELECT count(*) FROM switches")
            if count and str(file) != own:
                found.append((changed, f"{file} ({count})"))
    return [text for _, text in sorted(found, reverse=True)]


def _models(settings: Settings) -> str:
    return settings.model_config_file or settings.model_base_path or str(settings.models)


def _names(settings: Settings) -> list[str]:
    """What this server is known by, the surest first."""
    models = _models(settings)
    paths = dict.fromkeys((os.path.abspath(models), str(Path(models).resolve())))
    if is_url(models):
        url = without_secrets(models).rstrip("/")
        paths = dict.fromkeys((url, f"{url}/"))
    folders = [f"{path} {settings.model_name}".rstrip() for path in paths]
    if not settings.engine:
        return folders
    scheme, _, engines = settings.engine.partition("?")[0].partition("://")
    hosts = [f"{scheme}://{host.strip()}" for host in engines.rstrip("/").split(",")]
    return hosts + [f"gateway with {folder}" for folder in folders]


def _read(file: Path) -> dict[str, str]:
    """Nothing for a file that is not there, or that somebody has damaged."""
    with suppress(OSError, ValueError):
        known = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(known, dict):
            return {name: Path(str(text)).name for name, text in known.items()}
    return {}
