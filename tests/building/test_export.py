"""Export: a version directory that any TensorFlow Serving can load, there whole or not at all, describing itself."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from exported import DESCRIPTION, LABELS, LOG_PRIOR, SIZE, TEMPERATURE, contents_of, export, network
from small_disk import fill, small_disk
from tiny_network import tiny

from backend.building import export as exporting
from backend.building.export import ExportError, export_stored
from backend.cli import main
from backend.evaluation.calibration import MADE_BY
from backend.files import write_json
from backend.fitting.class_statistics import STATISTICS_FILE, ClassStatistics
from backend.fitting.recipes import RECIPES
from backend.networks import architectures
from backend.serving.tensors.signatures import ServableId
from backend.serving.versions import checksums
from backend.serving.versions.servable import Servable
from backend.serving.versions.warmup import RECORDS_FILE, read_records, warm_up


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


@pytest.fixture(scope="module")
def version(versions) -> Path:
    return versions[0]


@pytest.fixture(scope="module")
def signatures(version):
    loaded = tf.saved_model.load(str(version))
    return {**loaded.signatures, "keep_alive": loaded}


IMAGES = tf.constant(np.random.default_rng(3).uniform(size=(5, *SIZE, 3)), tf.float32)


def test_an_export_takes_the_next_number_and_has_the_files_that_tensorflow_serving_looks_for(versions) -> None:
    assert [version.name for version in versions] == ["1", "8"]
    for version in versions:
        files = contents_of(version)
        assert {"saved_model.pb", "variables/variables.index", f"assets.extra/{RECORDS_FILE.name}"} <= set(files)


def test_serving_default_takes_images_and_gives_one_probability_a_class(version) -> None:
    signature = Servable.load(ServableId("tiny", 1), version).signature("serving_default")
    assert signature.method == "tensorflow/serving/predict"
    assert {name: (spec.dtype, spec.shape.as_list()) for name, spec in signature.inputs.items()} == {
        "image": (tf.float32, [None, *SIZE, 3])
    }
    assert {name: (spec.dtype, spec.shape.as_list()) for name, spec in signature.outputs.items()} == {
        "prediction": (tf.float32, [None, 3])
    }


def test_the_probabilities_are_the_softmax_of_the_logits_by_the_temperature_and_the_prior(signatures) -> None:
    logits = network()(IMAGES, training=False)["breeds"].numpy().astype(np.float64) / TEMPERATURE + LOG_PRIOR
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    prediction = signatures["serving_default"](image=IMAGES)["prediction"]
    np.testing.assert_allclose(prediction, expected, atol=1e-6)
    assert np.ptp(expected) > 0.1


def test_scores_adds_the_probability_of_a_dog_and_keeps_the_prediction(signatures) -> None:
    answer = signatures["scores"](image=IMAGES)
    logit = network()(IMAGES, training=False)["dog"].numpy()[:, 0]
    np.testing.assert_allclose(answer["dog"], 1 / (1 + np.exp(-logit)), atol=1e-6)
    np.testing.assert_array_equal(answer["prediction"], signatures["serving_default"](image=IMAGES)["prediction"])


def test_the_description_travels_with_the_version(version) -> None:
    assert json.loads((version / "assets.extra" / "dogsnap.json").read_text(encoding="utf-8")) == DESCRIPTION
    assert Servable.load(ServableId("tiny", 1), version).description.labels == tuple(LABELS)


def test_the_warm_up_requests_are_tensorflow_servings_records_and_run(version) -> None:
    requests = [record.predict_log.request for record in read_records(version / RECORDS_FILE)]
    assert {request.model_spec.signature_name for request in requests} == {"serving_default", "scores"}
    assert {request.model_spec.name for request in requests} == {"tiny"}
    assert warm_up(Servable.load(ServableId("tiny", 1), version)) == 2


def test_an_export_that_fails_half_way_leaves_nothing_to_be_seen(tmp_path, monkeypatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "write_warmup_requests", full_disk)
    with pytest.raises(OSError, match="No space left"):
        export(tmp_path / "tiny")
    assert list((tmp_path / "tiny").iterdir()) == []


@pytest.fixture
def artefacts(tmp_path, monkeypatch) -> Path:
    """What training leaves of a tiny network, by the code that leaves the real one's."""
    monkeypatch.setitem(architectures.ARCHITECTURES, "tiny", tiny)
    recipe = replace(RECIPES["inception_v3"], architecture="tiny", size=SIZE)
    scores = {
        "calibration": {
            "temperature": TEMPERATURE,
            "log_prior": LOG_PRIOR,
            "dog_threshold": 0.4,
            "confident_threshold": 0.6,
        },
        "validation": {"top1": 0.9},
    }
    folder = tmp_path / "stored"
    folder.mkdir()
    architectures.save_stored_weights(network(), "tiny", folder / architectures.STORED_WEIGHTS)
    for name, content in {"labels": LABELS, "scores": scores, "recipe": asdict(recipe)}.items():
        write_json(content, folder / f"{name}.json")
    return folder


