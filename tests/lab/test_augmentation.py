"""Augmentation: a photo of the right size, in range, never twice the same."""

import numpy as np
import tensorflow as tf
from lab.augmentation import augment
from support.photos import striped


def _views(count: int, image: np.ndarray) -> np.ndarray:
    photos = tf.data.Dataset.from_tensors(image).repeat(count)
    dataset = photos.map(lambda photo: augment(photo, (48, 40)))
    return np.stack(list(dataset.as_numpy_iterator()))


def test_every_view_has_the_networks_size_and_range_and_no_two_are_alike() -> None:
    views = _views(60, np.asarray(striped((200, 60, 50), 1)))
    assert views.shape == (60, 48, 40, 3)
    assert views.dtype == np.float32
    assert (views >= 0).all()  # which no NaN is
    assert (views <= 1).all()
    assert (np.abs(views[1:20] - views[:19]).mean((1, 2, 3)) > 0.02).all()


def test_a_half_of_the_photo_stays_visible_in_nearly_every_view_and_is_mirrored_about_every_second_time() -> (
    None
):
    halves = np.zeros((64, 64, 3), np.uint8)
    halves[:, 32:] = (255, 100, 100)
    views = _views(200, halves)
    assert ((views[..., 0].mean((1, 2)) - views[..., 2].mean((1, 2))) > 0.01).mean() > 0.9
    brighter_right = views[:, :, 20:].mean((1, 2, 3)) > views[:, :, :20].mean((1, 2, 3))
    assert 0.3 < brighter_right.mean() < 0.7
