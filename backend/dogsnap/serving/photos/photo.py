"""Checks a photo by its header before it is decoded, and turns it upright.

No photo is stored, and EXIF data is dropped.
"""

import io
import math
import re
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pillow_heif
from PIL import ExifTags, Image, ImageCms

from dogsnap.errors import Full, InvalidArgument, TooLarge, UnsupportedPhoto
from dogsnap.serving.photos.heif_boxes import decoded_pixels
from dogsnap.serving.photos.hostile_files import check_structure
from dogsnap.settings import MAX_PHOTO_PIXELS

pillow_heif.register_heif_opener()
# Pillow's own limit warns on standard error and refuses late; `check` refuses by pixel
# count before anything is decoded.
Image.MAX_IMAGE_PIXELS = None
# It warns of each damaged field of EXIF, 65,000 in a file, in lines that differ: they would fill
# the log, and Python's memory of what was warned of.
warnings.filterwarnings("ignore", module=r"PIL\.")

# Pillow's readers for the accepted formats. MPO is a JPEG followed by a second picture,
# written by phones.
KINDS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "HEIF", "AVIF")
EXPECTED = "expected a JPEG, PNG, GIF, BMP, WebP, HEIC or AVIF photo"
# Formats and modes that TensorFlow decodes exactly as Pillow does: such photos are
# passed on as they are, and decoded once.
UNTOUCHED_KINDS = ("JPEG", "MPO", "PNG")
UNTOUCHED_MODES = ("RGB", "L")
# pixels; larger photos are scaled down while decoding, which is cheaper than decoding them whole
UNTOUCHED_SIDE = 1024
# The least side when the size that the network needs is unknown: twice the usual 299
# pixels, so that the antialiased resize that follows gives nearly the same result as on
# the whole photo (Pillow's recommendation for `reducing_gap`).
REDUCED_SIDE = 640
# Pixels of a large picture: to decode four times as many takes 0.6 s of a core and 200 MB (WebP,
# AVIF and HEIC, measured), however few bytes they come in.
LARGE = 12_000_000
LARGE_AT_ONCE = 2  # are decoded; the other run threads are for smaller ones
# Formats in which a few bytes hold any number of equal pixels, and how many a byte of a large one
# may hold: photos have up to 100.
DENSE_KINDS = ("WEBP", "HEIF", "AVIF")
MOST_PIXELS_PER_BYTE = 2000
# A HEIC may be made of pictures that are used again and again, in a few bytes each: of how many
# pixels for each that it shows. With a grid of tiles, transparency and a gain map it is 5 at most.
MOST_PIXELS_PER_PIXEL = 8
# A JPEG without its last bytes is shown by browsers; of one that lacks more of its
# height there is too little to see.
MOST_MISSING = 0.1
START_OF_SCAN = b"\xff\xda"
END_OF_IMAGE = b"\xff\xd9"
# A picture longer than this many times its shorter side, such as a screenshot of a
# whole chat, shows a dog too small to be seen in the square that networks take.
LONG = 2.0
# Windows along the longer side, each 3/4 of its length after the one before.
MOST_WINDOWS = 4
STEP = 0.75
# What comes in place of a photo, by its first bytes.
OTHER_FILES = (
    (rb"II[*+]\0|MM\0[*+]|....ftypcrx ", "a TIFF or raw camera file"),
    (rb"%PDF", "a PDF document"),
    (rb"....ftyp(?:qt|mp4|iso|m4v|3g|avc|msnv|dash|f4v)", "a movie (video)"),
    (rb"....(?:moov|mdat|wide)|\x1a\x45\xdf\xa3|RIFF....AVI ", "a movie (video)"),
    (rb"\s*(?:<\?xml.*)?<svg", "an SVG drawing"),
    (rb"(?:\xef\xbb\xbf)?\s*<", "a web page (HTML)"),
    (rb"PK\x03\x04|\x1f\x8b|Rar!|7z\xbc\xaf", "an archive"),
    (rb"\s*[{\[]", "JSON text"),
    (rb"8BPS", "a Photoshop file"),
    (rb"\0\0\0\x0cJXL |\xff\x0a", "a JPEG XL picture"),
    (rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51", "a JPEG 2000 picture"),
    (rb"\0\0\x01\0", "an icon (ICO)"),
    (rb"[a-z][a-z0-9+.-]*://|/[\w./-]+\Z", "an address or the name of a file"),
)
SHOWN_START = 256  # bytes of a file that tell what it is
SRGB = ImageCms.createProfile("sRGB")
MOST_PHOTOS = 32  # in one request, also as values of a tensor
TOGETHER = 2  # times the pixels of the largest photo that those of one request may have
Box = tuple[float, float, float, float]  # left, top, right, bottom, as fractions of the sides
# EXIF orientation (EXIF 2.32, tag 0x0112) -> the operation that turns the stored picture upright.
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# By degrees clockwise, the operation that turns a picture.
TURN = {
    90: Image.Transpose.ROTATE_270,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_90,
}
DEGREES = (0, *TURN)
# Output (n, 4) of versions that tell how probably each of DEGREES sets a photo upright.
ORIENTATION = "orientation"


large_places = threading.BoundedSemaphore(LARGE_AT_ONCE)


@contextmanager
def place_to_decode(pixels: int) -> Iterator[None]:
    """Decode so many pixels in the block.

    Raises Full where others decode large pictures: waiting, they would keep small ones out.
    """
    if pixels < LARGE:
        yield
        return
    if not large_places.acquire(blocking=False):
        raise Full(
            f"the server decodes {LARGE_AT_ONCE} pictures of {LARGE / 1e6:g} megapixels or more "
            "at a time; try again later, or send smaller ones"
        )
    try:
        yield
    finally:
        large_places.release()


@dataclass
class Photo:
    """A photo whose header was checked; `pixels`: how many a decoder fills."""

    contents: bytes
    pixels: int
    opened: Image.Image | None  # until its pixels are decoded

    def upright(self, least: int = REDUCED_SIDE) -> bytes:
        """The bytes for the graph: unchanged, or turned upright, scaled down to
        sides of at least `least`, and encoded as BMP.

        BMP because encoding and decoding it costs only a memory copy. Raises
        UnsupportedPhoto for damaged pixels.
        """
        image = self._take()
        is_exact = (
            image.format in UNTOUCHED_KINDS
            and image.mode in UNTOUCHED_MODES
            and "transparency" not in image.info
        )
        if is_exact and max(image.size) <= UNTOUCHED_SIDE and _orientation(image) not in UPRIGHT:
            return self.contents
        with _damage_refused():
            return _encode(_upright(image, least), "BMP")

    def whole_pixels(self) -> int:
        """How many pixels are decoded to make it small: none of a JPEG, which scales while
        it is decoded, unless it is progressive.
        """
        image = self.opened or _open(self.contents)
        scales = image.format in ("JPEG", "MPO") and "progressive" not in image.info
        return 0 if scales else self.pixels

    def small_jpeg(self, longest: int, quality: int) -> bytes:
        """An upright JPEG without EXIF, longest side at most `longest` pixels,
        `quality` 1 to 95. Raises UnsupportedPhoto.
        """
        pixels = self.whole_pixels()
        image = self._take()
        with place_to_decode(pixels), _damage_refused():
            small = _upright(image, longest)
            small.thumbnail((longest, longest))
            small = _to_srgb(small, image.info.get("icc_profile"))
            small.info.clear()  # a comment would be written again
            return _encode(small, "JPEG", quality=quality)

    def _take(self) -> Image.Image:
        """The picture, whose pixels can be decoded once; a JPEG that lacks only its last
        bytes is ended.
        """
        is_jpeg = self.contents.startswith(b"\xff\xd8")
        if is_jpeg and self.contents.rfind(END_OF_IMAGE) <= self.contents.rfind(START_OF_SCAN):
            ended = self.contents + END_OF_IMAGE
            if _missing(ended) <= MOST_MISSING:
                self.contents = ended
                self.opened = None
        image = self.opened or _open(self.contents)
        self.opened = None
        return image


def check(contents: bytes | Photo, max_pixels: int = MAX_PHOTO_PIXELS) -> Photo:
    """Read the header; a photo that was checked is given back.

    Raises InvalidArgument (no bytes), UnsupportedPhoto (unknown format) or
    TooLarge (too many pixels).
    """
    if isinstance(contents, Photo):
        return contents
    if not contents:
        raise InvalidArgument(f"the photo is empty: {EXPECTED}, received 0 bytes")
    check_structure(contents)
    return check_header(contents, max_pixels)


def is_turned(contents: bytes) -> bool:
    """Whether EXIF says that the picture is stored on its side or upside down;
    False for no picture.
    """
    try:
        return _orientation(_open(contents)) in UPRIGHT
    except UnsupportedPhoto:
        return False


def check_header(contents: bytes, max_pixels: int) -> Photo:
    """As `check`, for bytes whose structure has been checked."""
    image = _open(contents)
    check_pixels(image.width, image.height, max_pixels)
    pixels = image.width * image.height
    is_dense = pixels > max(LARGE, MOST_PIXELS_PER_BYTE * len(contents))
    if is_dense and image.format in DENSE_KINDS:
        raise UnsupportedPhoto(
            f"the picture has {pixels / 1e6:.1f} megapixels in {len(contents)} bytes, too few to "
            "show anything; send a smaller one"
        )
    most = max(LARGE, MOST_PIXELS_PER_PIXEL * pixels)
    if image.format == "HEIF" and decoded_pixels(contents) > most:
        raise UnsupportedPhoto(
            f"the picture is made of others with more than {most / 1e6:.0f} megapixels to show "
            f"{pixels / 1e6:.1f}; save it again and send that"
        )
    return Photo(contents, pixels, image)


def check_pixels(width: int, height: int, max_pixels: int) -> None:
    """Raises TooLarge, naming the limit, for more pixels than allowed."""
    if width * height > max_pixels:
        raise TooLarge(
            f"the photo has {width * height / 1e6:.1f} megapixels ({width} x {height}); "
            f"at most {max_pixels / 1e6:g} are taken "
            "(DOGSNAP_MAX_PHOTO_PIXELS); send a smaller one"
        )


def check_count(count: int) -> None:
    """Raises TooLarge for too many photos in one request."""
    if count > MOST_PHOTOS:
        raise TooLarge(
            f"the request has {count} photos; at most {MOST_PHOTOS} are taken; "
            "send several requests"
        )


def check_together(photos: Iterable[Photo], max_pixels: int) -> None:
    """Raises TooLarge, naming the limit, if the photos of a request have too
    many pixels together; `max_pixels`: of one.
    """
    pixels = sum(photo.pixels for photo in photos)
    most = TOGETHER * max_pixels
    if pixels > most:
        raise TooLarge(
            f"the photos have {pixels / 1e6:.1f} megapixels together; at most {most / 1e6:g} are "
            f"taken, {TOGETHER} times DOGSNAP_MAX_PHOTO_PIXELS; send several requests"
        )


def windows(contents: bytes) -> list[Box]:
    """The overlapping squares that cover an upright picture longer than LONG,
    at most MOST_WINDOWS; none of any other.

    Of a picture for which these are too few they are longer than square.
    """
    width, height = _open(contents).size
    length = max(width, height) / min(width, height)
    if length <= LONG:
        return []
    count = min(MOST_WINDOWS, math.ceil((length - 1) / STEP) + 1)
    side = max(1.0, length / (1 + (count - 1) * STEP)) / length
    starts = [index * (1 - side) / (count - 1) for index in range(count)]
    if height > width:
        return [(0.0, start, 1.0, start + side) for start in starts]
    return [(start, 0.0, start + side, 1.0) for start in starts]


def cut_windows(contents: bytes, windows: Iterable[Box]) -> list[bytes]:
    """What an upright picture, decoded once, shows in each window, as BMP.

    Raises UnsupportedPhoto for damaged pixels.
    """
    image = _open(contents)
    width, height = image.size
    parts = []
    with _damage_refused():
        for left, top, right, bottom in windows:
            part = image.crop((left * width, top * height, right * width, bottom * height))
            parts.append(_encode(part, "BMP"))
    return parts


def turn(contents: bytes, turns: Iterable[int]) -> list[bytes]:
    """An upright picture, decoded once, turned clockwise by each of 90, 180 or
    270 degrees, as BMP of at most UNTOUCHED_SIDE.

    Raises UnsupportedPhoto for damaged pixels.
    """
    with _damage_refused():
        image = _to_rgb(_open(contents))
        image.thumbnail((UNTOUCHED_SIDE, UNTOUCHED_SIDE))  # a few are held at once
        return [_encode(image.transpose(TURN[degrees]), "BMP") for degrees in turns]


def _open(contents: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(contents), formats=KINDS)
    except Exception as error:  # a damaged header can raise anything
        raise UnsupportedPhoto(f"{EXPECTED}, received {_describe(contents)}") from error


def _describe(contents: bytes) -> str:
    if contents[:4] in (b"/9j/", b"iVBO", b"R0lG", b"UklG", b"data"):
        return "base64 text: the photo seems to be encoded twice, encode it once"
    for pattern, words in OTHER_FILES:
        if re.match(pattern, contents[:SHOWN_START], re.DOTALL | re.IGNORECASE):
            return words
    return f"{len(contents)} bytes that are none of these or damaged at the start"


@contextmanager
def _damage_refused() -> Iterator[None]:
    """Raises UnsupportedPhoto for whatever decoding raises: many types for
    damaged bytes.
    """
    try:
        yield
    except Exception as error:
        raise UnsupportedPhoto(
            f"the photo is damaged or cut off: {EXPECTED}, decoding it failed with: {error}"
        ) from error


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation; 1 (upright) without EXIF, or if it cannot be read:
    the picture itself may be fine.
    """
    try:
        return image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    # 16 bits a pixel, of which convert() would clip all but the lowest 255 values.
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _upright(image: Image.Image, least: int) -> Image.Image:
    """Decoded, as RGB and turned; scaled down while both sides stay at `least` or more."""
    orientation = _orientation(image)
    image.draft(None, (least, least))  # a JPEG's decoder scales as far as it can
    image.load()
    has_palette = image.mode in ("P", "PA", "1") or "transparency" in image.info
    if has_palette:
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    factor = min(image.width // least, image.height // least)
    if factor > 1 and image.mode in ("RGB", "RGBA", "L", "LA", "CMYK"):
        image = image.reduce(factor)
    seen = _to_rgb(image)
    return seen.transpose(UPRIGHT[orientation]) if orientation in UPRIGHT else seen


def _missing(contents: bytes) -> float:
    """The share of a JPEG's height, at its lower end, that its decoder filled
    with one colour.
    """
    with _damage_refused():
        image = _open(contents)
        image.draft("L", (1, 1))
        rows = np.asarray(image.convert("L"))
    is_plain = rows.max(axis=1) == rows.min(axis=1)
    drawn = np.flatnonzero(~is_plain)
    last = drawn[-1] if len(drawn) else len(rows) - 1  # of one colour: that is all there is
    return float(1 - (last + 1) / len(rows))


def _to_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """An RGB picture in the colours that screens assume; as it is, where the
    profile is of another kind or damaged.
    """
    if not profile:
        return image
    try:
        source = ImageCms.getOpenProfile(io.BytesIO(profile))
        converted = ImageCms.profileToProfile(image, source, SRGB, outputMode="RGB")
    except (ImageCms.PyCMSError, OSError):
        return image
    return converted or image


def _encode(image: Image.Image, kind: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
