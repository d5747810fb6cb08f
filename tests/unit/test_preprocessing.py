"""Preprocessing: what can be decoded, what base64 may look like, and what is said about that which cannot."""

import io
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from dogsnap.serving.photos.preprocessing import (
    Resizing,
    decode,
    decode_base64,
    decode_for,
    images_and_picture,
    photos_to_images,
    resize,
    windows_to_images,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from support.base64_forms import FORMS
from support.colour_photos import encode
from support.photos import striped

SIZE = (16, 12)
VECTOR = [tf.TensorSpec([None], tf.string)]
to_images = tf.function(lambda contents: photos_to_images(contents, SIZE), input_signature=VECTOR)
to_bytes = tf.function(decode_base64, input_signature=VECTOR)


def file(kind: str, image: Image.Image | None = None, **options) -> bytes:
    return encode(image or striped((200, 60, 50), 1, (40, 30)), kind, **options)


MODES = [("PNG", mode) for mode in ("L", "RGBA", "LA", "P", "1")]


@pytest.mark.parametrize(
    ("kind", "mode"), [*((kind, "RGB") for kind in ("PNG", "GIF", "BMP", "JPEG", "WEBP")), *MODES]
)
def test_each_kind_is_decoded_as_pillow_decodes_it_in_three_channels_and_of_a_gif_the_first_frame(
    kind, mode
) -> None:
    second = (
        {"save_all": True, "append_images": [striped((60, 190, 70), 1, (40, 30))]}
        if kind == "GIF"
        else {}
    )
    contents = file(kind, striped((200, 60, 50), 1, (40, 30)).convert(mode), **second)
    expected = np.asarray(Image.open(io.BytesIO(contents)).convert("RGB"), np.int16)
    received = decode(tf.constant(contents)).numpy().astype(np.int16)
    tolerance = (
        40 if kind == "JPEG" else 4 if kind == "WEBP" else 0
    )  # libjpeg's own choice of rounding and upsampling
    assert received.shape == (30, 40, 3)
    assert np.abs(received - expected).max() <= tolerance


@pytest.mark.parametrize(("side", "kept"), [(31, 31), (39, 39), (40, 20), (80, 20), (300, 38)])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_a_large_jpeg_is_scaled_down_while_it_is_decoded_to_what_is_needed(
    side: int, kept: int, mode: str
) -> None:
    contents = file("JPEG", striped((200, 60, 50), 1, (side + 40, side)).convert(mode))
    assert decode_for(tf.constant(contents), SIZE).shape[0] == kept
    in_full = resize(decode(tf.constant(contents)), SIZE)
    assert np.abs(to_images(tf.constant([contents]))[0] - in_full).mean() < 0.03


def test_no_other_kind_is_scaled_down_nor_what_is_resized_without_antialias() -> None:
    large = striped((200, 60, 50), 1, (300, 300))
    for kind in ("PNG", "WEBP", "GIF", "BMP"):
        assert decode_for(tf.constant(file(kind, large)), SIZE).shape == (300, 300, 3)
    assert decode_for(tf.constant(file("JPEG", large)), SIZE, Resizing(antialias=False)).shape == (
        300,
        300,
        3,
    )


@pytest.mark.parametrize(
    ("kind", "side", "is_kept"),
    [("PNG", 300, True), ("BMP", 20, True), ("JPEG", 39, True), ("JPEG", 40, False)],
)
def test_windows_cut_from_the_decoded_picture_are_those_cut_from_the_file(
    kind: str, side: int, is_kept: bool
) -> None:
    contents = tf.constant([file(kind, striped((200, 60, 50), 1, (side + 40, side)))])
    images, picture = images_and_picture(contents, SIZE)
    np.testing.assert_array_equal(images, to_images(contents))
    # Of a JPEG that was scaled down a window needs more pixels.
    assert picture.shape[0] == (side if is_kept else 0)
    windows = tf.constant([[0.0, 0.0, 1.0, 1.0], [0.3, 0.1, 0.7, 0.8]])
    twice = tf.repeat(contents, 2)
    cut = windows_to_images(twice, windows, SIZE, picture)
    np.testing.assert_array_equal(cut, windows_to_images(twice, windows, SIZE))


def test_of_several_photos_no_picture_is_kept() -> None:
    contents = tf.constant([file("PNG"), file("JPEG")])
    images, picture = images_and_picture(contents, SIZE)
    np.testing.assert_array_equal(images, to_images(contents))
    assert tf.size(picture) == 0


def test_the_whole_photo_is_squashed_and_nothing_is_cut_off() -> None:
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, :40] = 255
    squashed = resize(tf.constant(pixels), (8, 8)).numpy()
    assert squashed[:, :3].min() > 0.99
    assert squashed[:, 5:].max() < 0.01


