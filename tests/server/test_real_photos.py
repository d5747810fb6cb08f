"""The whole way with real photos: real dogs over HTTP to the real network, and versions 1 and 2 side by side."""

import io
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from dogsnap.exporting.acceleration import TOLERANCES
from dogsnap.serving.versions import openvino_runtime
from PIL import Image
from support.real_model import built_models

pytestmark = pytest.mark.early


def _test_list(data_dir: Path, every: int = 1) -> list[Path]:
    lines = (data_dir / "stanford_dogs" / "test_list.txt").read_text(encoding="utf-8").split()
    return [data_dir / "stanford_dogs" / "images" / line for line in lines[::every]]


def _answer(server, photo: Path | bytes, **fields: object) -> dict:
    response = server.classify(photo if isinstance(photo, bytes) else photo.read_bytes(), **fields)
    assert response.status_code == 200, response.text
    return response.json()


def _top1(server, photos: Iterable[Path], **fields: object) -> float:
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(lambda photo: (photo, _answer(server, photo, top_k=1, **fields)), photos)
        )
    return float(
        np.mean(
            [
                answer["breeds"][0]["id"] == photo.parent.name.split("-")[0]
                for photo, answer in answers
            ]
        )
    )


def test_real_dogs_get_their_breed(app_server, data_dir: Path) -> None:
    assert _top1(app_server, _test_list(data_dir, every=48)) >= 0.8


@pytest.mark.long
@pytest.mark.parametrize("version", [2, 3])
def test_at_least_80_percent_of_a_third_of_the_test_list_get_their_breed(
    app_server, data_dir: Path, version
) -> None:
    (model,) = app_server.get("/api/models").json()["models"]
    if version not in [each["version"] for each in model["versions"]]:
        pytest.skip(
            f"version {version} is not there: this processor multiplies no faster in bfloat16"
        )
    share = _top1(app_server, _test_list(data_dir, every=3), version=version)
    print(f"top-1 over HTTP on a third of the test list, version {version}: {share:.2%}")
    assert share >= 0.8


def test_versions_1_and_2_answer_at_the_same_time_and_agree(app_server, data_dir: Path) -> None:
    photos = _test_list(data_dir, every=72)
    with ThreadPoolExecutor(4) as pool:
        ask = partial(_answer, app_server, top_k=120)
        first, second = (pool.map(partial(ask, version=version), photos) for version in (1, 2))
        pairs = list(zip(first, second, strict=True))
    assert {(a["model"]["version"], b["model"]["version"]) for a, b in pairs} == {(1, 2)}
    assert np.mean([a["breeds"][0]["id"] == b["breeds"][0]["id"] for a, b in pairs]) >= 0.97
    likely = [
        [{each["id"]: each["probability"] for each in answer["breeds"]} for answer in pair]
        for pair in pairs
    ]
    gaps = [
        abs(one[wnid] - probability) for one, two in likely for wnid, probability in two.items()
    ]
    assert np.mean(gaps) <= 0.001


def test_a_photo_without_a_dog_is_called_no_dog_and_a_dog_a_dog(app_server, data_dir: Path) -> None:
    others = sorted((data_dir / "not_dogs" / "images").glob("*.jpg"))[1::20]
    assert np.mean([not _answer(app_server, photo)["dog"] for photo in others]) >= 0.85
    dogs = _test_list(data_dir, every=66)
    assert np.mean([_answer(app_server, photo)["dog"] for photo in dogs]) >= 0.9


@pytest.mark.long
def test_of_two_dogs_side_by_side_the_box_mostly_shows_one(app_server, data_dir: Path) -> None:
    dogs = [
        Image.open(path).convert("RGB").resize((320, 320))
        for path in _test_list(data_dir, every=72)
    ]
    shares = []
    for left, right in pairwise(dogs):
        both = Image.new("RGB", (640, 320))
        both.paste(left, (0, 0))
        both.paste(right, (320, 0))
        file = io.BytesIO()
        both.save(file, "PNG")
        begin, _, end, _ = _answer(app_server, file.getvalue())["box"]
        shares.append(max(min(end, 0.5) - begin, end - max(begin, 0.5)) / (end - begin))
    print(f"pairs whose box is of one dog: {sum(share > 0.8 for share in shares)} of {len(shares)}")
    assert np.mean([share > 0.8 for share in shares]) >= 0.5


def test_the_server_shows_which_runtime_runs_the_real_network(app_server):
    """A version has no network for OpenVINO if its export measured that this is hardly faster than TensorFlow."""
    (model,) = app_server.get("/api/models").json()["models"]
    for version in model["versions"]:
        brings_network = (
            built_models() / model["name"] / str(version["version"]) / openvino_runtime.FOLDER
        ).is_dir()
        runtime = version["runtime"]
        assert runtime["name"] == ("openvino" if brings_network else "tensorflow")
        if brings_network:
            assert runtime["speedup"] > 1
            assert runtime["largest_difference"] < TOLERANCES[runtime["precision"]]
