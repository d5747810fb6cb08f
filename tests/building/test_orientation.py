"""The head that tells which way is up: what it adds to the version that answers the app."""

import json
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from dogsnap.exporting import SECOND_OPINION
from dogsnap.exporting.export import ExportError, read_answering
from dogsnap.exporting.merging.merge import Options, merge
from dogsnap.files import write_json
from dogsnap.networks import architectures, orientation, second_opinion
from dogsnap.networks.efficientnet_lite import efficientnet_lite0
from dogsnap.networks.halves import write_halves
from dogsnap.serving.photos.photo import ORIENTATION
from dogsnap.serving.versions import checksums
from support.exported import SIZE, Loaded, store
from support.spotting import photo
from support.tiny_network import store_beside, tiny

SIDE = 64
IMAGES = tf.constant(np.random.default_rng(4).uniform(size=(3, *SIZE, 3)), tf.float32)


@pytest.fixture(autouse=True)
def networks(monkeypatch):
    monkeypatch.setitem(architectures.ARCHITECTURES, "tiny", tiny)
    monkeypatch.setitem(second_opinion.NETWORKS, "beside", partial(efficientnet_lite0, side=SIDE))


@pytest.fixture
def beside() -> keras.Model:
    keras.utils.set_random_seed(7)
    return efficientnet_lite0(5, SIDE)


@pytest.fixture
def artefacts(beside, tmp_path) -> Path:
    """A first network, the one beside it, and a head on its maps."""
    folder = tmp_path / "stored" / "tiny"
    calibration = {"temperature": 1.0, "dog_threshold": 0.0, "confident_threshold": 0.9}
    weights = store(folder, {"calibration": calibration})
    head = {"weights": write_halves(np.zeros(17)), "bias": 0.0}
    architectures.save_stored_weights(orientation.head_for(beside), folder / orientation.WEIGHTS)
    store_beside(
        beside,
        folder,
        weights=weights,
        scores={"calibration": calibration, "dog_head": head},
        int8_ranges={"kernels": [], "inputs": [], "images": 1, "weights": weights},
        orientation={"sha256": checksums.digest(folder / orientation.WEIGHTS)},
    )
    return folder


def test_the_version_tells_how_probably_each_turn_sets_a_picture_upright(artefacts, tmp_path):
    stored = read_answering("tiny", artefacts)
    source = stored.export(tmp_path / "models" / "tiny")
    told = Loaded(source.folder).scores(image=IMAGES)[ORIENTATION].numpy()
    assert told.shape == (3, 4)
    np.testing.assert_allclose(told.sum(axis=1), 1, atol=1e-5)
    opinion = stored.opinion
    whole = orientation.with_orientation(opinion.network, opinion.orientation)
    expected = whole(tf.image.resize(IMAGES, (SIDE, SIDE)))[ORIENTATION]
    np.testing.assert_allclose(told, expected, atol=5e-3)
    merged = merge(source.folder, Options())
    answer = Loaded(merged).signatures["scores"](tf.constant([photo([], (40, 40))]))
    assert answer[ORIENTATION].shape == (1, 4)


def test_a_head_that_is_not_the_described_one_is_refused(artefacts):
    stated = json.loads((artefacts / SECOND_OPINION).read_text())
    stated[ORIENTATION]["sha256"] = "f" * 64
    write_json(stated, artefacts / SECOND_OPINION)
    with pytest.raises(ExportError, match=r"orientation\S+ is another network than"):
        read_answering("tiny", artefacts)


def test_without_a_head_nothing_is_told(artefacts, tmp_path):
    stated = json.loads((artefacts / SECOND_OPINION).read_text())
    del stated[ORIENTATION]
    write_json(stated, artefacts / SECOND_OPINION)
    version = read_answering("tiny", artefacts).export(tmp_path / "models" / "tiny").folder
    assert ORIENTATION not in Loaded(version).scores(image=IMAGES)
