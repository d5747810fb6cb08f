"""Photos made to do harm: cut, flipped, mislabelled, blown up, endless; each with what a server has to answer to it."""

import base64
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from PIL import Image

from support.colour_photos import (
    RED,
    chunk,
    encode,
    every_grey,
    every_kind,
    heic,
    huge_png,
    plain,
    with_orientation,
)

CUT_EVERY = 64  # bytes
FLIPS = 45  # of one bit, in each kind of file
HOLES = 12  # zeroed stretches, in each kind of file
# 64 x 48 pixels, which TensorFlow decodes. 12 kB may hold 144 megapixels.
JPEG_XL = base64.b64decode("/wrLQCQIAAEAWABLGIsVANSIQRvjHkAEmDUAKDfjNjNU")
ANY = (200, 400, 413, 415)
REFUSED = (400, 413, 415)
MAGIC = {
    "jpeg": b"\xff\xd8\xff\xe0",
    "png": b"\x89PNG\r\n\x1a\n",
    "gif": b"GIF89a",
    "bmp": b"BM",
    "webp": b"RIFF\x24\0\0\0WEBPVP8 ",
    "tiff": b"II*\0",
    "heic": b"\0\0\0\x18ftypheic",
    "pdf": b"%PDF-1.7",
    "zip": b"PK\3\4",
    "exe": b"MZ",
    "nothing": b"\0" * 16,
}


@dataclass(frozen=True)
class Case:
    """A file and the statuses that are right for it, by `/api/classify` and by a tensor of bytes."""

    name: str
    contents: bytes
    api: tuple[int, ...] = ANY
    tensor: tuple[int, ...] = ANY


def corpus() -> list[Case]:
    """Every case, always the same."""
    return [*good(), *strange(), *damaged(), *noise()]


def textured(size: tuple[int, int] = (48, 40)) -> Image.Image:
    """A red picture with enough in it that its file has something to damage."""
    noise = np.random.default_rng(7).integers(0, 60, (size[1], size[0], 3))
    return Image.fromarray((np.array(RED) * 0.7 + noise).astype(np.uint8))


def small_files() -> dict[str, bytes]:
    """One small file of each kind, of 1 to 8 kB."""
    image = textured()
    frames = {"save_all": True, "append_images": [image.rotate(90)] * 2}
    return {
        "jpeg": encode(image, "JPEG", quality=95),
        "progressive jpeg": encode(image, "JPEG", quality=95, progressive=True),
        "cmyk jpeg": encode(image.convert("CMYK"), "JPEG", quality=90),
        "jpeg with exif": with_orientation(image, 6, quality=95),
        "png": encode(image, "PNG"),
        "palette png": encode(image.quantize(64), "PNG"),
        "png with alpha": encode(image.convert("RGBA"), "PNG"),
        "gif": encode(image, "GIF"),
        "animated gif": encode(image.resize((24, 20)), "GIF", **frames),
        "bmp": encode(image, "BMP"),
        "webp": encode(image, "WEBP", lossless=True),
        "animated webp": encode(image, "WEBP", quality=90, **frames),
        "heic": heic(image.resize((96, 80))),
        "avif": encode(image.resize((96, 80)), "AVIF", quality=90),
    }


def good() -> Iterator[Case]:
    """Unusual, and right: these have to be answered. The graph does not decode all that /api/classify does."""
    for name, contents in {**every_kind(), **every_grey(), **small_files()}.items():
        yield Case(f"good {name}", contents, api=(200,))
    photo = encode(textured(), "JPEG")
    for name, contents in {
        **{f"orientation {number}": with_orientation(textured(), number) for number in range(1, 9)},
        "one pixel": encode(plain(size=(1, 1)), "JPEG"),
        "65500 x 1": encode(plain(size=(65500, 1)), "PNG"),
        "1 x 65500": encode(plain(size=(1, 65500)), "JPEG"),
        "gif of 10,000 frames": gif_of_frames(10_000),
        "grey with alpha": encode(textured().convert("LA"), "PNG"),
        "one bit a pixel": encode(textured().convert("1"), "PNG"),
        "corrupt exif": corrupt_exif(),
        "photo and program": photo + b"<?php system($_GET['c']); ?>",
        "photo and archive": photo + archive(),
        "gif and script": encode(textured(), "GIF") + b"/*'>*/=1;alert(1)//",
    }.items():
        yield Case(name, contents, (200,), (200,))


