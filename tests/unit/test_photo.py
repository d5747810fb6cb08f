"""Photos: turned upright and checked by their limits before a pixel is decoded; test_app_api.py has one of every kind."""

import io
import struct

import numpy as np
import pytest
from dogsnap.errors import Full, TooLarge, UnsupportedPhoto
from dogsnap.serving.photos import photo, preprocessing
from PIL import Image, ImageCms, PngImagePlugin
from support import colour_photos
from support.colour_photos import encode, huge_png, plain, stored, with_orientation

KINDS = colour_photos.every_kind()
GREYS = colour_photos.every_grey()


def pixels(contents: bytes) -> np.ndarray:
    """What the graph will see."""
    return preprocessing.decode(photo.check(contents).upright()).numpy()


@pytest.mark.parametrize("name", GREYS)
def test_every_kind_of_grey_photo_keeps_its_brightness(name):
    seen = pixels(GREYS[name])
    assert seen.shape[-1] == 3
    assert np.abs(seen.astype(int) - 128).max() <= 2


def quadrants() -> Image.Image:
    """Red, green, blue and white quarters, in reading order, wider than high."""
    image = Image.new("RGB", (80, 48), "white")
    for box, colour in (
        ((0, 0, 40, 24), "red"),
        ((40, 0, 80, 24), "lime"),
        ((0, 24, 40, 48), "blue"),
    ):
        image.paste(colour, box)
    return image


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF", "HEIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_of_any_orientation_comes_out_upright(orientation, kind):
    contents = with_orientation(stored(quadrants(), orientation), orientation, kind, quality=95)
    seen = pixels(contents).astype(int)
    assert seen.shape == (48, 80, 3)
    expected = np.asarray(quadrants()).astype(int)
    assert np.abs(seen - expected)[4:-4, 4:-4].mean() < 12


def test_a_photo_that_needs_nothing_passes_through_untouched_and_one_that_is_rewritten_loses_its_exif():
    assert b"a maker" not in photo.check(with_orientation(plain(), 6)).upright()
    unknown = (with_orientation(plain(), number) for number in (0, 9, 65535))
    for contents in (
        KINDS["jpeg"],
        KINDS["png"],
        GREYS["grey jpeg"],
        with_orientation(plain(), 1),
        *unknown,
    ):
        assert photo.check(contents).upright() is contents


def test_a_large_photo_is_scaled_down_but_not_below_what_the_network_needs():
    for kind in ("JPEG", "PNG"):
        contents = encode(plain(size=(4000, 3000)), kind)
        height, width, _ = pixels(contents).shape
        assert 640 <= height < 1280
        assert width / height == pytest.approx(4 / 3, rel=0.01)
        smallest = photo.check(contents).upright(least=374)  # for a network that says its size
        assert preprocessing.decode(smallest).shape == (375, 500, 3)
    assert pixels(encode(plain(size=(3000, 30)), "JPEG")).shape == (30, 3000, 3)


def test_scaling_down_while_decoding_shows_the_same_picture():
    generator = np.random.default_rng(0)
    coarse = Image.fromarray(generator.integers(0, 256, (12, 16, 3), np.uint8))
    large = coarse.resize((3200, 2400), Image.Resampling.BICUBIC)
    whole = preprocessing.resize(
        preprocessing.decode(encode(large, "JPEG", quality=95)), (64, 64)
    ).numpy()
    scaled = preprocessing.resize(pixels(encode(large, "JPEG", quality=95)), (64, 64)).numpy()
    assert np.abs(whole - scaled).mean() < 0.01


def test_too_many_pixels_are_refused_from_the_header_naming_the_limit():
    with pytest.raises(
        TooLarge, match=r"84.0 megapixels \(12000 x 7000\); at most 50 .*DOGSNAP_MAX_PHOTO_PIXELS"
    ):
        photo.check(huge_png(12000, 7000))
    assert photo.check(huge_png(10000, 5000)).pixels == 50_000_000


