"""Class statistics: what is kept of the training photos, and the weights of a class that is added."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from dogsnap.networks.temperature import softmax
from dogsnap.training.class_statistics import ClassStatistics, NewClasses, StatisticsError

CLASSES, FEATURES = 6, 24


def gaussians(seed: int, per_class: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of classes with one covariance, which has a few large directions, and their classes."""
    fixed = np.random.default_rng(0)
    means = fixed.normal(0, 2, (CLASSES, FEATURES))
    turned = np.linalg.qr(fixed.normal(size=(FEATURES, FEATURES)))[0]
    spread = np.diag(np.r_[3.0, 2.0, np.full(FEATURES - 2, 0.4)]) @ turned
    classes = np.repeat(np.arange(CLASSES), per_class)
    noise = np.random.default_rng(seed).normal(size=(len(classes), FEATURES))
    return (means[classes] + noise @ spread).astype(np.float32), classes


@pytest.fixture(scope="module")
def head() -> tuple[np.ndarray, np.ndarray]:
    """Kernel (f, classes) and bias of a softmax regression by gradient descent."""
    features, classes = gaussians(1, 60)
    kernel, bias = np.zeros((FEATURES, CLASSES), np.float32), np.zeros(CLASSES, np.float32)
    for _ in range(500):
        error = softmax(features @ kernel + bias) - np.eye(CLASSES)[classes]
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
    np.testing.assert_allclose(
        statistics.directions.T @ statistics.directions, np.eye(FEATURES), atol=1e-4
    )


def answered(
    added: NewClasses, features: np.ndarray, kernel: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    return np.column_stack(
        [features @ kernel + bias, features @ added.weights + added.bias]
    ).argmax(1)


@pytest.mark.parametrize("removed", [[5], [4, 5]])
def test_classes_that_are_taught_again_are_recognised_and_cost_the_others_little(
    statistics, head, removed
) -> None:
    kept = np.delete(np.arange(CLASSES), removed)
    kernel, bias = head[0][:, kept], head[1][kept]
    shown = np.isin(statistics.checked_classes, kept)
    known = dataclasses.replace(
        statistics,
        means=statistics.means[kept],
        checked=statistics.checked[shown],
        checked_classes=statistics.checked_classes[shown],
    )
    features, classes = gaussians(3, 100)
    added = known.fit_new_classes(
        [features[classes == each][:20, np.newaxis] for each in removed], kernel, bias
    )
    answers = answered(added, features, kernel, bias)
    for each in removed:
        assert (answers[classes == each][20:] == each).mean() >= 0.85
    others = ~np.isin(classes, removed)
    right = (features @ kernel + bias).argmax(1) == classes
    assert (others & right & (answers != classes)).sum() / others.sum() <= 0.03


def new_class_near_a_known_one(statistics: ClassStatistics, count: int, seed: int) -> np.ndarray:
    """Features (count, 1, f) of photos of a class that overlaps with class 0."""
    towards = np.random.default_rng(7).normal(size=FEATURES)
    mean = statistics.means[0] + 2 * towards / np.linalg.norm(towards)
    photos = np.random.default_rng(seed).normal(mean, 1.2, (count, 1, FEATURES))
    return photos.astype(np.float32)


def test_photos_of_known_classes_make_a_new_one_take_less_from_them(statistics, head) -> None:
    photos = new_class_near_a_known_one(statistics, 20, seed=8)
    # A look of a known breed that its mean does not show.
    known, others = (new_class_near_a_known_one(statistics, 60, seed)[:, 0] for seed in (11, 12))
    alone, beside = (statistics.fit_new_classes([photos], *head, more) for more in (None, known))
    taken = [(answered(each, others, *head) == CLASSES).mean() for each in (alone, beside)]
    assert taken[1] < taken[0]


def test_photos_are_left_out_of_the_part_that_they_are_in(statistics, head) -> None:
    photos = new_class_near_a_known_one(statistics, 20, seed=8)
    folds, checked = np.repeat(np.arange(5), 4), np.arange(len(statistics.checked)) // 3 % 5
    added = statistics.fit_new_classes([photos], *head, None, [folds], checked)
    for fold, (weights, own) in enumerate(added.parts):
        shown = photos[folds == fold, 0] @ weights + own
        np.testing.assert_allclose(added.left_out[0][folds == fold], shown, atol=1e-3)
        inside = checked == fold
        np.testing.assert_allclose(
            added.checked[inside], statistics.checked[inside] @ weights + own, atol=1e-3
        )
    changed = np.where((folds == 2)[:, np.newaxis, np.newaxis], photos + 5, photos)
    again = statistics.fit_new_classes([changed], *head, None, [folds], checked)
    difference = [
        np.abs(one[0] - other[0]).max() for one, other in zip(added.parts, again.parts, strict=True)
    ]
    assert np.argmin(difference) == 2
    assert difference[2] == 0
    assert min(np.delete(difference, 2)) > 1e-4


def test_new_classes_are_lowered_where_they_would_take_too_many_validation_photos(
    statistics, head
) -> None:
    photos = new_class_near_a_known_one(statistics, 20, seed=8)
    added = statistics.fit_new_classes([photos], *head)
    known = statistics.checked @ head[0] + head[1]
    right = known.argmax(1) == statistics.checked_classes
    assert not (right & (added.checked[:, 0] > known.max(1))).any()  # of 60 none is allowed
    none_right = dataclasses.replace(
        statistics, checked_classes=np.full(len(statistics.checked), -1)
    )
    assert np.isfinite(none_right.fit_new_classes([photos], *head).bias).all()


def test_statistics_come_back_from_their_file_where_it_is_of_the_same_weights(
    statistics, tmp_path: Path
) -> None:
    file = tmp_path / "class_statistics.npz"
    statistics.save(file, "a" * 64)
    again = ClassStatistics.load(file, CLASSES, FEATURES, "a" * 64)
    for field in dataclasses.fields(statistics):
        np.testing.assert_allclose(
            getattr(again, field.name), getattr(statistics, field.name), rtol=2e-3, atol=2e-3
        )
    words = "weights with the SHA-256 aaaaaaaaaaaa, expected bbbbbbbbbbbb; `python -m lab calibrate` writes it anew"
    with pytest.raises(StatisticsError, match=words):
        ClassStatistics.load(file, CLASSES, FEATURES, "b" * 64)
    with pytest.raises(StatisticsError, match="the network has 5 with 24"):
        ClassStatistics.load(file, CLASSES - 1, FEATURES)
    file.write_bytes(b"no archive")
    with pytest.raises(StatisticsError, match="cannot be read"):
        ClassStatistics.load(file, CLASSES, FEATURES)
    with pytest.raises(StatisticsError, match="does not exist"):
        ClassStatistics.load(tmp_path / "none.npz", CLASSES, FEATURES)
