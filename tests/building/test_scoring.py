"""The judge: known answers give known scores."""

import numpy as np
import pytest

from backend.fitting import scoring, thresholds
from backend.fitting.temperature import Calibration, fit_temperature, softmax

NAMES = ("akita", "beagle", "collie", "dhole", "eskimo", "foxhound")
LABELS = [{"id": f"n{i}", "name": name, "name_zh": name} for i, name in enumerate(NAMES)]


def _logits(photos: int, strength: float, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose softmax at temperature 1 is exactly calibrated: breeds are drawn from it, then scaled by `strength`."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 2, (photos, len(LABELS)))
    breeds = np.array([generator.choice(len(LABELS), p=row) for row in softmax(logits)])
    return logits * strength, breeds


def test_temperature_scaling_finds_the_factor_by_which_logits_are_too_bold_and_lowers_the_calibration_error() -> None:
    logits, breeds = _logits(4000, strength=2.5)
    temperature = fit_temperature(logits, breeds)
    assert temperature == pytest.approx(2.5, rel=0.07)
    assert scoring.calibration_error(softmax(logits), breeds) > 0.1
    assert scoring.calibration_error(softmax(logits / temperature), breeds) < 0.03


def test_the_temperature_fits_to_answers_with_the_prior() -> None:
    logits, _ = _logits(4000, strength=2.5)
    log_prior = np.array([0.8, 0.2, 0.0, -0.2, -0.3, -0.5])
    generator, asked = np.random.default_rng(4), softmax(Calibration(2.5, log_prior).scaled(logits))
    breeds = np.array([generator.choice(len(LABELS), p=row) for row in asked])
    assert fit_temperature(logits, breeds, log_prior) == pytest.approx(2.5, rel=0.07)


def test_without_a_stated_prior_all_breeds_are_equally_common() -> None:
    logits, _ = _logits(5, strength=1.0)
    np.testing.assert_allclose(Calibration.of({"temperature": 2.0}, 6).scaled(logits), logits / 2)


def test_calibration_error_of_one_bin_is_the_gap_between_said_and_right() -> None:
    assert scoring.calibration_error(np.array([[0.8, 0.2]] * 10), np.repeat([0, 1], 5)) == pytest.approx(0.3)


def test_the_dog_threshold_refuses_the_asked_share_of_others_when_the_dogs_allow_it() -> None:
    dogs, others = np.linspace(0.5, 1, 1000), np.linspace(0, 0.3, 1001)
    chosen = thresholds.dog_threshold(dogs, dogs > 0.7, others)
    assert (others < chosen).mean() == pytest.approx(thresholds.REFUSED_OTHERS, abs=0.002)
    assert (dogs >= chosen).all()


def test_the_dog_threshold_keeps_the_asked_share_of_dogs_of_either_kind_first() -> None:
    others, whole = np.linspace(0, 1, 1001), np.arange(1502) < 1001
    dogs = np.concatenate([others, np.linspace(0.5, 1, 501)])
    chosen = thresholds.dog_threshold(dogs, whole, others)
    assert (dogs[whole] >= chosen).mean() == pytest.approx(thresholds.KEPT_DOGS, abs=0.002)
    assert thresholds.dog_threshold(dogs, whole, np.zeros(0)) == 0.0


def test_the_report_counts_right_answers_and_names_the_confused() -> None:
    probabilities = np.full((4, 6), 0.02)
    probabilities[[0, 1, 2, 3], [0, 1, 2, 0]] = 0.9
    scores = scoring.report(probabilities, np.array([0, 1, 2, 3]), LABELS, confident=0.5)
    assert scores["top1"] == 0.75
    assert scores["top5"] == 1.0
    assert scores["recall"] == {"n0": 1.0, "n1": 1.0, "n2": 1.0, "n3": 0.0}
    assert scores["confused"] == [{"is": "dhole", "taken_for": "akita", "times": 1}]
    assert (scores["confident_share"], scores["confident_precision"]) == (1.0, 0.75)
    assert "dhole taken for akita (1)" in scoring.as_text(scores)
