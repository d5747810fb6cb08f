"""One HTML page of the photos that two versions answer differently: pictures
inside it, nothing is fetched.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from dogsnap.files import replacing
from dogsnap.training.dataset import open_photo

MOST_PHOTOS = 200  # each takes about 15 kB
THUMBNAIL = (320, 320)
QUALITY = 80
HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 16px/1.4 system-ui, sans-serif; margin: 1.5rem; color-scheme: light dark }}
pre {{ overflow-x: auto }}
ul {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 1rem; padding: 0 }}
li {{ list-style: none }}
img {{ width: 100%; height: 12rem; object-fit: contain; background: #8882 }}
p {{ margin: .2rem 0 }}
.right {{ font-weight: bold }}
</style>
<h1>{title}</h1>
<pre>{summary}</pre>
<ul>
"""


def write_page(
    title: str,
    names: Sequence[str],
    summary: str,
    differing: Sequence[Mapping[str, Any]],
    file: Path,
) -> None:
    """Write the page.

    `names` of the two versions; `differing`: of `agreement.compare`,
    MOST_PHOTOS are shown.
    """
    parts = [HEAD.format(title=escape(title), summary=escape(summary))]
    for pair in differing[:MOST_PHOTOS]:
        parts.append(_item(pair, names))
    parts.append("</ul>\n")
    if len(differing) > MOST_PHOTOS:
        parts.append(f"<p>and {len(differing) - MOST_PHOTOS} more photos</p>\n")
    with replacing(file) as temporary:
        temporary.write_text("".join(parts), encoding="utf-8")


def _item(pair: Mapping[str, Any], names: Sequence[str]) -> str:
    lines = []
    for name, answer, share in zip(names, pair["names"], pair["probabilities"], strict=True):
        kind = ' class="right"' if answer == pair["right"] else ""
        lines.append(f"<p{kind}>{escape(name)}: {escape(answer)}, {share:.1%}</p>")
    if pair["right"]:
        lines.append(f"<p>is: {escape(pair['right'])}</p>")
    path = escape(str(pair["photo"]))
    return (
        f'<li><img alt="{path}" '
        f'src="{_thumbnail(pair["photo"])}">{"".join(lines)}<p><small>{path}</small></p></li>\n'
    )


def _thumbnail(photo: Path) -> str:
    image = open_photo(photo)
    image.thumbnail(THUMBNAIL)
    contents = io.BytesIO()
    image.save(contents, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(contents.getvalue()).decode("ascii")
