"""URLs at which models may be, in place of a folder of this machine: those that fsspec reads."""

import hashlib
import re
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from dogsnap.errors import InvalidArgument
from dogsnap.files import user_folder

# User and password, and a query, of a URL; packages name buckets without its scheme.
SECRETS = re.compile(r"(?<=//)[^/@\s]+@|[^\s/@:'\"]+:[^\s/@'\"]+@|\?\S+")


def is_url(source: str | Path) -> bool:
    return "://" in str(source)


def without_secrets(text: str) -> str:
    """A URL, or a text with one, without user, password and query."""
    return SECRETS.sub("", text)


def check_source(setting: str, url: str) -> None:
    """Raises InvalidArgument for a URL that cannot be read here, whatever is there."""
    shown = f"{setting} is {without_secrets(url)}"
    if ".." in url.split("/"):
        raise InvalidArgument(f"{shown}; expected a path inside the bucket, without ..")
    try:
        from fsspec.registry import known_implementations
    except ImportError:
        known_implementations = {}
    known = known_implementations.get(url.partition("://")[0])
    # Nothing is imported: some packages start what no fork survives.
    if known is None or find_spec(known["class"].partition(".")[0]) is None:
        reason = known["err"] if known else "fsspec is missing, or knows no such kind of URL"
        raise InvalidArgument(
            f"{shown}, which cannot be read: {reason}; `make setup EXTRAS=buckets` or "
            "`pip install dogsnap[buckets]` installs what reads s3, gs and az"
        )


def check_copies(setting: str, url: str) -> None:
    """Raises InvalidArgument where copies of what is at a URL cannot be kept."""
    try:
        folder = copies_folder(url).parent
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".tried").touch()
    except OSError as error:
        raise InvalidArgument(
            f"{setting} is {without_secrets(url)}, whose copies cannot be kept: {error}; "
            "set XDG_CACHE_HOME to another folder"
        ) from None


def copies_folder(url: str) -> Path:
    """The folder here with the same models, or versions of one model, as a URL; it has
    the name of that folder there.
    """
    home = user_folder("XDG_CACHE_HOME", ".cache").resolve() / "dogsnap" / "models"
    return home / hashlib.sha256(url.encode()).hexdigest()[:12] / name_of(url)


def local_folder(source: str | Path) -> Path:
    """The folder itself, or that of the copies of a URL."""
    return copies_folder(str(source)) if is_url(source) else Path(source)


def name_of(url: str) -> str:
    """The last part of a URL's path."""
    return PurePosixPath(url.partition("?")[0].rstrip("/")).name