def strange() -> Iterator[Case]:
    """No photos, and photos made to fill memory or time: refused in a moment."""
    photo = encode(textured(), "JPEG")
    for name, contents in {
        "one byte": b"\xff",
        "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        "svg that reads a file": b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><svg>&b;</svg>',
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        "tiff": encode(textured(), "TIFF"),
        "ico": encode(textured(), "ICO", sizes=[(16, 16)]),
        "pdf around a photo": b"%PDF-1.7\n" + photo,
        "photo encoded twice": b"/9j/4AAQSkZJRgABAQAAAQABAAD",
    }.items():
        yield Case(name, contents, (415,), (400,))
    for name, contents in {
        "jpeg xl": JPEG_XL,
        "jpeg xl in a container": b"\0\0\0\x0cJXL \r\n\x87\n" + box(b"jxlc", JPEG_XL),
        "jpeg of 1,000 scans": many_scans(1000),
        "jpeg of 300,000 segments": photo[:2] + b"\xff\xe1\0\2" * 300_000 + photo[2:],
        "png of 200,000 chunks": with_chunk(chunk(b"abCd", b"") * 200_000),
        "gif of 300,000 extensions": many_extensions(300_000),
    }.items():
        yield Case(name, contents, (415,), (415,))
    yield Case("no bytes", b"", (400,), (400,))
    yield Case("png of 50,000 x 50,000", huge_png(50_000, 50_000), (413,), (413,))
    yield Case("gif of 50,000 x 50,000", resized("GIF", 50_000, 50_000), (413,), (413,))
    yield Case(
        "gif whose frame is larger than it", gif_of_large_frame(50_000, 50_000), (413,), (413,)
    )
    yield Case("bmp of 50,000 x 50,000", resized("BMP", 50_000, 50_000), (413,), (413, 400))
    yield Case("jpeg of 65,500 x 65,500", resized("JPEG", 65_500, 65_500), (413,), (413,))
    yield Case("webp of 16,383 x 16,383", resized("WEBP", 16_383, 16_383), (413, 415), (413, 400))
    # libjpeg skips a byte between two segments; Pillow finds no header then.
    huge = resized("JPEG", 23_000, 23_000)
    stray = huge[:2] + b"\xff\xe1\0\2x" + huge[2:]
    yield Case("jpeg of 23,000 x 23,000 behind a stray byte", stray, REFUSED, REFUSED)
    yield Case("png of 2**31 x 2**31", huge_png(2**31 - 1, 2**31 - 1), REFUSED, REFUSED)
    yield Case("png of 0 x 0", huge_png(0, 0), REFUSED, REFUSED)
    text = b"Comment\0\0" + zlib.compress(b"\0" * 60_000_000, 9)
    yield Case("png whose text inflates to 60 MB", with_chunk(chunk(b"zTXt", text)))
    # SOF9: the picture is coded arithmetically, which any bytes can be read as.
    yield Case(
        "arithmetic jpeg",
        encode(textured().convert("L"), "JPEG").replace(b"\xff\xc0", b"\xff\xc9", 1),
    )
    animated = encode(plain(), "WEBP", save_all=True, append_images=many_colours(300))
    yield Case("webp of 300 frames", animated, (200,), (400,))


