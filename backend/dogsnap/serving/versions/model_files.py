"""Gets versions of models to this machine: reads a folder in place, copies what is at a URL.

URLs are those of fsspec: s3://bucket/models, gs://bucket/models,
az://container/models, file:///models. Credentials are found as its packages
find them.
"""

import hashlib
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dogsnap.errors import DogsnapError, FailedPrecondition, InvalidArgument, Unavailable
from dogsnap.files import hold_lock, replacing
from dogsnap.model_urls import copies_folder, is_url, without_secrets
from dogsnap.serving.versions import checksums, saved_model_file
from dogsnap.serving.versions.version_folders import VERSION, missing

log = logging.getLogger("dogsnap.models")
# gcsfs warns at each call, several times at each look, where it may not ask of what type a
# bucket is, as with a public one. The others tell of each request, and of where credentials were
# found.
QUIET = {
    "gcsfs": logging.ERROR,
    **dict.fromkeys(("azure", "aiobotocore", "botocore"), logging.WARNING),
}
# What fsspec's packages say of a file that changes with its content.
MARKS = (
    *("size", "ETag", "etag", "md5Hash", "crc32c"),
    *("mtime", "LastModified", "last_modified", "updated", "modificationTime"),
)
# Seconds for which a version has to be gone at a URL before it is unloaded here: while
# files are replaced they are away for a moment.
GONE_SECONDS = 60.0
# Until a version that could not be used is copied again, if nothing has changed.
RETRY_SECONDS = 60.0
MOST_BYTES = 2**20  # of a file beside the models
# Seconds for a call of a bucket, and bytes a second that a file comes with at least: gcsfs
# waits for ever where a connection falls silent.
CALL_SECONDS = 300.0
SLOWEST = 100_000
Files = Mapping[str, tuple[Any, ...]]  # by their path below a folder, with their MARKS


@dataclass(frozen=True)
class VersionFiles:
    """The folder <folder>/<number> below `source`, a path or URL, to be served
    as a version of `model`. `digest` changes with its content.
    """

    source: str
    folder: str
    number: str
    digest: str
    model: str

    @property
    def version(self) -> int:
        return int(self.number)

    def local(self, cache: Path) -> Path:
        """The model's folder on this node, with the version in it, copied if
        necessary. Raises FailedPrecondition.
        """
        if not is_url(self.source):
            return Path(self.source) / self.folder
        cache = cache.expanduser()
        folder = cache / f"{self.folder}-{self.number}-{self.digest}" / self.folder
        try:
            cache.mkdir(parents=True, exist_ok=True)
            # One process of this node copies at a time; the others use its copy.
            with hold_lock(cache / "copies"):
                if not (folder / self.number).exists():
                    filesystem, root = _open_source(self.source)
                    path = f"{self.folder}/{self.number}"
                    copy_version(filesystem, root, path, folder / self.number, cache)
        except PermissionError as error:
            raise FailedPrecondition(
                f"models cannot be copied to {cache}: {error}; choose another --cache"
            ) from error
        return folder


def versions_below(source: str) -> list[VersionFiles]:
    """Every version of every model folder at a path or URL. Raises
    InvalidArgument if there is none.
    """
    filesystem, root = _open_source(source)
    if not filesystem.isdir(root):
        raise InvalidArgument(f"{root} does not exist")
    source = source if is_url(source) else root
    versions = []
    for path, files in sorted(_versions_in(_list_files(filesystem, root)).items()):
        folder, _, number = path.partition("/")
        if number:
            sums = checksums.FILE.as_posix()
            content = repr(sorted(files.items())).encode()
            if sums in files:
                content = filesystem.cat_file(f"{root}/{path}/{sums}")
            versions.append(VersionFiles(source, folder, number, _digest(content), folder))
    if not versions:
        raise InvalidArgument(
            f"no version was found at {source}: expected <model>/<number>/saved_model.pb below it"
        )
    return versions


def copy_version(filesystem: Any, root: str, path: str, version: Path, beside: Path) -> None:
    """Copy the version at `path` below `root` to the folder `version`, which appears
    when it is whole; until then it is in the folder `beside`.

    Raises FailedPrecondition for one that is not whole, changes meanwhile, or has a name
    that would lead out of a folder here: in a bucket, models//7 is a name, too.
    """
    remote = f"{root}/{path}" if path else root
    files = _list_files(filesystem, remote)
    for name in files:
        below_root = f"{path}/{name}" if path else name
        if {"", ".", ".."} & set(below_root.split("/")):
            raise FailedPrecondition(f"{below_root!r:.200} is no path inside the folder of models")
    with tempfile.TemporaryDirectory(dir=beside, prefix=".copying-") as temporary:
        whole = Path(temporary) / "version"
        for name in files:
            (whole / name).parent.mkdir(parents=True, exist_ok=True)
        remotes = [f"{remote}/{name}" for name in files]
        length = sum(size or 0 for size, *_ in files.values())
        filesystem.get(
            remotes, [str(whole / name) for name in files], **_within(filesystem, length)
        )
        for name, (size, *_) in files.items():
            received = (whole / name).stat().st_size
            if size not in (None, received):
                raise FailedPrecondition(f"{name} has {size} bytes, {received} of them arrived")
        checksums.verify(whole)
        if lacks := missing(whole):
            raise FailedPrecondition(f"it lacks {lacks}")
        if _list_files(filesystem, remote) != files:
            raise FailedPrecondition("its files changed while they were copied")
        version.parent.mkdir(parents=True, exist_ok=True)
        whole.rename(version)


