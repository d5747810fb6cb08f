"""Class statistics: what is kept of the training photos, and the weights of a class that is added."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from backend.fitting.class_statistics import ClassStatistics, StatisticsError

CLASSES, FEATURES = 6, 24


def gaussians(seed: int, per_class: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of classes with one covariance, which has a few large directions, and their classes."""
    fixed = np.random.default_rng(0)
    means = fixed.normal(0, 2, (CLASSES, FEATURES))
    spread = (
        np.diag(np.r_[3.0, 2.0, np.full(FEATURES - 2, 0.4)]) @ np.linalg.qr(fixed.normal(size=(FEATURES, FEATURES)))[0]
    )
    classes = np.repeat(np.arange(CLASSES), per_class)
    noise = np.random.default_rng(seed).normal(size=(len(classes), FEATURES))
    return (means[classes] + noise @ spread).astype(np.float32), classes


def trained_head(features: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kernel (f, classes) and bias of a softmax regression by gradient descent."""
    kernel, bias = np.zeros((FEATURES, CLASSES), np.float32), np.zeros(CLASSES, np.float32)
    for _ in range(500):
        logits = features @ kernel + bias
        p = np.exp(logits - logits.max(1, keepdims=True))
        error = p / p.sum(1, keepdims=True) - np.eye(CLASSES)[classes]
        kernel -= 0.1 * (features.T @ error / len(features)).astype(np.float32)
        bias -= 0.1 * error.mean(0).astype(np.float32)
    return kernel, bias


@pytest.fixture(scope="module")
def statistics() -> ClassStatistics:
    return ClassStatistics.of(*gaussians(1, 60), *gaussians(2, 10))


def test_means_and_directions_are_those_of_the_photos(statistics: ClassStatistics) -> None:
    features, classes = gaussians(1, 60)
    np.testing.assert_allclose(statistics.means[2], features[classes == 2].mean(0), atol=1e-5)
    assert statistics.variances.max() == pytest.approx(9, rel=0.3)
    np.testing.assert_allclose(statistics.directions.T @ statistics.directions, np.eye(FEATURES), atol=1e-4)


@pytest.mark.parametrize("removed", range(CLASSES))
def test_a_class_given_back_from_its_mean_is_recognised_and_costs_the_others_little(statistics, removed: int) -> None:
    kernel, bias = trained_head(*gaussians(1, 60))
    kept = np.delete(np.arange(CLASSES), removed)
    known = dataclasses.replace(statistics, means=statistics.means[kept])
    features, classes = gaussians(3, 100)
    taught = features[classes == removed][:20].mean(0)
    weights, offset = known.new_class(taught, kernel[:, kept], bias[kept])
    others = features @ kernel[:, kept] + bias[kept]
    taken = features @ weights + offset > others.max(1)
    assert taken[classes == removed][20:].mean() >= 0.85
    was_right = (kept[others.argmax(1)] == classes) & (classes != removed)
    assert (was_right & taken).sum() / (classes != removed).sum() <= 0.03


def new_class_near_a_known_one(statistics: ClassStatistics, count: int, seed: int) -> np.ndarray:
    """Features (count, 1, f) of photos of a class that overlaps with class 0."""
    towards = np.random.default_rng(7).normal(size=FEATURES)
    mean = statistics.means[0] + 2 * towards / np.linalg.norm(towards)
    photos = np.random.default_rng(seed).normal(mean, 1.2, (count, 1, FEATURES))
    return photos.astype(np.float32)


def checked_with(statistics: ClassStatistics, kept: np.ndarray) -> ClassStatistics:
    """The same with a part of the validation photos."""
    checked, classes = statistics.checked[kept], statistics.checked_classes[kept]
    return dataclasses.replace(statistics, checked=checked, checked_classes=classes)


def test_an_offset_recognises_more_photos_of_a_class_that_is_scored_too_low(statistics: ClassStatistics) -> None:
    kernel, bias = trained_head(*gaussians(1, 60))
    photos = new_class_near_a_known_one(statistics, 20, seed=8)
    unlimited = checked_with(statistics, np.zeros(len(statistics.checked), bool))
    taught = unlimited.taught(photos, kernel, bias)
    without = statistics.new_class(photos.mean(axis=(0, 1)), kernel, bias)[1]
    others = new_class_near_a_known_one(statistics, 300, seed=10)[:, 0]
    most, scores = (others @ kernel + bias).max(1), others @ taught.weights
    assert (scores + taught.bias > most).mean() >= (scores + without > most).mean() + 0.05


def test_an_offset_ends_where_the_others_would_lose_too_many_validation_photos(statistics: ClassStatistics) -> None:
    kernel, bias = trained_head(*gaussians(1, 60))
    photos = new_class_near_a_known_one(statistics, 20, seed=8)
    weights, without = statistics.new_class(photos.mean(axis=(0, 1)), kernel, bias)

    def lost(own: float) -> np.ndarray:
        known = statistics.checked @ kernel + bias
        return (known.argmax(1) == statistics.checked_classes) & (statistics.checked @ weights + own > known.max(1))

    unlimited = checked_with(statistics, np.zeros(len(statistics.checked), bool)).taught(photos, kernel, bias)
    assert lost(unlimited.bias).sum() > lost(without).sum()
    # Those that are lost without an offset left out, of which fewer than 1,000 remain: none of them may be lost.
    limited = checked_with(statistics, ~lost(without)).taught(photos, kernel, bias)
    assert without < limited.bias < unlimited.bias
    np.testing.assert_array_equal(lost(limited.bias), lost(without))
    np.testing.assert_array_equal(limited.weights, weights)


def test_a_class_that_takes_too_many_validation_photos_is_scored_lower(statistics: ClassStatistics) -> None:
    kernel, bias = trained_head(*gaussians(1, 60))
    photos = new_class_near_a_known_one(statistics, 20, seed=8)
    taught = statistics.taught(photos, kernel, bias)
    assert taught.bias < statistics.new_class(photos.mean(axis=(0, 1)), kernel, bias)[1]
    known, new = statistics.checked @ kernel + bias, statistics.checked @ taught.weights + taught.bias
    assert not ((known.argmax(1) == statistics.checked_classes) & (new > known.max(1))).any()  # of 60 none is allowed


def test_classes_that_are_taught_one_after_the_other_together_take_no_more_than_is_allowed(statistics) -> None:
    kernel, bias = trained_head(*gaussians(1, 60))
    # As many as 1,000 validation photos, of which three new classes may take three and a half.
    copies = 1000 // len(statistics.checked) + 1
    checked, classes = gaussians(5, 10 * copies)
    many = dataclasses.replace(statistics, checked=checked, checked_classes=classes)
    was_right = (checked @ kernel + bias).argmax(1) == classes
    freely, lost = [], []
    for seed in (8, 18, 28):
        photos = new_class_near_a_known_one(statistics, 20, seed)
        freely.append(statistics.new_class(photos.mean(axis=(0, 1)), kernel, bias))
        added = many.taught(photos, kernel, bias)
        kernel, bias = np.column_stack([kernel, added.weights]), np.append(bias, added.bias)
        lost.append((was_right & ((checked @ kernel + bias).argmax(1) != classes)).sum())
    assert (was_right & ((checked @ freely[0][0] + freely[0][1]) > (checked @ kernel + bias).max(1))).sum() > 3
    assert lost[0] <= 2
    assert lost[2] <= 3


def test_a_class_is_added_to_a_head_that_answers_no_validation_photo_right(statistics: ClassStatistics) -> None:
    kernel, bias = trained_head(*gaussians(1, 60))
    checked = gaussians(5, 1000 // CLASSES + 1)[0]
    wrong = dataclasses.replace(statistics, checked=checked, checked_classes=np.full(len(checked), -1))
    photos = new_class_near_a_known_one(statistics, 20, seed=8)
    assert np.isfinite(wrong.taught(photos, kernel, bias).bias)


def test_a_class_whose_left_out_photos_are_all_recognised_gets_no_offset(statistics: ClassStatistics) -> None:
    kernel, bias = trained_head(*gaussians(1, 60))
    far = np.random.default_rng(9).normal(6, 0.1, (10, 1, FEATURES)).astype(np.float32)
    taught = statistics.taught(far, kernel, bias)
    assert taught.bias == statistics.new_class(far.mean(axis=(0, 1)), kernel, bias)[1]
    assert (taught.left_out > (far[:, 0] @ kernel + bias).max(1)).all()


def test_statistics_come_back_from_their_file(statistics: ClassStatistics, tmp_path: Path) -> None:
    file = tmp_path / "class_statistics.npz"
    statistics.save(file)
    again = ClassStatistics.load(file, CLASSES, FEATURES)
    for field in dataclasses.fields(statistics):
        np.testing.assert_allclose(getattr(again, field.name), getattr(statistics, field.name), rtol=2e-3, atol=2e-3)


def test_statistics_of_other_weights_are_refused_with_what_to_run(statistics: ClassStatistics, tmp_path: Path) -> None:
    file = tmp_path / "class_statistics.npz"
    statistics.save(file, "a" * 64)
    assert ClassStatistics.load(file, CLASSES, FEATURES, "a" * 64)
    words = "weights with the SHA-256 aaaaaaaaaaaa, expected bbbbbbbbbbbb; `dogsnap calibrate` writes it anew"
    with pytest.raises(StatisticsError, match=words):
        ClassStatistics.load(file, CLASSES, FEATURES, "b" * 64)


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "does not exist"), (b"no archive", "cannot be read"), ("whole", "the network has 5 with 24")],
)
def test_a_file_that_is_missing_damaged_or_of_other_weights_is_told(statistics, tmp_path: Path, content, words) -> None:
    file = tmp_path / "class_statistics.npz"
    if content == "whole":
        statistics.save(file)
    elif content:
        file.write_bytes(content)
    with pytest.raises(StatisticsError, match=words):
        ClassStatistics.load(file, CLASSES - 1, FEATURES)
