"""The judge: known answers give known scores."""

import numpy as np
import pytest
from dogsnap.networks.temperature import Calibration, fit_calibration, softmax
from dogsnap.training import scoring
from lab import decision_fit

NAMES = ("akita", "beagle", "collie", "dhole", "eskimo", "foxhound")
LABELS = [{"id": f"n{i}", "name": name, "name_zh": name} for i, name in enumerate(NAMES)]


def _logits(photos: int, strength: float, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose softmax at temperature 1 is exactly calibrated: breeds are drawn from it, then scaled by `strength`."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 2, (photos, len(LABELS)))
    breeds = np.array([generator.choice(len(LABELS), p=row) for row in softmax(logits)])
    return logits * strength, breeds


@pytest.mark.parametrize(
    "log_prior", [0.0, np.array([0.8, 0.2, 0.0, -0.2, -0.3, -0.5])], ids=["no prior", "prior"]
)
@pytest.mark.parametrize("lapse", [0.0, 0.05])
def test_the_fit_finds_by_how_much_logits_are_too_bold_and_how_many_labels_are_wrong(
    log_prior, lapse
) -> None:
    logits, _ = _logits(8000, strength=2.5)
    asked = Calibration(2.5, log_prior, lapse).probabilities(logits)
    generator = np.random.default_rng(4)
    breeds = np.array([generator.choice(len(LABELS), p=row) for row in asked])
    fitted = fit_calibration(logits, breeds, log_prior)
    assert (fitted.temperature, fitted.lapse) == (
        pytest.approx(2.5, rel=0.07),
        pytest.approx(lapse, abs=0.015),
    )
    assert scoring.calibration_error(softmax(logits), breeds) > 0.1
    assert scoring.calibration_error(fitted.probabilities(logits), breeds) < 0.03
    assert fit_calibration(logits, breeds, log_prior, largest_lapse=0).lapse == 0


def test_a_lapse_bounds_every_probability_and_keeps_their_order_and_sum() -> None:
    logits = np.array([[20.0, 1.0, 0.0, -1.0, -2.0, -3.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    even, lapsed = (
        Calibration(1.0).probabilities(logits),
        Calibration(1.0, lapse=0.06).probabilities(logits),
    )
    np.testing.assert_allclose(lapsed.sum(-1), 1)
    np.testing.assert_array_equal(np.argsort(lapsed), np.argsort(even))
    np.testing.assert_allclose([lapsed.max(), lapsed.min()], [0.95, 0.01])


def test_what_scores_do_not_state_is_an_equal_prior_and_no_lapse() -> None:
    logits, _ = _logits(5, strength=1.0)
    np.testing.assert_allclose(
        Calibration.of({"temperature": 2.0}, 6).probabilities(logits), softmax(logits / 2)
    )


def test_calibration_error_of_one_bin_is_the_gap_between_said_and_right() -> None:
    assert scoring.calibration_error(
        np.array([[0.8, 0.2]] * 10), np.repeat([0, 1], 5)
    ) == pytest.approx(0.3)


def test_the_dog_threshold_refuses_the_asked_share_of_others_when_the_dogs_allow_it() -> None:
    dogs, others = np.linspace(0.5, 1, 1000), np.linspace(0, 0.3, 1001)
    chosen = decision_fit.dog_threshold(dogs, dogs > 0.7, others)
    assert (others < chosen).mean() == pytest.approx(decision_fit.REFUSED_OTHERS, abs=0.002)
    assert (dogs >= chosen).all()


def test_the_dog_threshold_keeps_the_asked_share_of_dogs_of_either_kind_first() -> None:
    others, whole = np.linspace(0, 1, 1001), np.arange(1502) < 1001
    dogs = np.concatenate([others, np.linspace(0.5, 1, 501)])
    chosen = decision_fit.dog_threshold(dogs, whole, others)
    assert (dogs[whole] >= chosen).mean() == pytest.approx(decision_fit.KEPT_DOGS, abs=0.002)
    assert decision_fit.dog_threshold(dogs, whole, np.zeros(0)) == 0.0


def test_the_report_counts_right_answers_and_names_the_confused() -> None:
    probabilities = np.full((4, 6), 0.02)
    probabilities[[0, 1, 2, 3], [0, 1, 2, 0]] = 0.9
    scores = scoring.report(probabilities, np.array([0, 1, 2, 3]), LABELS, confident=0.5)
    assert scores["top1"] == 0.75
    assert scores["top5"] == 1.0
    assert scores["recall"] == {"n0": 1.0, "n1": 1.0, "n2": 1.0, "n3": 0.0}
    assert scores["confused"] == [{"is": "dhole", "taken_for": "akita", "times": 1}]
    assert (scores["confident_share"], scores["confident_precision"]) == (1.0, 0.75)