def _open_source(source: str) -> tuple[Any, str]:
    """The file system and the folder's path in it.

    Raises InvalidArgument for an unknown kind of URL.
    """
    for package, level in QUIET.items():
        logging.getLogger(package).setLevel(level)
    url = source if is_url(source) else os.path.realpath(source)
    try:
        import fsspec

        filesystem, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise InvalidArgument(f"{without_secrets(source)} cannot be opened: {error}") from error
    return filesystem, root.rstrip("/")


def _within(filesystem: Any, length: int = 0) -> dict[str, Any]:
    """The option of a call that ends it where it takes too long for so many bytes; those of
    fsspec's kinds that are not asynchronous have none.
    """
    from fsspec.asyn import AsyncFileSystem

    is_asynchronous = isinstance(filesystem, AsyncFileSystem)
    return {"timeout": CALL_SECONDS + length / SLOWEST} if is_asynchronous else {}


def _list_files(filesystem: Any, folder: str) -> Files:
    """The files below a folder now. Raises what its package raises."""
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractFileSystem

    kind = type(filesystem)
    # fsspec's own way leaves out folders that cannot be read.
    is_walked = (kind.find, getattr(kind, "_find", AsyncFileSystem._find)) == (
        AbstractFileSystem.find,
        AsyncFileSystem._find,
    )
    options = _within(filesystem) | ({"on_error": "raise"} if is_walked else {})
    filesystem.invalidate_cache()
    files = {}
    for name, entry in filesystem.find(folder, detail=True, **options).items():
        if entry["type"] != "directory" and not name.endswith("/"):
            marks = tuple(entry.get(mark) for mark in MARKS)
            files[name.removeprefix(f"{folder}/")] = marks
    return files


def _versions_in(files: Files) -> dict[str, Files]:
    """The files of each version, by its folder: "flowers/2" in a folder of models, "2" in
    that of one model, "" where the SavedModel itself lies there.
    """
    folders = set()
    for name in files:
        *parents, file = name.split("/")
        is_numbered = not parents or VERSION.fullmatch(parents[-1])
        if file in saved_model_file.NAMES and len(parents) <= 2 and is_numbered:
            folders.add("/".join(parents))
    if "" in folders:
        return {"": files}
    versions = dict[str, Files]()
    for folder in folders:
        inside = [name for name in files if name.startswith(f"{folder}/")]
        versions[folder] = {name.removeprefix(f"{folder}/"): files[name] for name in inside}
    return versions


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


# -- what a server keeps of a URL ------------------------------------------------------------------


