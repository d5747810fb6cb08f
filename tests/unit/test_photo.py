"""Photos: every kind is read, turned upright and checked by its limits before a pixel is decoded."""

import colour_photos
import numpy as np
import pytest
from colour_photos import encode, huge_png, plain, with_orientation
from PIL import Image

from backend.errors import InvalidArgument, TooLarge, UnsupportedPhoto
from backend.serving.photos import photo, preprocessing
from backend.serving.photos.photo import PhotoLimits

LIMITS = PhotoLimits()
KINDS = colour_photos.every_kind()
GREYS = colour_photos.every_grey()


def pixels(contents: bytes) -> np.ndarray:
    """What the graph will see."""
    return preprocessing.decode(photo.check(contents, LIMITS).upright()).numpy()


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_photo_reaches_the_graph_in_its_colours(name):
    mean = pixels(KINDS[name]).reshape(-1, 3).mean(axis=0)
    assert mean[0] > 200
    assert max(mean[1:]) < 90  # a quarter of the see-through photos is white


@pytest.mark.parametrize("name", GREYS)
def test_every_kind_of_grey_photo_keeps_its_brightness(name):
    seen = pixels(GREYS[name])
    assert seen.shape[-1] == 3
    assert np.abs(seen.astype(int) - 128).max() <= 2


def quadrants() -> Image.Image:
    """Red, green, blue and white quarters, in reading order, wider than high."""
    image = Image.new("RGB", (80, 48), "white")
    for box, colour in (((0, 0, 40, 24), "red"), ((40, 0, 80, 24), "lime"), ((0, 24, 40, 48), "blue")):
        image.paste(colour, box)
    return image


# How a camera that is held so stores an upright picture: the inverse of what turns it upright again.
STORED = {
    1: lambda image: image,
    2: lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    3: lambda image: image.transpose(Image.Transpose.ROTATE_180),
    4: lambda image: image.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
    5: lambda image: image.transpose(Image.Transpose.TRANSPOSE),
    6: lambda image: image.transpose(Image.Transpose.ROTATE_90),
    7: lambda image: image.transpose(Image.Transpose.TRANSVERSE),
    8: lambda image: image.transpose(Image.Transpose.ROTATE_270),
}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF", "HEIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_of_any_orientation_comes_out_upright(orientation, kind):
    contents = with_orientation(STORED[orientation](quadrants()), orientation, kind, quality=95)
    seen = pixels(contents).astype(int)
    assert seen.shape == (48, 80, 3)
    expected = np.asarray(quadrants()).astype(int)
    assert np.abs(seen - expected)[4:-4, 4:-4].mean() < 12


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_an_orientation_that_does_not_exist_leaves_the_photo_as_it_is(orientation):
    assert pixels(with_orientation(plain(), orientation)).shape == (48, 64, 3)


def test_a_photo_that_needs_nothing_passes_through_untouched():
    for contents in (KINDS["jpeg"], KINDS["png"], GREYS["grey jpeg"], with_orientation(plain(), 1)):
        assert photo.check(contents, LIMITS).upright() is contents


def test_exif_stays_behind_when_a_photo_is_rewritten():
    assert b"a maker" not in photo.check(with_orientation(plain(), 6), LIMITS).upright()


def test_a_large_photo_is_scaled_down_but_not_below_what_the_network_needs():
    for contents in (encode(plain(size=(4000, 3000)), "JPEG"), encode(plain(size=(4000, 3000)), "PNG")):
        height, width, _ = pixels(contents).shape
        assert 640 <= height < 1280
        assert width / height == pytest.approx(4 / 3, rel=0.01)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_photo_is_scaled_down_as_far_as_a_network_allows_that_says_its_size(kind):
    photo_of_phone = photo.check(encode(plain(size=(4000, 3000)), kind), LIMITS)
    assert preprocessing.decode(photo_of_phone.upright(least=374)).shape == (375, 500, 3)


def test_scaling_down_while_decoding_shows_the_same_picture():
    generator = np.random.default_rng(0)
    coarse = Image.fromarray(generator.integers(0, 256, (12, 16, 3), np.uint8))
    large = coarse.resize((3200, 2400), Image.Resampling.BICUBIC)
    whole = preprocessing.resize(preprocessing.decode(encode(large, "JPEG", quality=95)), (64, 64)).numpy()
    scaled = preprocessing.resize(pixels(encode(large, "JPEG", quality=95)), (64, 64)).numpy()
    assert np.abs(whole - scaled).mean() < 0.01


def test_a_long_narrow_photo_keeps_its_short_side():
    assert pixels(encode(plain(size=(3000, 30)), "JPEG")).shape == (30, 3000, 3)


def test_too_many_pixels_are_refused_from_the_header_naming_the_limit():
    with pytest.raises(TooLarge, match=r"84.0 megapixels \(12000 x 7000\); at most 50 .*DOGSNAP_MAX_PHOTO_PIXELS"):
        photo.check(huge_png(12000, 7000), LIMITS)


def test_the_pixel_limit_itself_is_allowed():
    assert photo.check(huge_png(10000, 5000), LIMITS).pixels == 50_000_000


def test_too_many_photos_are_refused_naming_the_limit():
    photo.check_count([b""] * 32, LIMITS)
    with pytest.raises(TooLarge, match=r"33 photos; at most 32 .*DOGSNAP_MAX_PHOTOS"):
        photo.check_count([b""] * 33, LIMITS)


def test_no_bytes_are_refused():
    with pytest.raises(InvalidArgument, match="0 bytes"):
        photo.check(b"", LIMITS)


@pytest.mark.parametrize(
    ("contents", "received"),
    [
        (b"%PDF-1.7 and so on", "a PDF document"),
        (b"II*\0 and so on", "a TIFF or raw camera file"),
        (b"/9j/4AAQSkZJRgABAQ", "encoded twice"),
        (b"<html></html>", "13 bytes that are none of these"),
        (KINDS["png"][:20], "20 bytes that are none of these or damaged at the start"),
    ],
)
def test_what_is_no_photo_is_refused_saying_what_came(contents, received):
    with pytest.raises(
        UnsupportedPhoto, match="expected a JPEG, PNG, GIF, BMP, WebP, HEIC or AVIF photo, received"
    ) as error:
        photo.check(contents, LIMITS)
    assert received in error.value.message


@pytest.mark.parametrize("name", ["large jpeg", "large png", "gif", "webp", "avif", "heic"])
def test_a_truncated_photo_that_has_to_be_decoded_here_is_refused(name):
    noise = Image.effect_noise((1800, 1400), 80).convert("RGB")
    whole = {
        "large jpeg": lambda: encode(noise, "JPEG"),
        "large png": lambda: encode(noise, "PNG"),
        "gif": lambda: encode(noise, "GIF"),
        "webp": lambda: encode(noise, "WEBP", quality=30),
        "avif": lambda: encode(noise.resize((300, 200)), "AVIF"),
        "heic": lambda: colour_photos.heic(noise.resize((300, 200))),
    }[name]()
    with pytest.raises(UnsupportedPhoto, match=r"damaged or cut off|none of these"):
        photo.check(whole[: len(whole) * 2 // 3], LIMITS).upright()


def test_exif_that_cannot_be_read_does_not_stop_a_photo():
    contents = bytearray(with_orientation(plain(), 6))
    start = contents.index(b"Exif\0\0") + 6
    contents[start : start + 8] = b"\xff" * 8
    assert photo.check(bytes(contents), LIMITS).upright() is not None
