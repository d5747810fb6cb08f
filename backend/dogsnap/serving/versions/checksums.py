"""The checksums of a version's files, written by the export, verified before
loading. They detect damage, not attacks.
"""

import hashlib
import re
from pathlib import Path

from dogsnap.errors import FailedPrecondition

# In the format of coreutils: `sha256sum -c assets.extra/SHA256SUMS` verifies them.
FILE = Path("assets.extra") / "SHA256SUMS"
# A star marks a file that was read as binary (`sha256sum -b`).
LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(.+)")


def write(version: Path) -> None:
    files = sorted(file for file in version.rglob("*") if file.is_file() and file != version / FILE)
    lines = [f"{digest(file)}  {file.relative_to(version).as_posix()}\n" for file in files]
    (version / FILE).parent.mkdir(exist_ok=True)
    (version / FILE).write_text("".join(lines), encoding="utf-8")


def verify(version: Path) -> None:
    """Raises FailedPrecondition, naming the file, for a changed file; a version
    without checksums passes.
    """
    if not (version / FILE).exists():
        return
    for line in (version / FILE).read_text(encoding="utf-8").splitlines():
        if not line.strip():
            continue
        match = LINE.fullmatch(line)
        expected, name = (match[1].lower(), match[2]) if match else ("", "")
        file = version / name
        if not name or ".." in file.parts or not file.is_relative_to(version):
            raise FailedPrecondition(
                f"{version / FILE} is damaged: expected lines of `sha256sum`, a "
                f"checksum and a name, received {line!r}"
            )
        received = digest(file) if file.is_file() else "nothing"
        if received != expected:
            raise FailedPrecondition(
                f"{name} was changed after the export: expected the SHA-256 "
                f"{expected[:12]}..., it is {received[:12]}...; "
                f"export the version again, or remove {FILE} if the change is intended"
            )


def digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