def damaged() -> Iterator[Case]:
    """Cut off, with a flipped bit, zeroed in a place, and with the first bytes of another kind."""
    bits, holes = np.random.default_rng(1), np.random.default_rng(2)
    for kind, contents in small_files().items():
        for end in range(CUT_EVERY, len(contents), CUT_EVERY):
            yield Case(f"{kind} cut after {end} bytes", contents[:end])
        for bit in sorted(
            {*bits.integers(0, 1200, FLIPS // 3), *bits.integers(0, 8 * len(contents), FLIPS)}
        ):
            changed = bytearray(contents)
            changed[bit // 8] ^= 1 << bit % 8
            yield Case(f"{kind} with bit {bit} flipped", bytes(changed))
        for start in sorted({*holes.integers(0, len(contents), HOLES)}):
            yield Case(
                f"{kind} zeroed from {start}",
                contents[:start] + b"\0" * 64 + contents[start + 64 :],
            )
        for other, magic in MAGIC.items():
            yield Case(f"{kind} that says it is {other}", magic + contents[len(magic) :])


def noise() -> Iterator[Case]:
    generator = np.random.default_rng(3)
    for kind, magic in MAGIC.items():
        for size in (0, 1, 10, 100, 1000):
            yield Case(f"{size} random bytes as {kind}", magic + generator.bytes(size))


def box(kind: bytes, content: bytes) -> bytes:
    """Of an ISO media file, as HEIC, AVIF and JPEG XL have."""
    return struct.pack(">I", 8 + len(content)) + kind + content


def frames_start(gif: bytes) -> int:
    """Where the colour table of a GIF ends."""
    return 13 + (3 << (1 + gif[10] % 8))


def gif_of_frames(count: int) -> bytes:
    """A whole GIF whose one frame is repeated."""
    one = encode(plain(size=(64, 48)), "GIF")
    start = frames_start(one)
    return one[:start] + one[start:-1] * count + b";"


def resized(kind: str, width: int, height: int) -> bytes:
    """A file whose header has another size than its picture."""
    contents = encode(plain(), kind)
    place, size = {
        "GIF": (6, struct.pack("<HH", width, height)),
        "BMP": (18, struct.pack("<ii", width, height)),
        "JPEG": (contents.find(b"\xff\xc0") + 5, struct.pack(">HH", height, width)),
        "WEBP": (contents.find(b"\x9d\x01\x2a") + 3, struct.pack("<HH", width, height)),
    }[kind]
    return contents[:place] + size + contents[place + len(size) :]


def gif_of_large_frame(width: int, height: int) -> bytes:
    contents = encode(plain(), "GIF")
    size = contents.index(b",", frames_start(contents)) + 5
    return contents[:size] + struct.pack("<HH", width, height) + contents[size + 4 :]


def many_scans(count: int) -> bytes:
    """A progressive JPEG of 49 megapixels whose last scan is repeated: a small file that takes a decoder minutes."""
    whole = encode(Image.new("L", (7000, 7000), 128), "JPEG", progressive=True, quality=50)
    last = whole.rindex(b"\xff\xda")
    return whole[:last] + whole[last:-2] * count + whole[-2:]


def with_chunk(more: bytes) -> bytes:
    """A PNG with something behind its header."""
    whole = encode(textured(), "PNG")
    return whole[:33] + more + whole[33:]


def many_extensions(count: int) -> bytes:
    whole = encode(textured(), "GIF")
    start = frames_start(whole)
    return whole[:start] + b"!\xfe\0" * count + whole[start:]


def corrupt_exif() -> bytes:
    """An EXIF table that points at itself, promises 65535 entries and ends at once."""
    table = b"MM\0*" + struct.pack(">IH", 8, 65535) + struct.pack(">HHII", 0x8769, 4, 1, 8) * 4
    segment = b"Exif\0\0" + table
    jpeg = encode(textured(), "JPEG")
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + jpeg[2:]


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("../../etc/passwd", "root")
    return buffer.getvalue()


def many_colours(count: int) -> list[Image.Image]:
    return [plain((number % 256, 40, 200)) for number in range(count)]
