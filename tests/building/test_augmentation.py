"""Augmentation: a photo of the right size, in range, never twice the same; mixed photos tell their breeds' shares."""

import numpy as np
import pytest
import tensorflow as tf
from photos import striped

from backend.fitting.augmentation import augment, mixing, paste


def _views(count: int, image: np.ndarray, strength: float = 1.0) -> np.ndarray:
    dataset = tf.data.Dataset.from_tensors(image).repeat(count).map(lambda photo: augment(photo, (48, 40), strength))
    return np.stack(list(dataset.as_numpy_iterator()))


def test_every_view_has_the_networks_size_and_range() -> None:
    views = _views(60, np.asarray(striped((200, 60, 50), 1)))
    assert views.shape == (60, 48, 40, 3)
    assert views.dtype == np.float32
    assert views.min() >= 0.0
    assert views.max() <= 1.0
    assert np.isfinite(views).all()


def test_views_of_one_photo_differ() -> None:
    views = _views(20, np.asarray(striped((200, 60, 50), 1)))
    gaps = np.abs(views[1:] - views[:-1]).mean((1, 2, 3))
    assert (gaps > 0.02).all()


def test_a_weaker_augmentation_shows_more_of_the_photo_where_it_was() -> None:
    spot = np.zeros((64, 64, 3), np.uint8)
    spot[8:24, 24:40] = 255
    place = np.zeros((48, 40), bool)
    place[6:18, 15:25] = True

    def overlap(strength: float) -> float:
        seen = _views(80, spot, strength).mean(-1) > 0.5
        return float(((seen & place).sum((1, 2)) / np.maximum((seen | place).sum((1, 2)), 1)).mean())

    none, half, full = overlap(0.0), overlap(0.5), overlap(1.0)
    assert none > 0.95
    assert none > half + 0.1
    assert half > full


def test_a_photo_is_mirrored_about_every_second_time() -> None:
    halves = np.zeros((64, 64, 3), np.uint8)
    halves[:, 32:] = 255
    views = _views(200, halves)
    brighter_right = views[:, :, 20:].mean((1, 2, 3)) > views[:, :, :20].mean((1, 2, 3))
    assert 0.3 < brighter_right.mean() < 0.7


def test_the_breed_stays_visible_in_nearly_every_view() -> None:
    views = _views(100, np.asarray(striped((220, 30, 30), 2)))
    redder = (views[..., 0].mean((1, 2)) - views[..., 2].mean((1, 2))) > 0.01
    assert redder.mean() > 0.9


def test_a_pasted_dog_stands_somewhere_inside_the_scene() -> None:
    dog, scene = np.full((40, 40, 3), 255, np.uint8), np.zeros((50, 60, 3), np.uint8)
    dataset = tf.data.Dataset.from_tensors(dog).repeat(40).map(lambda photo: paste(photo, scene, (48, 40)))
    views = np.stack(list(dataset.as_numpy_iterator()))
    bright = (views.mean(-1) > 0.5).mean((1, 2))
    assert views.shape == (40, 48, 40, 3)
    assert (bright > 0.1).all()
    assert (bright < 0.65).all()


def _mixed_batches(mix_up: float, cut_mix: float, count: int = 20) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches of 8 photos, each of one grey, its breed's number over 10, after mixing by these shares of batches."""
    breeds = np.arange(8) % 4
    images = np.ones((8, 32, 24, 3), np.float32) * breeds.reshape(-1, 1, 1, 1).astype(np.float32) / 10
    dataset = tf.data.Dataset.from_tensors((images, np.eye(4, dtype=np.float32)[breeds])).repeat(count)
    return list(dataset.map(mixing(mix_up, cut_mix)).as_numpy_iterator())


@pytest.mark.parametrize(("mix_up", "cut_mix"), [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)])
def test_a_mixed_photo_shows_its_breeds_in_the_shares_that_it_tells(mix_up: float, cut_mix: float) -> None:
    for images, breeds in _mixed_batches(mix_up, cut_mix):
        assert images.shape == (8, 32, 24, 3)
        np.testing.assert_allclose(breeds.sum(1), 1.0, atol=1e-5)
        # A window's edge lies between two pixels, so up to a row and a column belong to the other photo.
        np.testing.assert_allclose(images.mean((1, 2, 3)), breeds @ np.arange(4) / 10, atol=0.03)


def test_blended_photos_are_even_and_those_with_a_window_keep_pure_colours() -> None:
    for images, _ in _mixed_batches(1.0, 0.0):
        assert np.ptp(images, (1, 2, 3)).max() < 1e-5
    for images, _ in _mixed_batches(0.0, 1.0):
        assert set(np.unique(np.round(images * 10, 4))) <= {0.0, 1.0, 2.0, 3.0}


def test_as_many_batches_are_mixed_as_was_asked_for() -> None:
    untouched = np.eye(4, dtype=np.float32)[np.arange(8) % 4]
    mixed = [bool((breeds != untouched).any()) for _, breeds in _mixed_batches(0.3, 0.2, count=200)]
    assert 0.35 < np.mean(mixed) < 0.65
    assert not any((breeds != untouched).any() for _, breeds in _mixed_batches(0.0, 0.0))
