"""What a HEIC file is made of, and how much of that is decoded."""

import io
import struct
import time

import pytest
from dogsnap.errors import UnsupportedPhoto
from dogsnap.serving.photos.heif_boxes import decoded_pixels
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
    names = [full(b"infe", struct.pack(">HH4sx", n, 0, kind), 2) for n, kind, _ in items]
    head = box(b"ftyp", b"heic\0\0\0\0mif1heic")

    def meta(place: int) -> bytes:
        places = b""
        for number, _, content in items:
            places += struct.pack(">HHHII", number, 0, 1, place, len(content))
            place += len(content)
        return full(
            b"meta",
            full(b"hdlr", struct.pack(">I4s13x", 0, b"pict"))
            + full(b"pitm", struct.pack(">H", len(items)))
            + full(b"iloc", struct.pack(">BBH", 0x44, 0, len(items)) + places)
            + full(b"iinf", struct.pack(">H", len(items)) + b"".join(names))
            + full(b"iref", b"".join(made_of))
            + box(b"iprp", properties),
        )

    place = len(head) + len(meta(0)) + 8
    return head + meta(place) + box(b"mdat", b"".join(content for *_, content in items))


def test_a_picture_that_is_made_of_tiles_is_read() -> None:
    contents = of_grids(1, 2)
    assert decoded_pixels(contents) == 2 * TILE**2 + SHOWN**2
    check(contents).upright()


@pytest.mark.parametrize(("levels", "tiles"), [(1, 100), (2, 10), (6, 2), (30, 2)])
def test_a_small_picture_that_is_made_of_many_large_ones_is_refused_in_a_moment(
    levels: int, tiles: int
) -> None:
    contents = of_grids(levels, tiles)
    begun = time.process_time()
    with pytest.raises(UnsupportedPhoto, match="made of others with more than 12 megapixels"):
        check(contents)
    assert time.process_time() - begun < 0.3


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
