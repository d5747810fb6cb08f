"""Augmentation: a photo of the right size, in range, never twice the same."""

import numpy as np
import tensorflow as tf
from lab.augmentation import augment
from support.photos import striped


def _views(count: int, image: np.ndarray, strength: float = 1.0) -> np.ndarray:
    dataset = (
        tf.data.Dataset.from_tensors(image)
        .repeat(count)
        .map(lambda photo: augment(photo, (48, 40), strength))
    )
    return np.stack(list(dataset.as_numpy_iterator()))


def test_every_view_has_the_networks_size_and_range_and_no_two_are_alike() -> None:
    views = _views(60, np.asarray(striped((200, 60, 50), 1)))
    assert views.shape == (60, 48, 40, 3)
    assert views.dtype == np.float32
    assert (views >= 0).all()  # which no NaN is
    assert (views <= 1).all()
    assert (np.abs(views[1:20] - views[:19]).mean((1, 2, 3)) > 0.02).all()


def test_a_weaker_augmentation_shows_more_of_the_photo_where_it_was() -> None:
    spot = np.zeros((64, 64, 3), np.uint8)
    spot[8:24, 24:40] = 255
    place = np.zeros((48, 40), bool)
    place[6:18, 15:25] = True

    def overlap(strength: float) -> float:
        seen = _views(80, spot, strength).mean(-1) > 0.5
        return float(
            ((seen & place).sum((1, 2)) / np.maximum((seen | place).sum((1, 2)), 1)).mean()
        )

    none, half, full = overlap(0.0), overlap(0.5), overlap(1.0)
    assert none > 0.95
    assert none > half + 0.1
    assert half > full


def test_a_half_of_the_photo_stays_visible_in_nearly_every_view_and_is_mirrored_about_every_second_time() -> (
    None
):
    halves = np.zeros((64, 64, 3), np.uint8)
    halves[:, 32:] = (255, 100, 100)
    views = _views(200, halves)
    assert ((views[..., 0].mean((1, 2)) - views[..., 2].mean((1, 2))) > 0.01).mean() > 0.9
    brighter_right = views[:, :, 20:].mean((1, 2, 3)) > views[:, :, :20].mean((1, 2, 3))
    assert 0.3 < brighter_right.mean() < 0.7
