"""Refuses JPEG, PNG, GIF, BMP, HEIC and AVIF files made to keep a decoder busy.

Damaged files are left to the decoders.
"""

import re
import struct
from collections.abc import Iterator
from contextlib import suppress

from dogsnap.errors import UnsupportedPhoto
from dogsnap.serving.photos.heif_boxes import item_bytes

# before the picture data; photos have a few dozen, of up to 64 KiB, for EXIF and colour profiles
MAX_SEGMENTS = 1000
# Of a progressive JPEG. libjpeg writes 10 for a photo and 18 for four colours (jcparam.c); decoding
# each costs time for the whole picture.
MAX_SCANS = 18
# Of a JPEG, between the segments before its picture, which Pillow reads byte by byte: writers
# fill up with a few (ITU T.81, B.1.1.2). Of a run-length encoded BMP, beside its runs.
MAX_FILL = 64 * 1024
# A PNG's picture comes in chunks, libpng's of 8 kB; Pillow takes 2 microseconds for each.
CHUNK_BYTES = 256
# Compressed texts of a PNG: libpng inflates each to up to 8 MB and keeps it, in 40 ms. ImageMagick
# writes 4.
MAX_TEXTS = 10
KEYWORD = 80  # bytes of a text's keyword and the null byte behind it, at most
# Parts in a JPEG's segments, by its marker: how they begin, and how many there may be. Pillow
# copies all of EXIF with each of its segments, of which cameras write one. Resources of Photoshop,
# of which a photo has a few dozen, it reads one by one in Python.
PARTS = {0xE1: (b"Exif\0\0", 16), 0xED: (b"8BIM", 10_000)}
# Of a run-length encoded BMP, which Pillow decodes in Python: 0.2 s, measured.
MAX_RUN_LENGTH_PIXELS = 1_000_000
RUN_BYTES = 2  # of a run of one pixel or more, and of the end of a row
MAX_BLOCKS = 500_000  # of up to 255 bytes each, in the frames of a GIF that are read

JPEG = b"\xff\xd8\xff"
PNG = b"\x89PNG\r\n\x1a\n"
GIF = (b"GIF87a", b"GIF89a")
BMP = b"BM"
BOXES = b"ftyp"  # the first box of HEIC and AVIF
RUN_LENGTH = (1, 2)  # BI_RLE8 and BI_RLE4, of its field biCompression
# In the pixels of a JPEG, FF is followed by 00, by a restart marker, or by the next segment.
NEXT_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
START_OF_SCAN = 0xDA
END_OF_IMAGE = 0xD9
FRAME, EXTENSION, TRAILER = b",", b"!", b";"  # the first bytes of the parts of a GIF
CUT_OFF = (IndexError, struct.error)  # of a file that ends early


def check_structure(contents: bytes) -> None:
    """Raises UnsupportedPhoto for a file with far more parts than a photo has."""
    with suppress(*CUT_OFF):
        if contents.startswith(JPEG):
            _check_jpeg(contents)
        elif contents.startswith(PNG):
            _check_png(contents)
        elif contents.startswith(GIF):
            _first_frame_end(contents)
        elif contents.startswith(BMP):
            _check_bmp(contents)
        elif contents[4:8] == BOXES and item_bytes(contents) > 2 * len(contents):
            raise _too_many("a HEIC or AVIF of", 2 * len(contents), "bytes in its items")


def first_frame(contents: bytes) -> bytes:
    """A GIF cut after its first frame, since TensorFlow's decoder would read
    the unused rest. Raises UnsupportedPhoto.
    """
    if not contents.startswith(GIF):
        return contents
    try:
        end = _first_frame_end(contents)
    except CUT_OFF:
        return contents
    return contents if contents[end:] in (b"", TRAILER) else contents[:end] + TRAILER


def gif_pixels(contents: bytes, most: int) -> int:
    """How many pixels a decoder of all frames of a GIF fills, each frame as
    large as the picture or larger.

    Counting ends above `most`. Raises UnsupportedPhoto for more blocks in all
    frames together than MAX_BLOCKS.
    """
    pixels = 0
    with suppress(*CUT_OFF):
        picture = _number("<H", contents, 6) * _number("<H", contents, 8)
        for kind, offset in _gif_parts(contents):
            if kind == FRAME:
                pixels += max(
                    picture,
                    _number("<H", contents, offset + 5) * _number("<H", contents, offset + 7),
                )
            if pixels > most:
                break
    return pixels


