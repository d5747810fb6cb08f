"""Decodes base64 text in every form that clients send."""

import re
import string

import pybase64

from dogsnap.errors import InvalidArgument

# Of any length: a graph must not find a photo in text in which none was found here.
DATA_PREFIX = re.compile(rb"\s*+data:[^,]*,", re.IGNORECASE)
TO_STANDARD = bytes.maketrans(b"-_", b"+/")
TO_WEB_SAFE = bytes.maketrans(b"+/", b"-_")
ALPHABET = string.ascii_letters.encode() + string.digits.encode() + b"+/"
WHITE_SPACE = b" \t\r\n\f\v"
# An address or the name of a file, as mini programs and browsers give photos.
ADDRESS = re.compile(
    rb"(?:[a-z][a-z0-9+.-]*://|[a-z]:\\|(?:blob|file):)"
    rb"|[^\n]+\.(?:jpe?g|png|gif|bmp|webp|hei[cf]|avif)(?:\?|\s*\Z)",
    re.IGNORECASE,
)
LONGEST = 1000  # bytes of text that may be an address
SHOWN = 60  # of these
TRIED = 128  # characters, of which a data: prefix takes about 25
EXPECTED = (
    "expected base64 text (standard or web-safe alphabet, padded or not, line breaks "
    "and a data: prefix allowed)"
)


def decode_base64(text: str | bytes) -> bytes:
    """Either alphabet, padded or not, with line breaks, with a data: prefix.

    Raises InvalidArgument.
    """
    try:
        return pybase64.b64decode(text, validate=True)  # the usual form, decoded without a copy
    except ValueError:
        return _decode_other_form(
            text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        )


def first_bytes(text: bytes) -> bytes:
    """The first bytes that base64 text encodes, at least 20 of long text; none
    where its beginning is something else.
    """
    start = DATA_PREFIX.sub(b"", text[:TRIED], count=1).translate(None, WHITE_SPACE).rstrip(b"=")
    try:
        return decode_base64(start[: len(start) // 4 * 4])
    except InvalidArgument:
        return b""


def _decode_other_form(text: bytes) -> bytes:
    prefix = DATA_PREFIX.match(text)
    bare = text[prefix.end() :] if prefix else text
    standard = bare.translate(TO_STANDARD, WHITE_SPACE).rstrip(b"=")
    try:
        return pybase64.b64decode(standard + b"=" * (-len(standard) % 4), validate=True)
    except ValueError:
        fault = f"{len(standard)} characters, a number that no bytes encode to"
        if wrong := standard.translate(None, ALPHABET):
            fault = f"the character {wrong[:4].decode('utf-8', 'replace')[0]!r}"
        start = bare.strip()[:LONGEST]
        if ADDRESS.match(start):
            shown = start[:SHOWN].decode("utf-8", "replace")
            fault = f"an address or the name of a file ({shown}); send what that file holds"
        raise InvalidArgument(f"Unable to base64 decode: {EXPECTED}, received {fault}") from None


def to_web_safe_base64(contents: bytes) -> bytes:
    """Converts to the only form that tf.io.decode_base64 accepts: web-safe
    alphabet, no padding.
    """
    return pybase64.urlsafe_b64encode(contents).rstrip(b"=")


def web_safe(text: bytes) -> bytes:
    """Standard alphabet to web-safe, without any other change; in TensorFlow it
    takes ten times as long.
    """
    has_others = b"+" in text or b"/" in text
    return (text.translate(TO_WEB_SAFE) if has_others else text).rstrip(b"=")
