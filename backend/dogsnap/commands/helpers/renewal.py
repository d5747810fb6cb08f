"""Builds a model's versions where what they are made from has changed; a
version that somebody else put there stays.

It imports neither TensorFlow nor what does: to find that nothing has changed
takes milliseconds.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import dogsnap
from dogsnap import processor
from dogsnap.files import hold_lock, replacing, sync

# what serving.versions.checksums, which loads TensorFlow, writes into a version
SUMS = "assets.extra/SHA256SUMS"
# Beside the versions: the checksums of each version as it was built, by its number, and
# the digest of what all were made from.
NOTES = ".built"
MADE_FROM = "made_from"
BUILDING = ".building."  # how the folder of a run begins; one that was killed leaves its own
# Files beside the folder of the weights that are read as well.
SHARED = ("breeds.json", "groups.json", "popularity.json")
# The code that decides what a version holds.
CODE = (
    "networks",
    "exporting",
    "serving/answers",
    "serving/photos",
    "serving/versions",
)
PACKAGES = ("keras", "openvino", "tensorflow")  # whose release decides as well


def renew(
    artefacts: Path,
    folder: Path,
    build: Callable[[Path], object],
    report: Callable[[str], None],
    options: str = "",
) -> bool:
    """Bring the versions in `folder` up to date with `artefacts`; False if they
    are.

    `build(models)` writes versions below models/<name of `folder`>, by
    `options`. Those that an earlier call wrote are replaced, or removed where
    there is none of that number any more. After a call that was killed the next
    one builds them again. Raises OSError and what `build` raises; `folder` is
    unchanged then.
    """
    notes = folder / NOTES
    notes.mkdir(parents=True, exist_ok=True)
    with hold_lock(notes / MADE_FROM):
        for unfinished in folder.glob(f"{BUILDING}*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        source = _digest(artefacts, options)
        versions = [folder / number for number in _list_built(notes)]
        are_there = bool(versions) and all(version.is_dir() for version in versions)
        if are_there and _read(notes / MADE_FROM) == source:
            return False
        report(f"building the versions of {folder} from the stored weights (up to a minute) ...")
        # Within `folder`, so that a version is moved to its place by one rename.
        with tempfile.TemporaryDirectory(prefix=BUILDING, dir=folder) as building:
            build(Path(building))
            (notes / MADE_FROM).unlink(missing_ok=True)
            _remove_former(folder, notes, Path(building))
            for version in sorted((Path(building) / folder.name).glob("[0-9]*")):
                _move_in(version, folder / version.name, notes, report)
            sync(folder)
        with replacing(notes / MADE_FROM) as temporary:
            temporary.write_text(source, encoding="utf-8")
    return True


def _digest(artefacts: Path, options: str) -> str:
    """SHA-256 of the weights and what else is read, of the options and the
    code, and of what runs it.
    """
    root = Path(dogsnap.__file__).parent
    files = {}
    for path in artefacts.iterdir():
        if not path.name.startswith("."):
            files[path.name] = path
    for name in SHARED:
        files[f"../{name}"] = artefacts.parent / name
    for part in CODE:
        for path in (root / part).rglob("*"):
            if path.suffix in (".py", ".json"):
                files[f"code {path.relative_to(root)}"] = path
    lines = [options, f"int8 weights of {processor.int8_weight_bits()} bits"]
    for name, path in sorted(files.items()):
        if path.is_file():
            lines.append(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}")
    for package in PACKAGES:
        installed = metadata.distributions(name=package)
        releases = {distribution.version for distribution in installed}
        lines.append(f"{package} {sorted(releases)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _list_built(notes: Path) -> list[str]:
    """The numbers of the versions that were built here."""
    return sorted(path.name for path in notes.glob("[0-9]*"))


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _remove_former(folder: Path, notes: Path, building: Path) -> None:
    """Remove the versions that were built here and are still as they were.

    They are moved away whole: a version that lacks files would count as
    somebody else's the next time.
    """
    for number in _list_built(notes):
        sums = _read(notes / number)
        if sums and _read(folder / number / SUMS) == sums:
            (folder / number).rename(building / f"former {number}")
        (notes / number).unlink()


def _move_in(built: Path, version: Path, notes: Path, report: Callable[[str], None]) -> None:
    if version.exists():
        report(
            f"{version} was not built by this command, so it stays; "
            "give it another number to have this version"
        )
        return
    shutil.copy(built / SUMS, notes / version.name)
    built.rename(version)
    report(f"wrote {version}")