def _check_jpeg(contents: bytes) -> None:
    offset = 2
    segments = 0
    scans = 0
    fill = 0
    parts = dict.fromkeys(PARTS, 0)
    while True:
        found = NEXT_MARKER.search(contents, offset)
        if found is None or contents[found.start() + 1] == END_OF_IMAGE:
            return
        if not scans:
            fill += found.start() - offset
        if fill > MAX_FILL:
            raise _too_many("a JPEG of", MAX_FILL, "bytes between its segments")
        segments += 1
        scans += contents[found.start() + 1] == START_OF_SCAN
        if scans > MAX_SCANS:
            raise _too_many("a JPEG of", MAX_SCANS, "scans")
        if segments > MAX_SEGMENTS + MAX_SCANS:
            raise _too_many("a JPEG of", MAX_SEGMENTS + MAX_SCANS, "segments")
        offset = found.end() + max(2, _number(">H", contents, found.end()))
        marker = contents[found.start() + 1]
        if marker in PARTS:
            start, most = PARTS[marker]
            parts[marker] += contents.count(start, found.end(), offset)
            if parts[marker] > most:
                raise _too_many("a JPEG of", most, f"parts that begin with {start[:4].decode()}")


def _check_png(contents: bytes) -> None:
    offset = len(PNG)
    most = MAX_SEGMENTS + len(contents) // CHUNK_BYTES
    profiles = texts = 0
    for _ in range(most):
        kind = contents[offset + 4 : offset + 8]
        profiles += kind == b"iCCP"
        if profiles > 1:  # Pillow inflates each of them
            raise _too_many("a PNG of", 1, "colour profile")
        texts += _is_compressed_text(kind, contents, offset + 8)
        if texts > MAX_TEXTS:
            raise _too_many("a PNG of", MAX_TEXTS, "compressed texts")
        if kind == b"IEND":
            return
        offset += 12 + _number(">I", contents, offset)
    raise _too_many("a PNG of", most, "chunks")


def _is_compressed_text(kind: bytes, contents: bytes, start: int) -> bool:
    """Of a chunk of a PNG whose data begin at `start` (PNG specification, 11.3.3)."""
    if kind != b"iTXt":
        return kind == b"zTXt"
    return contents[contents.find(b"\0", start, start + KEYWORD) + 1] != 0


def _check_bmp(contents: bytes) -> None:
    width = _number("<i", contents, 18)
    height = _number("<i", contents, 22)
    is_short = _number("<I", contents, 14) < 40  # a header without the field biCompression
    if is_short or _number("<I", contents, 30) not in RUN_LENGTH:
        return
    pixels = abs(width * height)
    if pixels > MAX_RUN_LENGTH_PIXELS:
        raise _too_many("a compressed BMP of", MAX_RUN_LENGTH_PIXELS, "pixels")
    # Runs of nothing cost as much as others.
    most = RUN_BYTES * (pixels + abs(height)) + MAX_FILL
    if len(contents) > most:
        raise _too_many(f"a compressed BMP of {pixels} pixels with", most, "bytes")


def _first_frame_end(contents: bytes) -> int:
    """Where the first frame of a GIF ends, or without one its last extension."""
    parts = _gif_parts(contents)
    for _ in range(MAX_SEGMENTS):
        kind, offset = next(parts)
        if kind == FRAME:
            return next(parts)[1]
        if kind != EXTENSION:
            return offset
    raise _too_many("a GIF of", MAX_SEGMENTS, "extensions before its picture")


def _gif_parts(contents: bytes) -> Iterator[tuple[bytes, int]]:
    """First byte and place of each frame and extension, and of what follows
    them (GIF89a, sections 18 to 24).
    """
    offset = 13 + _colours(contents[10])
    blocks = 0
    while (kind := contents[offset : offset + 1]) in (FRAME, EXTENSION):
        yield kind, offset
        offset += 11 + _colours(contents[offset + 9]) if kind == FRAME else 2
        # Each block follows a byte with its length; one of length 0 is the last.
        while size := contents[offset]:
            offset, blocks = offset + 1 + size, blocks + 1
            if blocks > MAX_BLOCKS:
                raise _too_many("a GIF of", MAX_BLOCKS, "blocks")
        offset, blocks = offset + 1, blocks + 1
    yield kind, offset


def _colours(flags: int) -> int:
    return 3 << (1 + flags % 8) if flags & 0x80 else 0


def _number(kind: str, contents: bytes, offset: int) -> int:
    return struct.unpack_from(kind, contents, offset)[0]


def _too_many(what: str, most: int, things: str) -> UnsupportedPhoto:
    return UnsupportedPhoto(
        f"expected {what} at most {most} {things}, received more; save it again and send that"
    )
