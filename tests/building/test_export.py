"""Export: a version directory that any TensorFlow Serving can load, there whole or not at all, describing itself."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.exporting.export import STATISTICS_FILE, ExportError, export_stored, read_json
from dogsnap.files import write_json
from dogsnap.networks import architectures
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions import checksums
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.serving.versions.warmup import RECORDS_FILE, read_records, warm_up
from dogsnap.training.class_statistics import ClassStatistics
from lab.calibration import MADE_BY
from support.command_line import dogsnap, refused
from support.exported import (
    DESCRIPTION,
    LABELS,
    LAPSE,
    LOG_PRIOR,
    SIZE,
    TEMPERATURE,
    Loaded,
    contents_of,
    export,
    network,
)
from support.small_disk import fill, small_disk
from support.tiny_network import tiny, tiny_recipe


@pytest.fixture(scope="module")
def versions(tmp_path_factory) -> tuple[Path, Path]:
    """The first export of a model, and one after it."""
    model = tmp_path_factory.mktemp("models") / "tiny"
    first = export(model)
    before = contents_of(first)
    assert [file.name for file in model.iterdir()] == ["1"]
    (model / "7").mkdir()
    (model / "notes").mkdir()
    second = export(model)
    assert contents_of(first) == before
    return first, second


IMAGES = tf.constant(np.random.default_rng(3).uniform(size=(5, *SIZE, 3)), tf.float32)


def test_an_export_takes_the_next_number_and_has_the_files_that_tensorflow_serving_looks_for(
    versions,
) -> None:
    assert [version.name for version in versions] == ["1", "8"]
    for version in versions:
        files = contents_of(version)
        assert {
            "saved_model.pb",
            "variables/variables.index",
            f"assets.extra/{RECORDS_FILE.name}",
        } <= set(files)


def test_a_version_takes_images_describes_itself_and_warms_up_by_tensorflow_servings_records(
    versions,
) -> None:
    version = versions[0]
    servable = LocalServable(ServableId("tiny", 1), version)
    signature = servable.signature("serving_default")
    assert signature.method == "tensorflow/serving/predict"
    for specs, name, shape in (
        (signature.inputs, "image", [None, *SIZE, 3]),
        (signature.outputs, "prediction", [None, 3]),
    ):
        assert {name: (spec.dtype, spec.shape.as_list()) for name, spec in specs.items()} == {
            name: (tf.float32, shape)
        }
    assert (
        json.loads((version / "assets.extra" / "dogsnap.json").read_text(encoding="utf-8"))
        == DESCRIPTION
    )
    assert servable.description.labels == tuple(LABELS)
    requests = [record.predict_log.request for record in read_records(version / RECORDS_FILE)]
    assert {request.model_spec.signature_name for request in requests} == {
        "serving_default",
        "scores",
    }
    assert {request.model_spec.name for request in requests} == {"tiny"}
    assert warm_up(servable) == 2


def test_the_probabilities_are_by_temperature_prior_and_lapse_and_scores_adds_that_of_a_dog(
    versions,
) -> None:
    loaded, logits = Loaded(versions[0]), network()(IMAGES, training=False)
    scaled = np.exp(logits["breeds"].numpy().astype(np.float64) / TEMPERATURE + LOG_PRIOR)
    expected = (1 - LAPSE) * scaled / scaled.sum(axis=1, keepdims=True) + LAPSE / 3
    prediction, scores = (
        loaded.serving_default(image=IMAGES)["prediction"],
        loaded.scores(image=IMAGES),
    )
    np.testing.assert_allclose(prediction, expected, atol=1e-6)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(scores["dog"], 1 / (1 + np.exp(-logits["dog"][:, 0])), atol=1e-6)
    np.testing.assert_array_equal(scores["prediction"], prediction)


@pytest.fixture
def artefacts(tmp_path, monkeypatch) -> Path:
    """What training leaves of a tiny network, by the code that leaves the real one's."""
    monkeypatch.setitem(architectures.ARCHITECTURES, "tiny", tiny)
    folder = tmp_path / "stored"
    folder.mkdir()
    architectures.save_stored_weights(network(), folder / architectures.STORED_WEIGHTS)
    calibration = {
        "temperature": TEMPERATURE,
        "log_prior": LOG_PRIOR,
        "lapse": LAPSE,
        **DESCRIPTION["decision"],
    }
    weights = checksums.digest(folder / architectures.STORED_WEIGHTS)
    scores = {"weights": weights, "calibration": calibration, "validation": {"top1": 0.9}}
    for name, content in {
        "labels": LABELS,
        "scores": scores,
        "recipe": asdict(tiny_recipe()),
    }.items():
        write_json(content, folder / f"{name}.json")
    return folder