def test_the_stored_artefacts_become_a_version_that_answers_as_the_network_did(artefacts, tmp_path) -> None:
    version = export_stored("tiny", artefacts, tmp_path / "models").folder
    assert version == tmp_path / "models" / "tiny" / "1"
    loaded = tf.saved_model.load(str(version))
    expected = network()(IMAGES, training=False)
    answer = loaded.signatures["scores"](image=IMAGES)
    np.testing.assert_allclose(
        answer["prediction"], tf.nn.softmax(expected["breeds"] / TEMPERATURE + LOG_PRIOR), atol=2e-3
    )
    np.testing.assert_allclose(answer["dog"], tf.sigmoid(expected["dog"][:, 0]), atol=2e-3)
    description = json.loads((version / "assets.extra" / "dogsnap.json").read_text(encoding="utf-8"))
    assert description["decision"] == {"dog_threshold": 0.4, "confident_threshold": 0.6}
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
    done = CliRunner().invoke(main, ["export", "tiny", "--out", out])
    assert (done.exit_code, done.output) == (0, f"wrote {out}/tiny/1\n")


def rewrite(file: Path, **more: object) -> None:
    content = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps(content | more), encoding="utf-8")


def test_int8_ranges_are_taken_with_the_weights_that_they_were_found_for_and_refused_with_others(
    artefacts, tmp_path
) -> None:
    weights = checksums.digest(artefacts / architectures.STORED_WEIGHTS)
    rewrite(artefacts / "scores.json", weights=weights)
    rewrite(artefacts / "int8_ranges.json", kernels=[], inputs=[], images=1, weights=weights)
    version = export_stored("tiny", artefacts, tmp_path / "models").folder
    assert "int8_ranges" in json.loads((version / "assets.extra" / "dogsnap.json").read_text(encoding="utf-8"))
    rewrite(artefacts / "int8_ranges.json", weights="f" * 64)
    with pytest.raises(
        ExportError, match=rf"expected the SHA-256 {weights[:12]}, received ffffffffffff; run `dogsnap calib"
    ):
        export_stored("tiny", artefacts, tmp_path / "models")


def test_scores_of_other_weights_are_refused_with_what_to_run(artefacts, tmp_path) -> None:
    rewrite(artefacts / "scores.json", weights="f" * 64)
    with pytest.raises(
        ExportError, match=r"scores.json was made with other weights .*received f{12}; run `dogsnap calib"
    ):
        export_stored("tiny", artefacts, tmp_path / "models")


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
        done = CliRunner().invoke(main, ["export", "tiny", "--from", str(artefacts), "--out", str(disk / "models")])
        assert (done.exit_code, list(disk.glob("models*"))) == (1, [])
    assert "No space left on device" in done.output
    assert "Traceback" not in done.output


@pytest.mark.filterwarnings("ignore:Skipping nested container")  # Keras' own word before its error
@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("labels.json", None, "labels.json does not exist; `dogsnap train` or `dogsnap calibrate` writes it"),
        ("scores.json", "{", "scores.json is no JSON"),
        ("recipe.json", '{"architecture": "alexnet", "size": [16, 16]}', "asks for the architecture 'alexnet'"),
        ("float16.weights.h5", None, "float16.weights.h5 does not exist"),
        ("float16.weights.h5", "no weights", "does not fit the network tiny"),
        ("labels.json", "[{}, {}]", "does not fit the network tiny"),
    ],
)
def test_artefacts_that_do_not_fit_are_refused_by_name(artefacts, tmp_path, file, content, said) -> None:
    (artefacts / file).unlink()
    if content is not None:
        (artefacts / file).write_text(content)
    with pytest.raises((OSError, ValueError), match=said.replace("[", r"\[")):
        export_stored("tiny", artefacts, tmp_path / "models")
    assert not (tmp_path / "models").exists()
    done = CliRunner().invoke(main, ["export", "tiny", "--from", str(artefacts), "--out", str(tmp_path / "models")])
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert done.output.count("\n") == 1
