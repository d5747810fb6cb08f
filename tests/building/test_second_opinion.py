"""The network beside the first one: what it adds to the version that answers the app, and to no other."""

import json
from pathlib import Path

import keras
import numpy as np
import openvino
import pytest
import tensorflow as tf
from dogsnap.exporting import SECOND_OPINION, TAUGHT, phone
from dogsnap.exporting.export import (
    ExportError,
    export_stored,
    read_answering,
)
from dogsnap.files import write_json
from dogsnap.networks import architectures, dogs_head, second_opinion
from dogsnap.networks.dog_score import DogHead
from dogsnap.networks.efficientnet_lite import efficientnet_lite0
from dogsnap.networks.every_dog import CELLS
from dogsnap.networks.halves import write_halves
from dogsnap.networks.second_opinion import SecondOpinion
from dogsnap.serving.versions import checksums
from dogsnap.serving.versions.description import Description
from dogsnap.serving.versions.phone_files import DESCRIPTION, FOLDER
from lab.phone import PhoneNetwork
from support.colour_photos import encode, plain
from support.exported import LABELS, SIZE, Loaded, network, store
from support.tiny_network import BESIDE_FEATURES, beside, store_beside, tiny, tiny_with_box

CLASSES = [4, 0, 2]  # of the five of the network beside, the breeds
DOGS = [1]
WEIGHT = 0.5
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}
IMAGES = tf.constant(np.random.default_rng(3).uniform(size=(5, *SIZE, 3)), tf.float32)
RANDOM = np.random.default_rng(5)
HEAD = RANDOM.normal(0, 1, 17)  # on 16 features of the first network, and the odds of a dog
ROW = RANDOM.normal(0, 1, BESIDE_FEATURES)


def described(head: np.ndarray) -> dict:
    calibration = {"temperature": 1.0, "dog_threshold": 0.0, "confident_threshold": 0.9}
    return {
        "calibration": calibration,
        "dog_head": {"weights": write_halves(head), "bias": 0.25},
    }


@pytest.fixture(autouse=True)
def networks(monkeypatch):
    monkeypatch.setitem(architectures.ARCHITECTURES, "tiny", tiny)
    monkeypatch.setitem(second_opinion.NETWORKS, "beside", beside)


@pytest.fixture
def own() -> keras.Model:
    """The network beside, with weights as they are stored."""
    keras.utils.set_random_seed(11)
    model = beside(5)
    for layer in model.layers:
        layer.set_weights([np.float16(each).astype(np.float32) for each in layer.get_weights()])
    kernel, bias = model.get_layer("logits").get_weights()
    model.get_layer("logits").set_weights([np.float16(4 * kernel).astype(np.float32), bias])
    return model


@pytest.fixture
def artefacts(own, tmp_path) -> Path:
    """Both networks as they are stored."""
    folder = tmp_path / "stored" / "tiny"
    weights = store(folder, described(HEAD[:16]))
    store_beside(
        own,
        folder,
        weights=weights,
        scores=described(HEAD),
        int8_ranges={"kernels": [], "inputs": [], "images": 1, "weights": weights},
    )
    return folder


def teach(artefacts: Path) -> None:
    """Two further breeds: one that the network beside knows, too, and one that it does not."""
    stated = json.loads((artefacts / SECOND_OPINION).read_text())
    rows = []
    for number, opinion in enumerate([None, {"weights": write_halves(ROW), "bias": 0.5}]):
        names = {"id": f"new_{number}", "name": f"new {number}", "name_zh": ""}
        row = {"weights": write_halves(RANDOM.normal(0, 1, 16)), "bias": 0.1, "facts": {}}
        rows.append({**names, **row, **({"opinion": opinion} if opinion else {})})
    write_json(
        {
            "weights": stated["weights"],
            "second_opinion": stated["network"]["sha256"],
            "taught": rows,
            "groups": [],
            "scores": described(HEAD),
        },
        artefacts / TAUGHT,
    )


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


