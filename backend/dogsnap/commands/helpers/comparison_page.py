"""One HTML page of the photos that two versions answer differently: pictures
inside it, nothing is fetched.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dogsnap.commands.helpers.answer_text import TEXTS
from dogsnap.files import replacing
from dogsnap.training.dataset import open_photo

MOST_PHOTOS = 200  # each takes about 15 kB
THUMBNAIL = (320, 320)
QUALITY = 80


def write_page(
    title: str,
    versions: Sequence[str],
    summary: str,
    differing: Sequence[Mapping[str, Any]],
    file: Path,
) -> None:
    """Write the page.

    `versions`: their names; `differing`: of `agreement.compare`, MOST_PHOTOS
    are shown.
    """
    shown = [{**pair, "picture": _thumbnail(pair["photo"])} for pair in differing[:MOST_PHOTOS]]
    page = TEXTS.get_template("comparison.html").render(
        title=title,
        versions=versions,
        summary=summary,
        shown=shown,
        more=len(differing) - len(shown),
    )
    with replacing(file) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="backslashreplace")


def _thumbnail(photo: Path) -> str:
    image = open_photo(photo)
    image.thumbnail(THUMBNAIL)
    contents = io.BytesIO()
    image.save(contents, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(contents.getvalue()).decode("ascii")
