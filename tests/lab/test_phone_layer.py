"""The last layer of the network on phones, and what tells dogs there: fitted on features alone."""

from pathlib import Path

import keras
import numpy as np
import pytest
from dogsnap.networks.temperature import softmax
from lab import phone
from support.tiny_network import BESIDE_FEATURES, beside

RANDOM = np.random.default_rng(9)


def test_a_last_layer_is_fitted_from_what_it_is_on() -> None:
    breeds = RANDOM.integers(0, 3, 600)
    means = RANDOM.normal(0, 1, (3, 12))
    features = (means[breeds] + RANDOM.normal(0, 0.5, (600, 12))).astype(np.float32)
    start = RANDOM.normal(0, 0.3, (12, 3)).astype(np.float32), np.zeros(3, np.float32)
    kernel, bias = phone.fit_last_layer(features, breeds, *start)
    right = [((features @ k + b).argmax(1) == breeds).mean() for k, b in (start, (kernel, bias))]
    assert right[1] > right[0]
    assert np.abs(kernel - start[0]).max() < 0.5  # it may only change what pays


def test_what_all_breeds_share_tells_dogs_and_leaves_their_probabilities() -> None:
    is_dog = np.arange(400) < 200
    features = RANDOM.normal(0, 1, (400, 100)).astype(np.float32)
    features[:, :80] += 2 * is_dog[:, np.newaxis]  # no breed looks at these
    kernel = RANDOM.normal(0, 0.1, (100, 3)) * (np.arange(100) >= 80)[:, np.newaxis]
    logits = features @ kernel
    head, told = phone.fit_dogs(features, logits.max(-1), is_dog, np.arange(400) % 5)
    assert ((told > 0.5) == is_dog).mean() > 0.9
    shared = features @ (kernel + head.weights[:, np.newaxis])
    assert ((shared.max(-1) + head.bias > 0) == is_dog).mean() > 0.9
    np.testing.assert_allclose(softmax(shared), softmax(logits), atol=1e-6)


def test_photos_that_were_looked_at_before_an_interruption_are_not_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[bytes]] = []

    def run(_: Path, photos: list[bytes], parts: object) -> np.ndarray:
        asked.append(photos)
        if len(asked) == 2:
            raise OSError("the disk is full")
        return np.full((len(photos), BESIDE_FEATURES), len(asked))

    monkeypatch.setattr(phone, "run", run)
    monkeypatch.setattr(phone, "CHUNK", 2)
    keras.utils.set_random_seed(1)
    network = beside(5)
    with pytest.raises(OSError, match="full"):
        phone.look(network, [b"one", b"two", b"three"], tmp_path)
    features = phone.look(network, [b"one", b"two", b"three"], tmp_path)
    assert asked == [[b"one", b"two"], [b"three"], [b"three"]]
    assert features[:, 0].tolist() == [1, 1, 3]