def answers_of_both(own: keras.Model, taught: Path) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and logits of a dog by plain arithmetic."""
    first = network()
    inner = keras.Model(first.input, first.get_layer("features").output)
    features = inner(IMAGES).numpy().astype(np.float64)
    kernel, bias = first.get_layer("breeds").get_weights()
    told = own(tf.image.resize(IMAGES, (8, 8)))
    logits, seen = told["logits"].numpy().astype(np.float64), told["features"].numpy()
    known = logits[:, CLASSES]
    if taught.is_file():
        rows = json.loads(taught.read_text())["taught"]
        for row in rows:
            weights = second_opinion.read_halves(row["weights"])
            kernel, bias = np.column_stack([kernel, weights]), np.append(bias, row["bias"])
        of_row = seen @ np.float16(ROW).astype(np.float32) + 0.5
        shares = log_softmax(np.column_stack([known, of_row]))
        opinion = np.column_stack([shares[:, :3], np.full(len(shares), -np.log(5)), shares[:, 3]])
    else:
        opinion = log_softmax(known)
    alone = features @ kernel + bias
    breeds = alone + WEIGHT * opinion
    others = np.setdiff1d(np.arange(5), [*CLASSES, *DOGS])
    odds = np.logaddexp.reduce(logits[:, [*CLASSES, *DOGS]], axis=1)
    odds -= np.logaddexp.reduce(logits[:, others], axis=1)
    dog = np.column_stack([features, odds]) @ np.float16(HEAD).astype(np.float64) + 0.25
    return np.exp(log_softmax(breeds)), dog + alone.max(axis=1)


@pytest.mark.parametrize("is_taught", [False, True])
def test_the_answering_version_adds_the_log_probabilities_and_the_odds_of_a_dog(
    artefacts, own, tmp_path, is_taught
):
    if is_taught:
        teach(artefacts)
    version = read_answering("tiny", artefacts).export(tmp_path / "models" / "tiny").folder
    answer = Loaded(version).scores(image=IMAGES)
    probabilities, dog = answers_of_both(own, artefacts / TAUGHT)
    np.testing.assert_allclose(answer["prediction"], probabilities, atol=5e-3)
    np.testing.assert_allclose(answer["dog"], 1 / (1 + np.exp(-dog)), atol=5e-3)
    stated = Description.read(version).raw["second_opinion"]
    digest = checksums.digest(artefacts / second_opinion.WEIGHTS)
    assert (stated["architecture"], stated["weight"], stated["sha256"]) == ("beside", 0.5, digest)


def test_a_network_with_a_head_that_finds_every_dog_gives_its_boxes_beside_both_opinions(own):
    model = tiny_with_box(3)
    head = dogs_head.head_for(model, 4)
    both = SecondOpinion(own, CLASSES, DOGS, WEIGHT)
    whole = dogs_head.with_dogs(second_opinion.with_features(model), head)
    answering = both.add_to(whole, DogHead(HEAD.astype(np.float32), 0.25))
    images = tf.random.stateless_uniform((2, 32, 32, 3), (1, 2))
    answer = answering(images)
    alone = dogs_head.with_dogs(model, head)(images)
    assert set(answer) == set(alone)
    np.testing.assert_allclose(answer[CELLS], alone[CELLS], atol=1e-6)
    told = own(tf.image.resize(images, (8, 8)))["logits"].numpy()
    added = WEIGHT * log_softmax(told[:, CLASSES])
    np.testing.assert_allclose(answer["breeds"], alone["breeds"] + added, atol=1e-5)


def test_the_other_versions_are_the_first_network_alone(artefacts, tmp_path):
    with_both = export_stored("tiny", artefacts, tmp_path / "models").folder
    (artefacts / SECOND_OPINION).unlink()
    alone = export_stored("tiny", artefacts, tmp_path / "others").folder
    first, second = (Loaded(version).scores(image=IMAGES) for version in (with_both, alone))
    for name in ("prediction", "dog"):
        np.testing.assert_array_equal(first[name], second[name])
    assert Description.read(with_both).raw == Description.read(alone).raw


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda stated: stated.update(weights="f" * 64), "was made with other weights"),
        (lambda stated: stated["network"].update(sha256="f" * 64), "is another network than"),
    ],
)
def test_an_opinion_of_other_weights_is_refused(artefacts, tmp_path, change, said):
    stated = json.loads((artefacts / SECOND_OPINION).read_text())
    change(stated)
    write_json(stated, artefacts / SECOND_OPINION)
    with pytest.raises(ExportError, match=said):
        read_answering("tiny", artefacts).export(tmp_path / "models" / "tiny")


def test_breeds_that_were_fitted_beside_another_network_are_refused(artefacts, tmp_path):
    teach(artefacts)
    kept = json.loads((artefacts / TAUGHT).read_text())
    write_json({**kept, "second_opinion": "f" * 64}, artefacts / TAUGHT)
    with pytest.raises(ExportError, match=r"taught\.json was made with"):
        read_answering("tiny", artefacts).export(tmp_path / "models" / "tiny")


def fit_phone(artefacts: Path, network: str) -> None:
    """What `python -m lab calibrate --phone` writes."""
    levels = {"group_threshold": 0.9, "set_threshold": 0.1, "unknown_threshold": 1.0}
    calibration = {"temperature": 1.5, "lapse": 0.1, "log_prior": [0.1, 0.2, 0.3, 0.4]}
    groups = {"groups": [[LABELS[0]["id"], LABELS[2]["id"]]]}
    thresholds = {"dog_threshold": 0.4, "confident_threshold": 0.9, **levels}
    fitted = {
        "network": network,
        "parts": [1.0, 0.8],
        "calibration": {**calibration, **thresholds, **groups},
    }
    write_json({**fitted, "dog_bias": -1.0}, artefacts / phone.FITTED)


def test_a_version_carries_the_network_beside_for_phones(artefacts, own, tmp_path):
    teach(artefacts)  # two breeds, of which the network beside knows one
    stated = json.loads((artefacts / SECOND_OPINION).read_text())
    fit_phone(artefacts, stated["network"]["sha256"])
    version = tmp_path / "3"
    (version / "assets.extra").mkdir(parents=True)
    phone.write(version, read_answering("tiny", artefacts), artefacts)
    folder = version / FOLDER
    told = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    assert [label["id"] for label in told["labels"]] == [
        *(label["id"] for label in LABELS),
        "new_1",
    ]
    assert (told["side"], told["temperature"], told["lapse"]) == (8, 1.5, 0.1)
    assert (told["dog_bias"], told["parts"]) == (-1.0, [1.0, 0.8])
    assert told["decision"]["dog_threshold"] == 0.4
    assert told["groups"][0]["name"] == "red hound or blue spaniel"
    sizes = {name: (folder / name).stat().st_size for name in told["files"]}
    assert sizes == {name: file["bytes"] for name, file in told["files"].items()}
    network = openvino.Core().compile_model(str(folder / phone.ONNX), "CPU", EXACT)
    image = np.random.default_rng(2).uniform(size=(1, 8, 8, 3)).astype(np.float32)
    answer = own(image)
    features, logits = answer["features"].numpy()[0], answer["logits"].numpy()[0]
    row = features @ np.float16(ROW).astype(np.float32) + 0.5
    np.testing.assert_allclose(network(image)[0][0], [*logits[CLASSES], row], atol=0.05)
    checksums.verify(version)
    again = tmp_path / "4"
    (again / "assets.extra").mkdir(parents=True)
    phone.write(again, read_answering("tiny", artefacts), artefacts)
    second = json.loads((again / FOLDER / DESCRIPTION).read_text(encoding="utf-8"))
    assert second["digest"] == told["digest"]  # no phone fetches it twice


def test_a_network_that_was_fitted_before_there_were_parts_looks_at_the_whole_photo(
    artefacts, tmp_path
):
    teach(artefacts)
    fit_phone(artefacts, json.loads((artefacts / SECOND_OPINION).read_text())["network"]["sha256"])
    fitted = json.loads((artefacts / phone.FITTED).read_text(encoding="utf-8"))
    del fitted["parts"]
    write_json(fitted, artefacts / phone.FITTED)
    (tmp_path / "3" / "assets.extra").mkdir(parents=True)
    phone.write(tmp_path / "3", read_answering("tiny", artefacts), artefacts)
    file = tmp_path / "3" / FOLDER / DESCRIPTION
    told = json.loads(file.read_text(encoding="utf-8"))
    assert told.pop("parts") == [1.0]
    photo = encode(plain(), "PNG")
    now = PhoneNetwork(tmp_path / "3").answers([photo])
    write_json(told, file)  # as such a version has it
    before = PhoneNetwork(tmp_path / "3").answers([photo])
    np.testing.assert_array_equal(before[0], now[0])


def test_on_phones_a_last_layer_of_its_own_answers(artefacts, own, tmp_path):
    teach(artefacts)
    fit_phone(artefacts, json.loads((artefacts / SECOND_OPINION).read_text())["network"]["sha256"])
    fitted = json.loads((artefacts / phone.FITTED).read_text(encoding="utf-8"))
    kernel = RANDOM.normal(0, 1, (BESIDE_FEATURES, 4)).astype(np.float16).astype(np.float32)
    bias = [0.1, 0.2, 0.3, 0.4]
    layer = {"kernel": write_halves(kernel), "bias": bias}
    write_json({**fitted, **layer}, artefacts / phone.FITTED)
    (tmp_path / "3" / "assets.extra").mkdir(parents=True)
    phone.write(tmp_path / "3", read_answering("tiny", artefacts), artefacts)
    file = tmp_path / "3" / FOLDER / phone.ONNX
    image = np.random.default_rng(2).uniform(size=(1, 8, 8, 3)).astype(np.float32)
    told = openvino.Core().compile_model(str(file), "CPU", EXACT)(image)[0][0]
    np.testing.assert_allclose(told, own(image)["features"].numpy()[0] @ kernel + bias, atol=0.05)


def test_what_was_fitted_for_other_breeds_is_not_for_phones(artefacts, tmp_path):
    """The artefacts know three, and what was fitted four."""
    fit_phone(artefacts, json.loads((artefacts / SECOND_OPINION).read_text())["network"]["sha256"])
    with pytest.raises(ExportError, match="was fitted for 4 breeds, expected 3, as the network"):
        phone.write(tmp_path, read_answering("tiny", artefacts), artefacts)


def test_what_was_fitted_to_another_network_is_not_for_phones(artefacts, tmp_path):
    fit_phone(artefacts, "f" * 64)
    with pytest.raises(ExportError, match=r"phone\.json was made with other"):
        phone.write(tmp_path, read_answering("tiny", artefacts), artefacts)


def test_efficientnet_lite0_has_the_shape_that_its_authors_publish():
    model = efficientnet_lite0(1000)
    convolutions = sum(1 for layer in model.layers if "Conv" in type(layer).__name__)
    # 4,652,008 with batch normalization, whose scale and offset the kernels and biases hold
    assert (convolutions, model.count_params()) == (49, 4_631_000)
    assert model.output["features"].shape == (None, 1280)
    assert model.get_layer("stage5_block3_sum").output.shape == (None, 14, 14, 112)