class Mirror:
    """Keeps copies of the versions at a URL, as folders that change at once.

    What is replaced there is replaced here when it is copied and verified. A
    version that is gone there goes here, too, after GONE_SECONDS; but where none is
    left at all, which is no wish to serve nothing, all stay.
    """

    def __init__(self, url: str):
        self.url, self.folder = url, copies_folder(url)
        self.trouble = ""  # of the last look
        self._copies = self.folder.parent / "copies"
        self._looking = threading.Lock()
        self._seen: dict[str, Files] = {}
        self._facts: dict[str, tuple[Any, ...]] = {}  # files beside the models
        self._failed: dict[Path, tuple[str, float]] = {}  # by copy, with the time
        self._gone: dict[Path, float] = {}  # links, and since when
        # Whether all that was there at a look is here, or cannot be had.
        self.is_known = bool(self._links())

    def look_soon(self) -> None:
        """Look in a thread, unless one does: a bucket may not answer for minutes."""
        if not self._looking.locked():
            threading.Thread(target=self.look, name="bucket", daemon=True).start()

    def look(self, is_complete: bool = False) -> None:
        """Copy what is new, and note the `trouble`; with `is_complete` also what was not
        seen like that before, and may still be written.
        """
        with self._looking:
            try:
                self._copies.mkdir(parents=True, exist_ok=True)
                with hold_lock(self._copies):  # several servers may share a cache
                    self._look(is_complete)
            except Exception as error:  # each of fsspec's packages has errors of its own
                log.debug("looking at a bucket failed", exc_info=error)
                self._note([f"cannot be read: {_describe(error)}"])

    def _note(self, troubles: Iterable[str]) -> None:
        shown = without_secrets(self.url)
        self.trouble = "; ".join(f"{shown} {trouble}" for trouble in troubles)
        self.is_known = True

    def _look(self, is_complete: bool) -> None:
        filesystem, root = _open_source(self.url)
        files = _list_files(filesystem, root)
        found = _versions_in(files)
        if not found:
            self._note(["holds no version: expected <model>/<number>/saved_model.pb"])
            return
        self._copy_facts(filesystem, root, files)
        copies, troubles, is_moving = dict[Path, Path](), [], False
        for path, files in found.items():
            link = self.folder / (path or "1")
            name = f"{path.replace('/', '-')}-{_digest(repr(sorted(files.items())).encode())}"
            copy = self._copies / name
            if not copy.exists() and not is_complete and self._seen.get(path) != files:
                is_moving = True
                continue
            if trouble := self._copy(filesystem, root, path, copy, is_complete):
                troubles.append(f"{path}: {trouble}")
            else:
                copies[link] = copy
        self._seen = found
        self._link(copies, {self.folder / (path or "1") for path in found})
        if not is_moving:
            self._note(troubles)

    def _copy_facts(self, filesystem: Any, root: str, files: Files) -> None:
        """Copy what lies beside the models, such as breeds.json."""
        for name, marks in files.items():
            is_one = "/" not in name and name.endswith(".json") and (marks[0] or 0) <= MOST_BYTES
            if is_one and self._facts.get(name) != marks:
                self.folder.mkdir(parents=True, exist_ok=True)
                with replacing(self.folder / name) as temporary:
                    filesystem.get_file(f"{root}/{name}", str(temporary), **_within(filesystem))
                self._facts[name] = marks

    def _copy(self, filesystem: Any, root: str, path: str, copy: Path, is_complete: bool) -> str:
        """Copy a version if it is not there; why that is not possible, or ""."""
        trouble, failed_at = self._failed.get(copy, ("", 0.0))
        is_due = is_complete or time.monotonic() - failed_at >= RETRY_SECONDS
        if copy.exists() or (trouble and not is_due):
            return trouble
        try:
            copy_version(filesystem, root, path, copy, self._copies)
            self._failed.pop(copy, None)
            return ""
        except Exception as error:
            trouble = _describe(error)
        self._failed[copy] = trouble, time.monotonic()
        return trouble

    def _link(self, copies: Mapping[Path, Path], found: set[Path]) -> None:
        """Let links lead to these copies, remove links that are gone for long, and the
        copies of no link.
        """
        for link, copy in copies.items():
            link.parent.mkdir(parents=True, exist_ok=True)
            target = os.path.relpath(copy, link.parent)
            if not link.is_symlink() or os.readlink(link) != target:
                new = self._copies / ".new"
                new.unlink(missing_ok=True)
                new.symlink_to(target)
                os.replace(new, link)
        links, now = self._links(), time.monotonic()
        self._gone = {link: self._gone.get(link, now) for link in links if link not in found}
        for link, since in self._gone.items():
            if now - since >= GONE_SECONDS:
                link.unlink()
                with suppress(OSError):
                    link.parent.rmdir()  # of a model, if this was its last version
        used = {link.resolve() for link in self._links()}
        for copy in set(self._copies.iterdir()) - used:
            shutil.rmtree(copy, ignore_errors=True)

    def _links(self) -> list[Path]:
        """Of all versions that are served from here."""
        paths = [*self.folder.glob("*"), *self.folder.glob("*/*")]
        return [path for path in paths if path.is_symlink()]


class ModelFiles:
    """The folders of base paths here; what is at a URL is looked at whenever it is asked
    for, in the background. Thread-safe.
    """

    def __init__(self) -> None:
        self._mirrors: dict[str, Mirror] = {}

    def folder(self, base_path: str) -> Path:
        if not is_url(base_path):
            return Path(base_path)
        mirror = self._mirror(base_path)
        mirror.look_soon()
        return mirror.folder

    def _mirror(self, url: str) -> Mirror:
        return self._mirrors.setdefault(url, Mirror(url))

    def look_now(self, base_path: str) -> Path:
        """The folder of a base path, after a look at the URL that it is or comes from.

        Raises Unavailable if that fails.
        """
        if is_url(base_path):
            self._mirror(base_path)
        for url, mirror in list(self._mirrors.items()):
            if base_path in ("", url) or Path(base_path).is_relative_to(mirror.folder):
                mirror.look(is_complete=True)
                if mirror.trouble:
                    raise Unavailable(mirror.trouble)
        return self.folder(base_path)

    def troubles(self) -> list[str]:
        return [mirror.trouble for mirror in self._mirrors.values() if mirror.trouble]

    def is_waiting(self) -> bool:
        """Whether something is still copied for the first time."""
        return any(not mirror.is_known for mirror in self._mirrors.values())


def _describe(error: Exception) -> str:
    kind = "" if isinstance(error, DogsnapError) else f"{type(error).__name__}: "
    is_silent = isinstance(error, TimeoutError) and not str(error)
    text = "no answer came in time" if is_silent else str(error)
    return f"{kind}{' '.join(without_secrets(text).split()):.300}"
