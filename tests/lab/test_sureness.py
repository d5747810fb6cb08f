"""How sure a breed is: dogs of unknown breeds look less like what they are taken for."""

import numpy as np
import pytest
from dogsnap.networks.halves import read_halves, write_halves
from dogsnap.networks.looks import Looks, Sureness
from dogsnap.networks.temperature import Calibration, softmax
from dogsnap.training import scoring
from lab.sureness import fit_sureness

CLASSES, FEATURES, KNOWN = 40, 60, 30
TOLD = 20  # features that tell the known breeds apart, which is all that probabilities show
SPREAD = 1.2  # of the photos of a breed, where the breeds differ by 1


def photos(breeds: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of all breeds (CLASSES, f), and features of photos of `breeds` (n, f)."""
    means = np.random.default_rng(1).normal(size=(CLASSES, FEATURES))
    generator = np.random.default_rng(seed)
    return means, means[breeds] + SPREAD * generator.normal(size=(len(breeds), FEATURES))


def answers(seed: int, per_breed: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray, Looks]:
    """The probabilities that a network of the first KNOWN breeds gives photos of all of them, the looks, and the breeds."""
    breeds = np.repeat(np.arange(CLASSES), per_breed)
    means, features = photos(breeds, seed)
    held_out = np.repeat(np.arange(KNOWN), 20)
    looks = Looks.of(means[:KNOWN], photos(held_out, 2)[1], held_out)
    rows = means[:KNOWN, :TOLD]
    logits = (features[:, :TOLD] @ rows.T - (rows**2).sum(axis=1) / 2) / SPREAD**2
    return softmax(logits), features @ looks.weights + looks.bias, breeds, looks


def fitted(seed: int = 3) -> Sureness:
    probabilities, looks, breeds, _ = answers(seed)
    known = breeds < KNOWN
    right = probabilities[known].argmax(axis=1) == breeds[known]
    shown = (probabilities[known], looks[known])
    strange = (probabilities[~known], looks[~known])
    return fit_sureness(shown, right, np.ones(known.sum()), strange)


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_fewer_dogs_of_unknown_breeds_are_named_where_as_many_known_ones_are(seed: int) -> None:
    """Photos and unknown breeds that took no part in the fit; 0.6 of the known ones are named."""
    probabilities, looks, breeds, _ = answers(seed)
    known = breeds < KNOWN
    sure = fitted().probabilities(probabilities, looks).numpy()
    wrong = []
    for shown in (probabilities, sure):
        first = shown.max(axis=1)
        threshold = np.quantile(first[known], 0.4)
        wrong.append((first[~known] >= threshold).mean())
    before, after = wrong
    assert before > 0.05
    assert after < 0.5 * before


def test_the_probabilities_of_known_breeds_stay_calibrated_and_in_order() -> None:
    probabilities, looks, breeds, _ = answers(14)
    known = breeds < KNOWN
    sure = fitted().probabilities(probabilities, looks).numpy()
    np.testing.assert_allclose(sure.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(sure.argmax(axis=1), probabilities.argmax(axis=1))
    assert scoring.calibration_error(sure[known], breeds[known]) < 0.06


def test_looks_of_no_use_leave_probabilities_as_they_are() -> None:
    probabilities, looks, breeds, _ = answers(15)
    known = breeds < KNOWN
    noise = np.random.default_rng(5).normal(size=looks.shape)
    right = probabilities[known].argmax(axis=1) == breeds[known]
    shown = (probabilities[known], noise[known])
    sureness = fit_sureness(shown, right, np.ones(known.sum()), shown)
    assert abs(sureness.look) < 0.2
    assert Sureness(1.0, 0.0, 0.0).probabilities(probabilities, noise).numpy() == pytest.approx(
        probabilities, abs=1e-3
    )


def test_the_first_breed_stays_the_first_however_little_a_photo_looks_like_it() -> None:
    probabilities = np.array([[0.5, 0.4, 0.1], [0.98, 0.01, 0.01]])
    looks = np.full((2, 3), -100.0)
    sure = Sureness(1.0, 1.0, 0.0).probabilities(probabilities, looks).numpy()
    np.testing.assert_array_equal(sure.argmax(axis=1), [0, 0])
    assert sure.max() < 0.51
    np.testing.assert_allclose(sure.sum(axis=1), 1, atol=1e-5)


def test_probabilities_that_are_0_leave_the_sum_at_1() -> None:
    probabilities = np.array([[1.0, 0.0, 0.0], [0.7, 0.3, 0.0]], np.float32)
    sure = Sureness(1.0, 0.0, -50.0).probabilities(probabilities, np.zeros((2, 3), np.float32))
    np.testing.assert_allclose(sure.numpy().sum(axis=1), 1, atol=1e-6)
    assert sure.numpy().max() < 0.51


def test_a_calibration_is_read_with_its_sureness_and_without_looks_it_is_the_softmax() -> None:
    stated = {"temperature": 1.0, "sureness": {"odds": 0.8, "look": 0.5, "offset": -0.2}}
    calibration = Calibration.of(stated, 3)
    assert calibration.sureness == Sureness(0.8, 0.5, -0.2)
    logits = np.array([[1.0, 2.0, 0.0]])
    np.testing.assert_allclose(calibration.probabilities(logits), softmax(logits))
    looks = np.array([[3.0, -3.0, 0.0]])
    without = softmax(logits).max()
    assert np.max(calibration.probabilities(logits, looks=looks)) < without


def test_means_are_kept_in_half_precision() -> None:
    means = np.random.default_rng(6).normal(size=7).astype(np.float32)
    np.testing.assert_allclose(read_halves(write_halves(means)), means, atol=1e-3)
