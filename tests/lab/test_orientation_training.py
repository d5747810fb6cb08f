"""`python -m lab train orientation`: the head that tells which way is up, trained, stored, and going on where it stopped."""

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
from dogsnap.exporting import SECOND_OPINION
from dogsnap.files import write_json
from dogsnap.networks import orientation, second_opinion
from dogsnap.networks.efficientnet_lite import efficientnet_lite0
from dogsnap.serving.photos.photo import ORIENTATION
from dogsnap.serving.versions import checksums
from lab.recipes import INCEPTION_V3
from PIL import Image
from support.command_line import lab, output_of, refused
from support.exported import LABELS
from support.photos import make_data_set, make_frames
from support.tiny_network import store_beside

SKY, GROUND = (220, 230, 240), (20, 40, 20)


@pytest.fixture(autouse=True)
def networks(monkeypatch):
    monkeypatch.setitem(second_opinion.NETWORKS, "beside", partial(efficientnet_lite0, side=64))


@pytest.fixture
def stored(tmp_path) -> Path:
    """A network beside with random weights, so large that its maps tell light from dark."""
    folder = tmp_path / "stored"
    folder.mkdir()
    keras.utils.set_random_seed(5)
    recipe = asdict(replace(INCEPTION_V3, validation_per_breed=4))
    for name, content in (("recipe", recipe), ("labels", LABELS)):
        write_json(content, folder / f"{name}.json")
    network = efficientnet_lite0(5, 64)
    network.set_weights([3 * weights for weights in network.get_weights()])
    store_beside(network, folder, weights="a" * 64)
    return folder


@pytest.fixture
def sources(tmp_path) -> list[object]:
    """Whole pictures of a sky above a ground."""
    data = make_data_set(tmp_path / "dogs", per_breed=12)
    frames = make_frames(data, tmp_path / "frames")
    for file in (frames / "images").rglob("*.png"):
        pixels = np.full((96, 96, 3), SKY, np.uint8)
        pixels[48:] = GROUND
        Image.fromarray(pixels).save(file)
    return ["--data", data, "--frames", frames]


def test_it_learns_which_way_is_up_and_goes_on_with_the_maps_that_it_has(stored, sources, tmp_path):
    work = tmp_path / "work"
    command = ["train", "orientation", *sources, "--out", stored, "--work", work]
    said = output_of(lab(*command, "--pictures", "24", "--epochs", "20"))
    stated = json.loads((stored / SECOND_OPINION).read_text())[ORIENTATION]
    assert stated["sha256"] == checksums.digest(stored / orientation.WEIGHTS)
    assert (stated["pictures"], stated["validation"]["photos"]) == (24, 12)
    assert stated["validation"]["upright"] > 0.9
    assert stated["validation"]["turned"] > 0.9
    assert "upright" in said
    (file,) = work.glob("*/*")  # of maps
    written = file.stat().st_mtime_ns
    output_of(lab(*command, "--pictures", "24", "--epochs", "1"))
    assert file.stat().st_mtime_ns == written


def test_without_a_whole_picture_it_is_refused_before_the_work(stored, sources, tmp_path):
    data, frames = sources[1], sources[3]
    (frames / "boxes.tsv").write_text("photo\tx0\ty0\tx1\ty1\n")
    work = tmp_path / "work"
    command = ["--data", data, "--frames", frames, "--out", stored, "--work", work]
    assert "see --frames" in refused(lab("train", "orientation", *command))
    assert not work.exists()
