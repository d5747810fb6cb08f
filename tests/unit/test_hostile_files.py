"""How many parts a picture's file may have."""

import io
import struct
import time
import zlib
from collections.abc import Callable

import pytest
from dogsnap.errors import UnsupportedPhoto
from dogsnap.serving.photos.hostile_files import MAX_SCANS, check_structure
from dogsnap.serving.photos.photo import check
from PIL import Image

START_OF_SCAN = b"\xff\xda"


def progressive_jpeg(mode: str) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, (64, 64)).save(buffer, "JPEG", progressive=True)
    return buffer.getvalue()


def with_scans(count: int) -> bytes:
    """A picture whose last scan is repeated until there are `count` scans."""
    whole = progressive_jpeg("L")
    last = whole.rindex(START_OF_SCAN)
    missing = count - whole.count(START_OF_SCAN)
    return whole[:-2] + whole[last:-2] * missing + whole[-2:]


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_every_picture_that_an_encoder_writes_has_few_enough_scans(mode: str) -> None:
    contents = progressive_jpeg(mode)
    assert 1 < contents.count(START_OF_SCAN) <= MAX_SCANS
    check_structure(contents)


def test_a_jpeg_of_more_scans_is_refused_naming_how_many_there_may_be() -> None:
    check_structure(with_scans(MAX_SCANS))
    with pytest.raises(UnsupportedPhoto, match="at most 18 scans"):
        check_structure(with_scans(MAX_SCANS + 1))


def chunk(kind: bytes, content: bytes = b"") -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + check


def in_png(before: bytes = b"", behind: bytes = b"") -> bytes:
    """A small PNG with these chunks before and behind its picture."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0))
    picture = chunk(b"IDAT", zlib.compress(bytes(16 * 49)))
    return b"\x89PNG\r\n\x1a\n" + header + before + picture + behind + chunk(b"IEND")


def in_jpeg(between: bytes) -> bytes:
    """A small JPEG with these bytes before its first segment."""
    whole = progressive_jpeg("L")
    return whole[:2] + between + whole[2:]


def text(size: int, compressed: bool = True) -> bytes:
    """An international text of a PNG, of bytes that are no UTF-8: Pillow does not count them."""
    content = b"\xff" * size
    return chunk(b"iTXt", b"k\0" + bytes((compressed, 0, 0, 0)) + zlib.compress(content, 9))


def segments(marker: int, content: bytes, count: int) -> bytes:
    return (b"\xff" + bytes((marker,)) + struct.pack(">H", len(content) + 2) + content) * count


def resources(count: int) -> bytes:
    """Of Photoshop, without content."""
    return b"Photoshop 3.0\0" + b"8BIM\1\2\0\0\0\0\0\0" * count


def run_length_bmp(side: int, bits: int, rows: bytes) -> bytes:
    colours = bytes(4 << bits)
    start = 54 + len(colours)
    head = b"BM" + struct.pack("<IHHI", start + len(rows), 0, 0, start)
    fields = (40, side, side, 1, bits, 1 if bits == 8 else 2, len(rows), 1, 1, 1 << bits, 0)
    return head + struct.pack("<IiiHHIIiiII", *fields) + colours + rows


MANY = 300_000
# Parts that Pillow reads in Python, each about a microsecond, or inflates again and again.
SLOW: dict[str, Callable[[], bytes]] = {
    "PNG, chunks before": lambda: in_png(before=chunk(b"abCd") * MANY),
    "PNG, chunks behind": lambda: in_png(behind=chunk(b"abCd") * MANY),
    "PNG, empty pieces before": lambda: in_png(before=chunk(b"IDAT") * MANY),
    "PNG, empty pieces behind": lambda: in_png(behind=chunk(b"IDAT") * MANY),
    "PNG, colour profiles": lambda: in_png(
        before=chunk(b"iCCP", b"k\0\0" + zlib.compress(bytes(1_000_000), 9)) * 500
    ),
    "PNG, texts before": lambda: in_png(before=text(1_000_000) * 800),
    "PNG, texts behind": lambda: in_png(behind=text(7_900_000) * 50),
    "PNG, old texts behind": lambda: in_png(
        behind=chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(7_900_000), 9)) * 50
    ),
    "JPEG, EXIF in parts": lambda: in_jpeg(segments(0xE1, b"Exif\0\0" + bytes(65500), 900)),
    "JPEG, resources": lambda: in_jpeg(segments(0xED, resources(5400), 250)),
    "BMP, rows without runs": lambda: run_length_bmp(10, 8, b"\0\0" * MANY),
    "BMP, steps of nothing": lambda: run_length_bmp(500, 4, b"\0\2\0\0" * MANY),
    "JPEG, filled up": lambda: in_jpeg(b"\xff" * 8 * MANY),
    "JPEG, junk": lambda: in_jpeg(b"\xff\x00" * 4 * MANY),
    "JPEG, restarts": lambda: in_jpeg(b"\xff\xd0" * 4 * MANY),
    **{
        f"BMP of {side}, {bits} bits, {name}": lambda side=side, bits=bits, row=row: run_length_bmp(
            side, bits, row * side + b"\0\1"
        )
        for side in (1200, 7000)
        for bits in (4, 8)
        for name, row in (("short rows", b"\1\0\0\0"), ("short runs", b"\1\7" * 50 + b"\0\0"))
    },
}


@pytest.mark.parametrize("name", SLOW)
def test_a_file_whose_parts_take_long_for_their_bytes_is_refused_in_a_moment(name: str) -> None:
    contents = SLOW[name]()
    begun = time.process_time()
    with pytest.raises(UnsupportedPhoto, match="at most"):
        check(contents)
    assert time.process_time() - begun < 0.3


@pytest.mark.parametrize(
    "contents",
    [
        in_png(before=chunk(b"abCd") * 900, behind=chunk(b"abCd") * 90),
        in_png(before=chunk(b"iCCP", b"k\0\0" + zlib.compress(b"profile"))),
        in_png(behind=chunk(b"abCd") * 90) + b"a program behind the picture" * 1000,
        in_png(before=text(99) * 10 + text(99, compressed=False) * 100),
        in_jpeg(b"\xff" * 1000),
        in_jpeg(segments(0xE1, b"Exif\0\0" + bytes(65500), 2) + segments(0xED, resources(500), 2)),
        run_length_bmp(900, 8, (b"\1\7" * 900 + b"\0\0") * 900 + b"\0\1"),
        run_length_bmp(900, 8, (b"\xff\7" * 3 + b"\x87\7\0\0") * 900 + b"\0\1"),
    ],
)
def test_what_odd_writers_make_is_read(contents: bytes) -> None:
    check(contents).upright()
