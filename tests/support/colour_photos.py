"""Photos of one colour in every kind, mode and damage that phones and programs produce, made on the spot."""

import io
import struct
import zlib

import numpy as np
import pillow_heif
from PIL import Image

RED, GREEN, BLUE = (230, 20, 20), (20, 200, 20), (20, 20, 230)
SIZE = (64, 48)


def encode(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def plain(colour=RED, size=SIZE, mode="RGB") -> Image.Image:
    return Image.new("RGB", size, colour).convert(mode)


def see_through(colour=RED, mode="RGBA") -> Image.Image:
    """Half covered by the colour; the rest is transparent over another colour, which must not be seen."""
    image = Image.new("RGBA", SIZE, (*BLUE, 0))
    image.paste((*colour, 255), (0, 0, SIZE[0], SIZE[1] * 3 // 4))
    return image if mode == "RGBA" else image.convert(mode)


def heic(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    pillow_heif.from_pillow(image).save(buffer, quality=90)
    return buffer.getvalue()


def png(width: int, height: int, bits: int, rows: bytes) -> bytes:
    """A PNG in colours of these sizes; `rows` need not be as many as it says."""
    header = struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def huge_png(width: int, height: int) -> bytes:
    """A small file whose header promises very many pixels."""
    return png(width, height, 8, b"\0" * 1000)


def every_kind() -> dict[str, bytes]:
    """Red photos by a name for the kind."""
    frames = {"save_all": True, "append_images": [plain(BLUE)], "duration": 100}
    return {
        "jpeg": encode(plain(), "JPEG"),
        "progressive jpeg": encode(plain(), "JPEG", progressive=True),
        "large jpeg": encode(plain(size=(2100, 1500)), "JPEG"),
        "cmyk jpeg": encode(plain(mode="CMYK"), "JPEG"),
        "jpeg with a second picture": encode(
            plain(), "MPO", save_all=True, append_images=[plain(BLUE)]
        ),
        "png": encode(plain(), "PNG"),
        "large png": encode(plain(size=(2100, 1500)), "PNG"),
        "palette png": encode(plain(mode="P"), "PNG"),
        "palette png with a transparent colour": encode(see_through().quantize(8), "PNG"),
        "png with alpha": encode(see_through(), "PNG"),
        "png with a transparent colour": encode(plain(), "PNG", transparency=BLUE),
        "16-bit png": png(
            *SIZE, 16, (b"\0" + struct.pack(">HHH", 60000, 5000, 5000) * SIZE[0]) * SIZE[1]
        ),
        "gif": encode(plain(), "GIF"),
        "animated gif": encode(plain(), "GIF", **frames),
        "bmp": encode(plain(), "BMP"),
        "palette bmp": encode(plain(mode="P"), "BMP"),
        "webp": encode(plain(), "WEBP"),
        "lossless webp with alpha": encode(see_through(), "WEBP", lossless=True),
        "animated webp": encode(plain(), "WEBP", **frames),
        "avif": encode(plain(), "AVIF"),
        "heic": heic(plain()),
        "heic with alpha": heic(see_through()),
        "one pixel": encode(plain(size=(1, 1)), "PNG"),
    }


def every_grey() -> dict[str, bytes]:
    """Photos without colour, of brightness 128 of 255, by a name for the kind."""
    grey = plain((128, 128, 128))
    return {
        "grey jpeg": encode(grey.convert("L"), "JPEG"),
        "grey png": encode(grey.convert("L"), "PNG"),
        "grey png with alpha": encode(grey.convert("LA"), "PNG"),
        "16-bit grey png": encode(Image.fromarray(np.full((48, 64), 128 * 257, np.uint16)), "PNG"),
        "large 16-bit grey png": encode(
            Image.fromarray(np.full((1500, 2100), 128 * 257, np.uint16)), "PNG"
        ),
    }


def with_orientation(image: Image.Image, orientation: int, kind: str = "JPEG", **options) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "a maker"
    return encode(image, kind, exif=exif.tobytes(), **options)


def stored(image: Image.Image, orientation: int) -> Image.Image:
    """As a camera that is held so stores an upright picture: the inverse of what turns it upright again."""
    turn = Image.Transpose
    turns = (turn.FLIP_LEFT_RIGHT, turn.ROTATE_180, turn.FLIP_TOP_BOTTOM)
    turns += (turn.TRANSPOSE, turn.ROTATE_90, turn.TRANSVERSE, turn.ROTATE_270)
    return image if orientation == 1 else image.transpose(turns[orientation - 2])