@pytest.mark.parametrize(
    ("contents", "received"),
    [
        (b"%PDF-1.7 and so on", "a PDF document"),
        (b"II*\0 and so on", "a TIFF or raw camera file"),
        (b"II+\0 and so on", "a TIFF or raw camera file"),
        (b"\0\0\0\x18ftypcrx and so on", "a TIFF or raw camera file"),
        (b"\0\0\0\x0cjP  \r\n\x87\n and so on", "a JPEG 2000 picture"),
        (b"\0\0\1\0\1\0 and so on", "an icon (ICO)"),
        (b"/9j/4AAQSkZJRgABAQ", "encoded twice"),
        (b"<html></html>", "a web page (HTML)"),
        (b"<!DOCTYPE html><html>404</html>", "a web page (HTML)"),
        (b'<?xml version="1.0"?><svg></svg>', "an SVG drawing"),
        (b"\0\0\0\x14ftypqt  " + bytes(200), "a movie (video)"),
        (b"\0\0\0\x20ftypisom" + bytes(200), "a movie (video)"),
        (b"\x1a\x45\xdf\xa3" + bytes(200), "a movie (video)"),
        (b"PK\3\4" + bytes(200), "an archive"),
        (b'{"image": ""}', "JSON text"),
        (b"https://example.com/dog.jpg", "an address or the name of a file"),
        (b"just some bytes", "15 bytes that are none of these"),
        (KINDS["png"][:20], "20 bytes that are none of these or damaged at the start"),
    ],
)
def test_what_is_no_photo_is_refused_saying_what_came(contents, received):
    with pytest.raises(
        UnsupportedPhoto, match="expected a JPEG, PNG, GIF, BMP, WebP, HEIC or AVIF photo"
    ) as error:
        photo.check(contents)
    assert received in error.value.message


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        *((kind, (1800, 1400)) for kind in ("JPEG", "PNG", "GIF", "WEBP")),
        ("AVIF", (300, 200)),
        ("HEIF", (300, 200)),
    ],
)
def test_a_truncated_photo_that_has_to_be_decoded_here_is_refused(kind, size):
    whole = encode(Image.effect_noise(size, 80).convert("RGB"), kind)
    with pytest.raises(UnsupportedPhoto, match=r"damaged or cut off|none of these"):
        photo.check(whole[: len(whole) * 2 // 3]).upright()


@pytest.mark.parametrize("lost", [1, 2, 40])
def test_a_jpeg_without_its_last_bytes_is_read_as_far_as_it_goes(lost):
    noise = np.random.default_rng(0).integers(0, 255, (64, 96, 3), dtype=np.uint8)
    whole = encode(Image.fromarray(noise), "JPEG", quality=95)
    assert np.array_equal(pixels(whole[:-lost])[:32], pixels(whole)[:32])


# Red, green and blue of Display P3, adapted to D50 (SMPTE EG 432-1).
DISPLAY_P3 = {
    b"rXYZ": (0.51512, 0.24120, -0.00105),
    b"gXYZ": (0.29198, 0.69225, 0.04189),
    b"bXYZ": (0.15710, 0.06657, 0.78407),
}


def wide_gamut_profile() -> bytes:
    """Pillow's sRGB profile with the colours of Display P3."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    for tag, values in DISPLAY_P3.items():
        place = profile.index(tag, 128)
        (offset,) = struct.unpack_from(">I", profile, place + 4)
        numbers = [round(value * 65536) for value in values]
        struct.pack_into(">3i", profile, offset + 8, *numbers)
    return bytes(profile)


def test_the_copy_for_a_phone_has_the_colours_that_screens_assume():
    image = Image.new("RGB", (80, 80), (200, 60, 60))
    file = encode(image, "JPEG", quality=95, icc_profile=wide_gamut_profile())
    with Image.open(io.BytesIO(photo.check(file).small_jpeg(64, 95))) as copy:
        red, green, _ = copy.getpixel((10, 10))
    assert red > 210
    assert green < 55
    damaged = encode(image, "JPEG", quality=95, icc_profile=b"no profile")
    with Image.open(io.BytesIO(photo.check(damaged).small_jpeg(64, 95))) as copy:
        assert abs(copy.getpixel((10, 10))[0] - 200) < 4


def test_a_jpeg_of_one_colour_without_its_end_is_read():
    assert np.ptp(pixels(encode(plain(), "JPEG")[:-2]), axis=(0, 1)).max() <= 2


def test_a_picture_is_decoded_once_for_all_its_turns_and_windows(monkeypatch):
    contents = encode(quadrants(), "PNG")
    loads = []
    load = PngImagePlugin.PngImageFile.load

    def note(image):
        if image.fp is not None:
            loads.append(image)
        return load(image)

    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", note)
    left, right = photo.cut_windows(contents, [(0.0, 0.0, 0.5, 1.0), (0.5, 0.0, 1.0, 1.0)])
    assert len(loads) == 1
    turned = photo.turn(contents, (90, 180, 270))
    assert len(loads) == 2
    whole = pixels(contents)
    half = whole.shape[1] // 2
    np.testing.assert_array_equal(pixels(left), whole[:, :half])
    np.testing.assert_array_equal(pixels(right), whole[:, half:])
    for times, picture in enumerate(turned, start=1):
        np.testing.assert_array_equal(pixels(picture), np.rot90(whole, -times))


SIDE = 3600  # of a picture of 13 megapixels


def large(kind: str, **options: object) -> bytes:
    image = Image.new("RGB", (SIDE, SIDE), "red")
    image.paste(Image.effect_noise((300, 300), 90).convert("RGB"), (0, 0))
    return encode(image, kind, **options)


@pytest.mark.parametrize("kind", ["WEBP", "PNG", "AVIF"])
def test_of_large_pictures_a_few_are_decoded_at_a_time_and_small_ones_beside_them(kind):
    picture = photo.check(large(kind))
    with photo.place_to_decode(photo.LARGE), photo.place_to_decode(photo.LARGE):
        with pytest.raises(Full, match="12 megapixels or more at a time; try again later"):
            picture.small_jpeg(100, 85)
        with photo.place_to_decode(photo.LARGE - 1):
            photo.check(encode(Image.new("RGB", (1200, 1200)), kind)).small_jpeg(100, 85)
        photo.check(large("JPEG")).small_jpeg(100, 85)  # it scales while it is decoded
        with pytest.raises(Full):
            photo.check(large("JPEG", progressive=True)).small_jpeg(100, 85)
    picture.small_jpeg(100, 85)


@pytest.mark.parametrize(("kind", "options"), [("WEBP", {"lossless": True}), ("AVIF", {})])
def test_a_large_picture_of_a_few_bytes_is_refused_before_it_is_decoded(kind, options):
    with pytest.raises(UnsupportedPhoto, match="too few to show anything"):
        photo.check(encode(Image.new("RGB", (7000, 7000)), kind, **options))
    photo.check(encode(Image.new("1", (7000, 7000)), "PNG"))
    photo.check(encode(Image.new("RGB", (3000, 3000)), kind, **options))
