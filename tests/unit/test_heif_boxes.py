"""What a HEIC file is made of, and how much of that is decoded."""

import io
import struct
import time

import pytest
from dogsnap.errors import UnsupportedPhoto
from dogsnap.serving.photos.heif_boxes import decoded_pixels, item_bytes
from dogsnap.serving.photos.photo import check
from PIL import Image
from support.colour_photos import heic

SHOWN = 64  # pixels of a side
TILE = 1000


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), kind) + content


def full(kind: bytes, content: bytes, version: int = 0) -> bytes:
    return box(kind, bytes((version, 0, 0, 0)) + content)


def part(contents: bytes, kind: bytes) -> bytes:
    """The first box of this kind, wherever it is."""
    begin = contents.index(kind) - 4
    return contents[begin : begin + int.from_bytes(contents[begin : begin + 4])]


def put_together(
    items: list[tuple[int, bytes, bytes]], properties: bytes, references: bytes, pieces: int = 1
) -> bytes:
    """A file of these items: number, kind and content; the last one is the picture.

    Each is `pieces` times its content, which is in the file once.
    """
    names = [full(b"infe", struct.pack(">HH4sx", n, 0, kind), 2) for n, kind, _ in items]
    contents = dict.fromkeys(content for *_, content in items)
    head = box(b"ftyp", b"heic\0\0\0\0mif1heic")

    def meta(place: int) -> bytes:
        found = {}
        for content in contents:
            found[content] = struct.pack(">II", place, len(content))
            place += len(content)
        places = [
            struct.pack(">HHH", n, 0, pieces) + found[content] * pieces for n, _, content in items
        ]
        return full(
            b"meta",
            full(b"hdlr", struct.pack(">I4s13x", 0, b"pict"))
            + full(b"pitm", struct.pack(">H", items[-1][0]))
            + full(b"iloc", struct.pack(">BBH", 0x44, 0, len(items)) + b"".join(places))
            + full(b"iinf", struct.pack(">H", len(items)) + b"".join(names))
            + full(b"iref", references)
            + box(b"iprp", properties),
        )

    place = len(head) + len(meta(0)) + 8
    return head + meta(place) + box(b"mdat", b"".join(contents))


def of_metadata(count: int, pieces: int) -> bytes:
    """A small picture with as many EXIF items, which are all the same 200 kB again and again."""
    tile = heic(Image.new("RGB", (SHOWN, SHOWN)))
    exif, last = b"\0\0\0\0" + bytes(200_000), count + 1
    items = [(number, b"Exif", exif) for number in range(1, last)]
    items.append((last, b"hvc1", part(tile, b"mdat")[8:]))
    size = full(b"ispe", struct.pack(">II", SHOWN, SHOWN))
    properties = box(b"ipco", part(tile, b"hvcC") + size)
    properties += full(b"ipma", struct.pack(">IHB", 1, last, 2) + b"\x81\x02")
    belongs = [box(b"cdsc", struct.pack(">HHH", n, 1, last)) for n in range(1, last)]
    return put_together(items, properties, b"".join(belongs), pieces)


def of_grids(levels: int, tiles: int) -> bytes:
    """A small picture cut out of a row of `tiles` large ones, which are all the same; with more
    levels each of them is such a picture again.
    """
    tile = heic(Image.new("RGB", (TILE, TILE)))
    coded, grid = part(tile, b"mdat")[8:], struct.pack(">BBBBHH", 0, 0, 0, tiles - 1, SHOWN, SHOWN)
    items = [(1, b"hvc1", coded), *((2 + level, b"grid", grid) for level in range(levels))]
    sizes = [full(b"ispe", struct.pack(">II", side, side)) for side in (TILE, SHOWN)]
    uses = [struct.pack(">HB", 1, 2) + b"\x81\x02"]
    uses += [struct.pack(">HBB", number, 1, 3) for number, *_ in items[1:]]
    properties = box(b"ipco", part(tile, b"hvcC") + b"".join(sizes))
    properties += full(b"ipma", struct.pack(">I", len(items)) + b"".join(uses))
    made_of = [
        box(b"dimg", struct.pack(f">HH{tiles}H", number, tiles, *[number - 1] * tiles))
        for number, *_ in items[1:]
    ]
    return put_together(items, properties, b"".join(made_of))


def assert_refused_soon(contents: bytes, sentence: str) -> None:
    begun = time.process_time()
    with pytest.raises(UnsupportedPhoto, match=sentence):
        check(contents)
    assert time.process_time() - begun < 0.3


def test_a_picture_that_is_made_of_tiles_is_read() -> None:
    contents = of_grids(1, 2)
    assert decoded_pixels(contents) == 2 * TILE**2 + SHOWN**2
    check(contents).upright()


@pytest.mark.parametrize(("levels", "tiles"), [(1, 100), (2, 10), (6, 2), (30, 2)])
def test_a_small_picture_that_is_made_of_many_large_ones_is_refused_in_a_moment(
    levels: int, tiles: int
) -> None:
    assert_refused_soon(of_grids(levels, tiles), "made of others with more than 12 megapixels")


@pytest.mark.parametrize(("count", "pieces"), [(20, 1), (1, 20), (100, 20)])
def test_a_file_whose_items_are_the_same_bytes_again_and_again_is_refused_in_a_moment(
    count: int, pieces: int
) -> None:
    assert_refused_soon(of_metadata(count, pieces), "bytes in its items")


def test_the_bytes_of_items_are_counted_however_their_places_are_written() -> None:
    assert item_bytes(of_metadata(3, 1)) > 3 * 200_000
    check(of_metadata(1, 1)).upright()
    for kind in ("HEIF", "AVIF"):
        buffer = io.BytesIO()
        exif = Image.Exif()
        exif[0x010E] = "x" * 1000
        Image.new("RGB", (64, 64)).save(buffer, kind, exif=exif)
        contents = buffer.getvalue()
        assert 1000 < item_bytes(contents) < len(contents)
        check(contents).upright()
    endless = box(b"ftyp", b"heic") + full(b"meta", full(b"iloc", b"\0\0\xff\xff" + b"\xff" * 99))
    assert item_bytes(endless) > 10**15


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("tile", [512, None])
def test_tiles_and_transparency_are_counted(mode: str, tile: int | None) -> None:
    buffer = io.BytesIO()
    Image.new(mode, (1500, 1100)).save(buffer, "HEIF", tile_size=tile)
    check(buffer.getvalue()).upright()
    is_grid = tile is not None and mode == "RGB"
    times = 2 if mode == "RGBA" else 1
    expected = 1500 * 1100 + 9 * 512**2 if is_grid else times * 1500 * 1100
    assert decoded_pixels(buffer.getvalue()) == expected


def test_what_cannot_be_read_is_left_to_the_decoder() -> None:
    contents = of_grids(1, 2)
    for end in range(0, len(contents), 7):
        assert decoded_pixels(contents[:end]) >= 0
