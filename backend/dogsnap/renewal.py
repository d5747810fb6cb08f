"""Builds a model's versions where what they are made from has changed; a version that somebody else put there stays.

It imports neither TensorFlow nor what does: to find that nothing has changed takes milliseconds.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import dogsnap

SUMS = "assets.extra/SHA256SUMS"  # what serving.versions.checksums, which loads TensorFlow, writes into a version
# Beside the versions: the checksums of each version as it was built, by its number, and the digest of what all were made from.
NOTES, MADE_FROM = ".built", "made_from"
# The code that decides what a version holds.
CODE = (
    "networks",
    "training",
    "exporting",
    "serving/answers",
    "serving/photos",
    "serving/versions",
)
PACKAGES = ("keras", "openvino", "tensorflow")  # whose release decides as well


def renew(
    artefacts: Path, folder: Path, build: Callable[[Path], object], report: Callable[[str], None]
) -> bool:
    """Bring the versions in `folder` up to date with `artefacts`; False if they are.

    `build(models)` writes versions below models/<name of `folder`>. Those that an earlier call wrote are replaced, or removed
    where there is none of that number any more. Raises OSError and what `build` raises; `folder` is unchanged then.
    """
    source = _digest(artefacts)
    notes = folder / NOTES
    if _read(notes / MADE_FROM) == source and all(
        (folder / number).is_dir() for number in _noted(notes)
    ):
        return False
    report(f"building the versions of {folder} from the stored weights (up to a minute) ...")
    folder.mkdir(parents=True, exist_ok=True)
    # Within `folder`, so that a version is moved to its place by one rename.
    with tempfile.TemporaryDirectory(prefix=".building.", dir=folder) as building:
        build(Path(building))
        _remove_former(folder, notes)
        notes.mkdir(exist_ok=True)
        for version in sorted((Path(building) / folder.name).glob("[0-9]*")):
            _place(version, folder / version.name, notes, report)
    (notes / MADE_FROM).write_text(source, encoding="utf-8")
    return True


def _digest(artefacts: Path) -> str:
    """SHA-256 of the weights and what is stored with them, of the code, and of the libraries' releases."""
    root = Path(dogsnap.__file__).parent
    files = [
        path for path in (*artefacts.iterdir(), artefacts.parent / "groups.json") if path.is_file()
    ]
    files += [path for part in CODE for path in (root / part).rglob("*.py")]
    lines = [
        f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sorted(files)
    ]
    lines += [f"{name} {metadata.version(name)}" for name in PACKAGES]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _noted(notes: Path) -> list[str]:
    return sorted(path.name for path in notes.glob("[0-9]*"))


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _remove_former(folder: Path, notes: Path) -> None:
    """Remove the versions that were built here and are still as they were."""
    for number in _noted(notes):
        if _read(folder / number / SUMS) == _read(notes / number):
            shutil.rmtree(folder / number, ignore_errors=True)
        (notes / number).unlink()


def _place(built: Path, place: Path, notes: Path, report: Callable[[str], None]) -> None:
    if place.exists():
        report(
            f"{place} was not built by this command, so it stays; give it another number to have this version"
        )
        return
    shutil.copy(built / SUMS, notes / place.name)
    built.rename(place)
    report(f"wrote {place}")
