"""Photos in a request's body: its bytes and its form say what they are, not its
type or a file's name.
"""

import binascii
import io
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field

from dogsnap.errors import InvalidArgument
from dogsnap.serving.photos.base64_text import decode_base64, first_bytes
from dogsnap.serving.photos.photo_values import is_photo

PHOTO_FIELDS = ("image", "images")
MOST_FIELDS = 1000
SHOWN_FIELDS = 10
MOST_HEAD = 16 * 1024  # bytes of the head of a part
SLICE = 64 * 1024  # bytes
URLENCODED = "application/x-www-form-urlencoded"
FIRST_PAIR = re.compile(rb"[\w.\[\]-]{1,64}=")  # the beginning of a body in URLENCODED
# NEXT_FIELD, END_OF_HEAD and the delimiter of parts begin with one certain byte: Python then finds
# it sixty times as fast, and other threads wait meanwhile.
# A line of a text/plain form that begins a field; base64 text has "=" at its end alone.
NEXT_FIELD = re.compile(rb"\n(?=[\w.\[\]-]{1,64}=[^=\s])")
FIRST_DELIMITER = re.compile(rb"--([^\r\n]{1,200}?)[ \t]*\r?\n")
DISPOSITION = rb"^Content-Disposition:[^\r\n]*?"
NAME = re.compile(DISPOSITION + rb';[ \t]*name=(?:"([^"\r\n]*)"|([^\s;]+))', re.I | re.M)
END_OF_HEAD = re.compile(rb"\n\r?\n")

Fields = list[tuple[str, bytes]]


@dataclass
class PhotoBody:
    """The bytes of photos, as files hold them, and the form's other fields."""

    photos: list[bytes]
    fields: dict[str, str] = field(default_factory=dict)


def parse(body: bytes, mimetype: str = "", boundary: str = "") -> PhotoBody | None:
    """The photos of a body; None for one that is no photo and no form, as JSON
    is none.

    Takes the bytes of a photo, base64 text of one, and forms, multipart or
    urlencoded: the photos of the fields `image` and `images`, else all that are
    in it. `mimetype` and `boundary` are what the request states, or "".
    `image=iVBORw0KGgo...&top_k=1` -> one photo, {"top_k": "1"}. Raises
    InvalidArgument for a form without a photo.
    """
    photo = _decode_photo(body)
    if _is_photo(photo):
        return PhotoBody([photo])
    if body.startswith(b"--") or mimetype.startswith("multipart/"):
        return _from_form(list(_parts(body, boundary)))
    if may_be_json(body):
        return None
    if mimetype == URLENCODED or FIRST_PAIR.match(body):
        return _from_form(list(_pairs(body)))
    if mimetype.startswith("image/") or mimetype == "application/octet-stream":
        return PhotoBody([body])
    return None


def may_be_json(body: bytes) -> bool:
    """Whether it begins as an object or a list does."""
    return body.lstrip(BOM_UTF8 + b" \t\r\n").startswith((b"{", b"["))


def _is_photo(contents: bytes) -> bool:
    is_heic_or_avif = contents[4:8] == b"ftyp"  # which no graph decodes
    return is_heic_or_avif or is_photo(contents)


def _decode_photo(content: bytes) -> bytes:
    """The photo that base64 text holds; any other content unchanged."""
    if not _is_photo(content) and _is_photo(first_bytes(content)):
        return decode_base64(content)
    return content


def _from_form(fields: Fields) -> PhotoBody:
    if len(fields) > MOST_FIELDS:
        raise InvalidArgument(f"the form has more than {MOST_FIELDS} fields; send fewer")
    photos = []
    others: dict[str, str] = {}
    for name, content in fields:
        if name not in PHOTO_FIELDS:
            text = content.decode("utf-8", "replace")
            if others.setdefault(name, text) != text and not _is_photo(_decode_photo(content)):
                raise InvalidArgument(f"the form has {name!r:.100} twice; send it once")
        elif content:
            photos.append(_decode_photo(content))
    if not photos:
        contents = [_decode_photo(content) for _, content in fields]
        photos = [content for content in contents if _is_photo(content)]
    if not photos:
        listed = ", ".join(
            f"{name} ({len(content)} bytes)" for name, content in fields[:SHOWN_FIELDS]
        )
        raise InvalidArgument(
            "expected a photo in the form's field image (several in images), as a file "
            "or as base64 text; "
            f"received {f'the fields {listed}' if fields else 'a form without fields'}"
        )
    return PhotoBody(photos, others)


def _pairs(body: bytes) -> Iterator[tuple[str, bytes]]:
    """The fields of an urlencoded form, and of one as text/plain."""
    pairs = body.split(b"&", MOST_FIELDS)
    for pair in pairs if len(pairs) > 1 else NEXT_FIELD.split(body.rstrip(), MOST_FIELDS):
        name, _, value = pair.removesuffix(b"\r").partition(b"=")
        text = _unquote(name).decode("utf-8", "replace")
        # Base64 text of clients that do not encode its "+" has no blanks of its own.
        yield text, _unquote(value if text in PHOTO_FIELDS else value.replace(b"+", b" "))


def _unquote(text: bytes) -> bytes:
    """Percent-encoded text, decoded as quoted-printable, which is the same with
    another sign; a slice at a time for memory.
    """
    decoded = io.BytesIO()
    start = 0
    while start < len(text):
        end = start + SLICE
        escape = text.rfind(b"%", end - 2, end)
        if escape > 0:
            end = escape  # it stays whole
        decoded.write(binascii.a2b_qp(text[start:end].replace(b"=", b"=3D").replace(b"%", b"=")))
        start = end
    return decoded.getvalue()


def _parts(body: bytes, boundary: str) -> Iterator[tuple[str, bytes]]:
    """The fields of a multipart form (RFC 7578), whose first line is its
    boundary where the request states none.
    """
    sign = boundary.encode("latin-1", "replace")
    if not sign or b"--" + sign not in body:
        first = FIRST_DELIMITER.match(body)
        if not first:
            return
        sign = first[1]
    delimiter = re.compile(rb"\n--" + re.escape(sign) + rb"(?:--)?[ \t]*(?:\r?\n|\Z)")
    for part in delimiter.split(b"\n" + body, MOST_FIELDS + 1)[1:]:
        head = END_OF_HEAD.search(part, 0, MOST_HEAD)
        if not head:
            continue
        name = NAME.search(part, 0, head.start())  # a part of multipart/related has none
        text = name[1] or name[2] or b"" if name else b""
        end = len(part) - part.endswith(b"\r")
        yield text.decode("utf-8", "replace"), part[head.end() : end]
