"""The models folder is what a stock TensorFlow Serving takes: its versions, labels and warm-up records."""

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.serving.versions.version_folders import version_folders
from dogsnap.serving.versions.warmup import MAX_RECORDS, RECORDS_FILE, read_records
from google.protobuf import text_format
from support.real_model import ROOT, built_models
from tensorflow_serving.config import model_server_config_pb2

DEPLOY = ROOT / "backend" / "deploy"
SCRIPT = Path(__file__).parents[1] / "support" / "plain_tensorflow.py"


class Ran:
    """What a process that has TensorFlow alone did with the versions of a model folder."""

    def __init__(self, model: Path, empty: Path, loaders: str):
        self.versions = {str(number): folder for number, folder in version_folders(model).items()}
        shutil.copy(SCRIPT, empty)
        # -S: no site-packages, and with them nothing that leads to this project; TensorFlow's folder is named by itself.
        command = [
            sys.executable,
            "-I",
            "-S",
            SCRIPT.name,
            sysconfig.get_path("purelib"),
            "answers.npz",
            loaders,
        ]
        command += map(str, self.versions.values())
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=empty, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        self.runs = json.loads(done.stdout)
        self._answers = dict(np.load(empty / "answers.npz"))

    def answers(self, version: str, number: int) -> dict[str, np.ndarray]:
        """The outputs of one run, by alias."""
        prefix = f"{version}/{number}/"
        return {
            name.removeprefix(prefix): self._answers[name]
            for name in self._answers
            if name.startswith(prefix)
        }


@pytest.fixture(scope="module")
def tiny(colour_models, tmp_path_factory) -> Ran:
    return Ran(colour_models / "inception_v3", tmp_path_factory.mktemp("empty"), "both")


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Ran:
    return Ran(built_models() / "inception_v3", tmp_path_factory.mktemp("empty"), "session")


@pytest.fixture(params=["tiny", pytest.param("real", marks=pytest.mark.long)])
def ran(request) -> Ran:
    return request.getfixturevalue(request.param)


def test_each_version_runs_its_warm_up_records_with_tensorflow_alone_with_a_row_for_each_row_asked(
    ran,
) -> None:
    assert {"1", "2"} <= set(ran.versions) == set(ran.runs)
    for version, folder in ran.versions.items():
        signatures = set(LocalServable(ServableId("m", int(version)), folder).signatures) - {
            "keep_alive"
        }
        assert {run["signature"] for run in ran.runs[version]} == signatures
        assert (
            1 <= len(list(read_records(folder / RECORDS_FILE))) <= MAX_RECORDS
        )  # as many as TensorFlow Serving takes
        for run in ran.runs[version]:  # else it could not batch
            assert {shape[0] for shape in run["shapes"].values()} == {run["rows"]}, run


def test_two_rows_in_one_batch_get_the_answers_that_each_gets_by_itself(ran) -> None:
    for version, runs in ran.runs.items():
        for number, run in enumerate(runs[1:], start=1):
            if run["rows"] == 2 * runs[number - 1]["rows"]:
                twice = ran.answers(version, number)
                for alias, alone in ran.answers(version, number - 1).items():
                    same(twice[alias], np.concatenate([alone, alone]))


def test_both_of_tensorflows_loaders_give_the_same_answers(tiny) -> None:
    for version, runs in tiny.runs.items():
        assert [run["loader"] for run in runs] == ["session", "session", "tensorflow 2"] * (
            len(runs) // 3
        )
        for number in range(0, len(runs), 3):
            first, other = tiny.answers(version, number), tiny.answers(version, number + 2)
            assert first.keys() == other.keys()
            for alias, expected in first.items():
                same(other[alias], expected)


def same(received: np.ndarray, expected: np.ndarray) -> None:
    """Within what multiplying in bfloat16 leaves of float32 when the batch is another; names are equal."""
    if expected.dtype.kind == "S":
        np.testing.assert_array_equal(received, expected)
    else:
        np.testing.assert_allclose(received, expected, atol=0.01)


def test_the_answers_are_those_of_our_server(tiny) -> None:
    for version, folder in tiny.versions.items():
        servable = LocalServable(ServableId("inception_v3", int(version)), folder)
        for number, record in enumerate(read_records(folder / RECORDS_FILE)):
            request = record.predict_log.request
            inputs = {alias: tf.make_ndarray(proto) for alias, proto in request.inputs.items()}
            ours = servable.run(servable.signature(request.model_spec.signature_name), inputs)
            theirs = tiny.answers(version, 3 * number)
            assert theirs.keys() == ours.keys()
            for alias in [alias for alias, array in theirs.items() if array.dtype.kind == "f"]:
                np.testing.assert_allclose(theirs[alias], ours[alias], atol=1e-5)


@pytest.mark.long
def test_the_merged_version_of_the_real_network_names_breeds_there(real) -> None:
    labels = json.loads(
        (ROOT / "models" / "inception_v3" / "labels.json").read_text(encoding="utf-8")
    )
    numbers = [number for number, run in enumerate(real.runs["2"]) if run["signature"] == "labels"]
    assert numbers
    for number in numbers:
        answer = real.answers("2", number)
        assert set(answer["labels"].ravel().tolist()) <= {
            label["name"].encode() for label in labels
        }
        assert (np.diff(answer["probabilities"]) <= 0).all()


def test_the_model_config_list_serves_every_version_labels_those_always_there_and_is_taken_by_our_server(
    tiny, start_server, colour_models, tmp_path
) -> None:
    text = (DEPLOY / "models.config").read_text(encoding="utf-8")
    (config,) = text_format.Parse(
        text, model_server_config_pb2.ModelServerConfig()
    ).model_config_list.config
    assert (config.name, config.base_path) == ("inception_v3", "/models/inception_v3")
    assert config.model_version_policy.WhichOneof("policy_choice") == "all"
    assert dict(config.version_labels) == {"image": 1, "stable": 2}
    assert {str(number) for number in config.version_labels.values()} <= set(tiny.versions)
    file = tmp_path / "models.config"
    file.write_text(text.replace('"/models/', f'"{colour_models}/'), encoding="utf-8")
    server = start_server(tmp_path, "--model-config-file", str(file))
    (model,) = server.get("/api/models").json()["models"]
    assert model["labels"] == {"image": 1, "stable": 2}