def test_the_stored_artefacts_become_a_version_that_answers_as_the_network_did(
    artefacts, tmp_path
) -> None:
    version = export_stored("tiny", artefacts, tmp_path / "models").folder
    assert version == tmp_path / "models" / "tiny" / "1"
    expected, answer = network()(IMAGES, training=False), Loaded(version).scores(image=IMAGES)
    probabilities = (1 - LAPSE) * tf.nn.softmax(
        expected["breeds"] / TEMPERATURE + LOG_PRIOR
    ) + LAPSE / 3
    np.testing.assert_allclose(answer["prediction"], probabilities, atol=2e-3)
    np.testing.assert_allclose(answer["dog"], tf.sigmoid(expected["dog"][:, 0]), atol=2e-3)
    description = json.loads(
        (version / "assets.extra" / "dogsnap.json").read_text(encoding="utf-8")
    )
    assert description["decision"] == DESCRIPTION["decision"]
    assert description["input_size"] == list(SIZE)
    assert description["labels"] == LABELS
    assert description["recipe"]["architecture"] == "tiny"
    assert description["scores"]["validation"] == {"top1": 0.9}


@pytest.mark.parametrize(("stored", "out"), [("mine", "mine"), ("models", "elsewhere")])
def test_the_command_exports_what_is_stored_in_the_models_own_folder_there_or_elsewhere(
    artefacts, tmp_path, monkeypatch, stored, out
) -> None:
    (tmp_path / stored).mkdir()
    artefacts.rename(tmp_path / stored / "tiny")
    monkeypatch.chdir(tmp_path)
    done = dogsnap("export", "tiny", "--out", out)
    assert (done.exit_code, done.output) == (0, f"wrote {out}/tiny/1\n")


def test_int8_ranges_are_taken_with_the_weights_that_they_were_found_for(
    artefacts, tmp_path
) -> None:
    weights = checksums.digest(artefacts / architectures.STORED_WEIGHTS)
    write_json(
        {"kernels": [], "inputs": [], "images": 1, "weights": weights},
        artefacts / "int8_ranges.json",
    )
    version = export_stored("tiny", artefacts, tmp_path / "models").folder
    assert "int8_ranges" in json.loads(
        (version / "assets.extra" / "dogsnap.json").read_text(encoding="utf-8")
    )


def test_the_stored_files_of_the_real_network_are_of_one_training() -> None:
    folder = Path(__file__).parents[2] / "models" / "inception_v3"
    weights = checksums.digest(folder / architectures.STORED_WEIGHTS)
    for name in ("scores.json", "int8_ranges.json"):
        stored = json.loads((folder / name).read_text(encoding="utf-8"))
        assert (stored["weights"], stored["made_by"]) == (weights, MADE_BY)
    with np.load(folder / STATISTICS_FILE) as statistics:
        assert str(statistics["made_by"]) == MADE_BY
    assert ClassStatistics.load(folder / STATISTICS_FILE, 120, 2048, weights)


def test_a_full_disk_is_one_sentence_and_leaves_no_part_of_a_version(artefacts, tmp_path) -> None:
    with small_disk(tmp_path / "disk", "200k") as disk:
        fill(disk)
        done = dogsnap("export", "tiny", "--from", artefacts, "--out", disk / "models")
        assert not list(disk.glob("models*"))
    refused(done, "No space left on device")


def test_a_file_that_no_training_writes_is_missing_without_a_word_about_training(tmp_path) -> None:
    with pytest.raises(ExportError, match=r"facts\.json does not exist\Z"):
        read_json(tmp_path / "facts.json")


OTHER_WEIGHTS = f'{{"weights": "{"f" * 64}"}}'


@pytest.mark.filterwarnings("ignore:Skipping nested container")  # Keras' own word before its error
@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (
            "labels.json",
            None,
            "labels.json does not exist; `python -m lab train` or `python -m lab calibrate` writes it",
        ),
        ("scores.json", "{}", "scores.json has no calibration; expected what `dogsnap train`"),
        ("scores.json", "{", "scores.json is no JSON"),
        (
            "recipe.json",
            '{"architecture": "alexnet", "size": [16, 16]}',
            "asks for the architecture 'alexnet'",
        ),
        ("float16.weights.h5", None, "float16.weights.h5 does not exist"),
        ("float16.weights.h5", "no weights", "does not fit the network tiny"),
        ("labels.json", "[{}, {}]", "does not fit the network tiny"),
        (
            "scores.json",
            json.dumps({**json.loads(OTHER_WEIGHTS), "calibration": {}}),
            r"scores.json was made with other weights .*received f{12}; run `python -m lab calib",
        ),
        (
            "int8_ranges.json",
            OTHER_WEIGHTS,
            "expected the SHA-256 .*, received ffffffffffff; run `python -m lab calibrate",
        ),
    ],
)
def test_artefacts_that_do_not_fit_are_refused_by_name(
    artefacts, tmp_path, file, content, said
) -> None:
    if content is None:
        (artefacts / file).unlink()
    else:
        (artefacts / file).write_text(content)
    with pytest.raises((OSError, ValueError), match=said.replace("[", r"\[")):
        export_stored("tiny", artefacts, tmp_path / "models")
    assert not (tmp_path / "models").exists()
    done = dogsnap("export", "tiny", "--from", artefacts, "--out", tmp_path / "models")
    refused(done, "Error: ")
    assert done.output.count("\n") == 1
