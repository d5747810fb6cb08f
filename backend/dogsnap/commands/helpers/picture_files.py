"""`dogsnap predict PICTURE --out FILE`: sends pictures, a file or a folder,
through an image-to-image model.
"""

import base64
import binascii
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from dogsnap.errors import DogsnapError
from dogsnap.files import replacing
from dogsnap.logs import escape_unprintable
from dogsnap.photo_endings import PHOTO_ENDINGS, is_photo

Ask = Callable[[dict[str, Any]], Mapping[str, Any]]
MADE_BY = "`dogsnap merge --decode bytes --encode png` made"
# Part of the error message about {"b64": ...} of TensorFlow Serving and this server.
WANTS_NUMBERS = "Type: Object is not of expected type"


def translate(source: Path, out: Path, signature_name: str, ask: Ask) -> None:
    """Send each picture of `source`, a file or a folder, and write what comes
    back to `out`, a file or a folder.

    A picture that fails does not keep the others of a folder from being done.
    Raises click.ClickException, DogsnapError, OSError.
    """
    if not source.is_dir():
        if out.is_dir():
            example = out / "result.png"
            raise click.ClickException(
                f"--out {out} is a folder; expected the name of a file, such as {example}"
            )
        _write(_translate_picture(source, signature_name, ask), out)
        click.echo(f"wrote {out}")
        return
    wanted = _targets(source, out)
    failed: dict[str, list[str]] = {}
    with click.progressbar(wanted.items(), label=f"{len(wanted)} pictures", show_pos=True) as pairs:
        for picture, target in pairs:
            try:
                _write(_translate_picture(picture, signature_name, ask), target)
            except (click.ClickException, DogsnapError, OSError) as error:
                failed.setdefault(str(error), []).append(picture.name)
    click.echo(
        f"wrote {len(wanted) - sum(map(len, failed.values()))} of {len(wanted)} pictures to {out}"
    )
    if failed:
        said = "; ".join(f"{', '.join(names)}: {message}" for message, names in failed.items())
        raise click.ClickException(escape_unprintable(said))


def _targets(folder: Path, out: Path) -> dict[Path, Path]:
    """Where each picture's answer goes: NAME.png, or NAME.jpg.png where NAME without the
    ending is that of another picture, too.
    """
    shown = [file for file in folder.iterdir() if not file.name.startswith(".")]
    pictures = sorted(file for file in shown if file.is_file() and is_photo(file))
    if not pictures:
        raise click.ClickException(
            f"{folder} holds no picture; expected files ending in {', '.join(PHOTO_ENDINGS)}"
        )
    if out.exists() and not out.is_dir():
        raise click.ClickException(
            f"--out {out} is a file; expected a folder for the {len(pictures)} pictures of {folder}"
        )
    if out.is_dir() and out.samefile(folder):
        raise click.ClickException(
            f"--out {out} is where the pictures are; expected another folder, so that "
            "none is replaced"
        )
    names = Counter(picture.stem for picture in pictures)
    names.update(picture.name for picture in pictures)
    targets = {}
    for picture in pictures:
        name = picture.stem if names[picture.stem] == 1 else picture.name
        targets[picture] = out / f"{name}.png"
    return targets


def _translate_picture(picture: Path, signature_name: str, ask: Ask) -> bytes:
    row = {"b64": base64.b64encode(picture.read_bytes()).decode("ascii")}
    try:
        return picture_of(ask({"instances": [row], "signature_name": signature_name}))
    except (click.ClickException, DogsnapError) as error:
        if WANTS_NUMBERS in error.message:
            message = f"this version takes numbers, not files of pictures; ask one that {MADE_BY}"
            raise click.ClickException(message) from None
        raise


def picture_of(answer: Mapping[str, Any]) -> bytes:
    """The bytes of the only picture in a row-form answer.

    Raises click.ClickException for any other answer.
    """
    match answer:
        case {"predictions": [{"output_bytes": {"b64": str(text)}} | {"b64": str(text)}]}:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise click.ClickException(
                    f"the picture in the answer is no base64 text: {error}"
                ) from None
        case {"predictions": [row]}:
            raise click.ClickException(
                f'expected a picture, {{"b64": ...}} or an output output_bytes, '
                f"received {row!s:.120}; is this a version "
                f"that {MADE_BY}?"
            )
    raise click.ClickException(
        f"expected an answer with one row of predictions, received {answer!s:.120}"
    )


def _write(contents: bytes, file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary:
            temporary.write_bytes(contents)
    except OSError as error:  # which names the temporary file, or none
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from None