@pytest.mark.parametrize("shape", [(40, 81), (81, 40), (16, 12), (1, 50), (7, 7)])
@pytest.mark.parametrize("antialias", [False, True])
def test_the_middle_of_a_photo_is_cut_out_as_keras_own_layer_does_it(
    shape: tuple[int, int], antialias: bool
) -> None:
    pixels = np.random.default_rng(5).integers(0, 256, (*shape, 3), np.uint8)
    theirs = keras.layers.Resizing(*SIZE, crop_to_aspect_ratio=True, antialias=antialias)(
        pixels.astype(np.float32)
    )
    ours = resize(tf.constant(pixels), SIZE, Resizing(crop=True, antialias=antialias))
    np.testing.assert_allclose(ours, np.asarray(theirs) / 255, atol=1e-5)


@pytest.mark.parametrize("method", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("shape", [(40, 81), (90, 31), (9, 7), (16, 50)])
def test_each_method_of_resizing_gives_what_pillows_gives(
    method: str, shape: tuple[int, int]
) -> None:
    pixels = np.random.default_rng(6).integers(0, 256, (*shape, 3), np.uint8)
    bands = [Image.fromarray(band.astype(np.float32)) for band in np.moveaxis(pixels, -1, 0)]
    theirs = np.stack(
        [np.asarray(band.resize(SIZE[::-1], Image.Resampling[method.upper()])) for band in bands],
        -1,
    )
    ours = resize(tf.constant(pixels), SIZE, Resizing(method=method))
    np.testing.assert_allclose(ours, np.clip(theirs / 255, 0, 1), atol=1e-5)


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "nearest"])
def test_an_image_that_has_the_size_stays_as_it_is(method: str) -> None:
    image = np.random.default_rng(1).integers(0, 256, (7, 5, 3), np.uint8)
    same = resize(tf.constant(image), (7, 5), Resizing(method=method))
    np.testing.assert_allclose(same, image / 255, atol=1e-7)
    np.testing.assert_array_equal(
        resize(tf.constant(image[np.newaxis]), (7, 5), Resizing(method=method))[0], same
    )


def test_an_image_in_bytes_and_the_same_in_floats_give_the_same_numbers_in_0_to_1() -> None:
    pixels = np.asarray(striped((200, 60, 50), 1))
    from_bytes, from_floats = (
        resize(tf.constant(pixels), SIZE),
        resize(tf.constant(pixels / 255, tf.float32), SIZE),
    )
    np.testing.assert_allclose(from_bytes, from_floats, atol=1e-6)
    assert 0 <= from_bytes.numpy().min() < from_bytes.numpy().max() <= 1


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_a_batch_gives_what_its_photos_give_alone_in_order_eager_and_in_the_graph(
    count: int,
) -> None:
    photos = [
        file("PNG", striped((20 * number, 60, 50), number, (40 + number, 30)))
        for number in range(count)
    ]
    together = to_images(tf.constant(photos, tf.string)).numpy()
    assert together.shape == (count, *SIZE, 3)
    for image, photo in zip(together, photos, strict=True):
        np.testing.assert_array_equal(image, resize(decode(tf.constant(photo)), SIZE))
    np.testing.assert_array_equal(photos_to_images(tf.constant(photos, tf.string), SIZE), together)


GOOD, CUT_OFF, NONE = file("JPEG"), file("JPEG")[:400], b"no photo at all"


@pytest.mark.parametrize(
    ("photos", "places"),
    [([GOOD, CUT_OFF, GOOD, NONE], "1 3"), ([CUT_OFF, NONE], "0 1"), ([GOOD] * 20 + [b""], "20")],
)
@pytest.mark.parametrize(
    "run", [to_images, lambda contents: photos_to_images(contents, SIZE)], ids=["graph", "eager"]
)
def test_a_batch_names_the_places_of_all_its_unreadable_photos(
    photos: list[bytes], places: str, run
) -> None:
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="cannot decode the photos at these places"
    ) as error:
        run(tf.constant(photos))
    numbers = re.split(r"WebP\):['\]]*", error.value.message)[1].split("]")[0].strip("[ \n'")
    assert re.findall(r"\d+", numbers) == places.split()


@pytest.mark.parametrize("form", FORMS)
@given(contents=st.binary(max_size=200))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_base64_in_every_form_gives_the_bytes_back(form: str, contents: bytes) -> None:
    assert to_bytes(tf.constant([FORMS[form](contents)])).numpy()[0] == contents


@pytest.mark.parametrize(
    ("texts", "places"),
    [
        ([b"A"], ["0"]),
        ([b"YQ==", b"Y*=="], ["1"]),
        ([b"YQ==YQ=="], ["0"]),
        ([b"\xff", b"YQ", b"YWJjZ"], ["0", "2"]),
    ],
)
def test_text_that_is_no_base64_is_named_by_its_place(
    texts: list[bytes], places: list[str]
) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="no base64 text") as error:
        to_bytes(tf.constant(texts))
    assert (
        re.findall(r"\d+", error.value.message.split("counted from 0:]")[1].split("]")[0]) == places
    )
