"""Gets the versions of models to a node: reads a shared folder in place, copies
a URL once.

URLs are those of fsspec: file:///models, s3://bucket/models,
gs://bucket/models.
"""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec

from dogsnap.errors import FailedPrecondition, InvalidArgument
from dogsnap.files import hold_lock
from dogsnap.serving.versions import checksums, saved_model_file
from dogsnap.serving.versions.version_folders import VERSION


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
        if is_path(self.source):
            return Path(self.source) / self.folder
        cache = cache.expanduser()
        models = cache / f"{self.folder}-{self.number}-{self.digest}"
        try:
            cache.mkdir(parents=True, exist_ok=True)
            # One process of this node copies at a time; the others use its copy.
            with hold_lock(cache / "copies"):
                if not models.exists():
                    self._copy(models)
        except PermissionError as error:
            raise FailedPrecondition(
                f"models cannot be copied to {cache}: {error}; choose another --cache"
            ) from error
        return models / self.folder

    def _copy(self, models: Path) -> None:
        """Copy and verify the version; it appears atomically."""
        filesystem, root = _open_source(self.source)
        folder = f"{root}/{self.folder}/{self.number}"
        with tempfile.TemporaryDirectory(dir=models.parent, prefix=".copying-") as temporary:
            whole = Path(temporary) / "models"
            version = whole / self.folder / self.number
            filesystem.get(f"{folder}/", f"{version}/", recursive=True)
            checksums.verify(version)
            whole.rename(models)


def is_path(source: str) -> bool:
    return "://" not in source


def versions_below(source: str) -> list[VersionFiles]:
    """Every version of every model folder at a path or URL. Raises
    InvalidArgument if there is none.
    """
    filesystem, root = _open_source(source)
    if not filesystem.isdir(root):
        raise InvalidArgument(f"{root} does not exist")
    source = root if is_path(source) else source
    versions = []
    for file in filesystem.find(root, maxdepth=3):
        path = PurePosixPath(file.removeprefix(f"{root}/"))
        if len(path.parts) != 3 or path.name not in saved_model_file.NAMES:
            continue
        folder, number, _ = path.parts
        if VERSION.fullmatch(number):
            digest = _digest(filesystem, f"{root}/{folder}/{number}")
            versions.append(VersionFiles(source, folder, number, digest, folder))
    if not versions:
        raise InvalidArgument(
            f"no version was found at {source}: expected <model>/<number>/saved_model.pb below it"
        )
    return versions


def _open_source(source: str) -> tuple[Any, str]:
    """The file system and the folder's path in it.

    Raises InvalidArgument for an unknown kind of URL.
    """
    url = str(Path(source).resolve()) if is_path(source) else source
    try:
        filesystem, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise InvalidArgument(f"{source} cannot be opened: {error}") from error
    return filesystem, root.rstrip("/")


def _digest(filesystem: Any, folder: str) -> str:
    """Digest of the version's checksum file, or without one of the names and
    sizes of its files.
    """
    sums = f"{folder}/{checksums.FILE.as_posix()}"
    if filesystem.exists(sums):
        content = filesystem.cat_file(sums)
    else:
        sizes = []
        for name, entry in filesystem.find(folder, detail=True).items():
            sizes.append((name.removeprefix(folder), entry["size"]))
        content = repr(sorted(sizes)).encode()
    return hashlib.sha256(content).hexdigest()[:12]
