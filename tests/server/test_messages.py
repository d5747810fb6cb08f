"""Versions and requests that are nearly right: each refusal says what was found and what to do."""

import json
import subprocess
import zlib

import pytest
import requests
import tensorflow as tf
from dogsnap.serving.versions.warmup import RECORDS_FILE, warm_up
from support import tiny_models
from support.command_line import dogsnap, refused
from support.forked import WARM_UP
from support.grpc_client import connected, predict_request
from support.refusals import assert_refused
from support.waiting import wait_until
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2


def write_records(version, *records: bytes) -> None:
    (version / RECORDS_FILE).parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(version / RECORDS_FILE)) as writer:
        for record in records:
            writer.write(record)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("messages")
    for name in ("good", "json_records", "other_records", "gone", "binary", "zeros"):
        tiny_models.half_plus(2.0, folder / name / "1")
    (folder / "json_records/1/assets.extra").mkdir()
    (folder / "json_records/1" / RECORDS_FILE).write_text('{"instances": [1.0]}\n')
    write_records(folder / "other_records/1", b"no message\xff")
    record = prediction_log_pb2.PredictionLog()
    record.predict_log.request.model_spec.signature_name = "gone"
    write_records(folder / "gone/1", record.SerializeToString())
    tf.saved_model.save(tf.Module(), str(folder / "none/1"))

    def halve(x):
        return tf.ensure_shape(tf.py_function(lambda value: value / 2, [x], tf.float32), [None])

    numbers = tiny_models.spec(tf.float32, None)
    python = tiny_models.signature(lambda x: {"y": halve(x)}, numbers)
    tiny_models.save(folder / "python/1", serving_default=python)
    command = (
        "sha256sum -b saved_model.pb > assets.extra/SHA256SUMS; echo >> assets.extra/SHA256SUMS"
    )
    (folder / "binary/1/assets.extra").mkdir()
    subprocess.run(command, shell=True, cwd=folder / "binary/1", check=True)
    tiny_models.half_plus(2.0, folder / "zeros/001")
    factor = tiny_models.spec(tf.float32, name="factor")
    times = tiny_models.signature(lambda x, factor: {"y": factor * x}, numbers, factor)
    tiny_models.save(folder / "times/1", serving_default=times)
    file = folder / "times/1/saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    signature = model.meta_graphs[0].signature_def["serving_default"]
    signature.defaults["factor"].CopyFrom(tf.make_tensor_proto(3.0))
    file.write_bytes(model.SerializeToString())
    return folder


@pytest.fixture(scope="module")
def server(start_server, models):
    server = start_server(models, wait=False, constants={WARM_UP: warm_up})
    for model in ("binary", "good", "python", "times", "zeros"):
        server.wait_until_ready(f"/v1/models/{model}/metadata")
    return server


def error_of(server, name: str) -> str:
    """Why a version was not loaded."""

    def status() -> dict:
        return server.get(f"/v1/models/{name}").json()["model_version_status"][0]

    wait_until(lambda: status()["status"].get("error_message"), 60)
    return status()["status"]["error_message"]


def test_a_warm_up_file_that_cannot_be_used_is_named(server):
    assert "expected a TFRecord file" in error_of(server, "json_records")
    assert "PredictionLog" in error_of(server, "other_records")
    error = error_of(server, "gone")
    assert "warm-up request 0 of assets.extra/tf_serving_warmup_requests fails" in error
    assert '"gone" not found' in error


def test_a_model_without_a_signature_says_how_to_export_one(server):
    response = server.post("/v1/models/none:predict", json={"instances": [1.0]})
    assert_refused(response, 400, "this version has: no signature: export it with")


def test_a_python_function_is_not_the_fault_of_the_client(server):
    response = server.post("/v1/models/python:predict", json={"instances": [1.0]})
    assert_refused(response, 501, "calls a Python function (tf.py_function")


def test_checksums_of_files_read_as_binary_are_verified(server):
    assert server.post("/v1/models/binary:predict", json={"instances": [2.0]}).ok


def test_two_folders_of_one_number_are_logged(server):
    assert "001" in server.log()


@pytest.mark.parametrize("encoding", ["deflate", "br", "zstd", "gzip, gzip"])
def test_another_compression_than_gzip_is_refused_by_its_name(server, encoding):
    body = zlib.compress(b'{"instances": [1]}')
    for path in ("/v1/models/good:predict", "/", "/api/classify"):
        headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
        response = requests.post(server.url + path, data=body, headers=headers, timeout=60)
        assert_refused(response, 415, f"compressed as {encoding}; expected gzip")
    headers = {"Content-Encoding": "identity"}
    sent = server.post("/v1/models/good:predict", json={"instances": [2.0]}, headers=headers)
    assert sent.json() == {"predictions": [3.0]}


def test_half_a_character_is_refused(server):
    for path in ("good:classify", "good:predict"):
        body = b'{"examples": [{"\\ud800": 1}], "instances": [1]}'
        response = server.post(f"/v1/models/{path}", data=body)
        assert_refused(response, 400, "surrogate")


def test_base_paths_of_a_configuration_that_hold_no_version_are_logged(
    start_server, models, tmp_path
):
    bases = {
        "version": (models / "good/1", "is a single version"),
        "missing": (tmp_path / "nowhere", "there is no folder"),
        "empty": (tmp_path, "holds no folder with a number"),
    }
    rows = [f'config {{ name: "{name}" base_path: "{base}" }}' for name, (base, _) in bases.items()]
    file = tmp_path / "models.config"
    file.write_text(f"model_config_list {{ {' '.join(rows)} }}")
    server = start_server(models, "--model-config-file", file, wait=False)
    for base, sentence in bases.values():
        wait_until(lambda words=f"{base} {sentence}": is_said(server, words), 30)


def is_said(server, words: str) -> bool:
    base, _, sentence = words.partition(" ")
    return any(base in line and sentence in line for line in server.log().splitlines())


def test_a_file_of_one_list_is_refused_for_json_instances(models, tmp_path):
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([{"x": 1.0}, {"x": 2.0}]))
    ran = dogsnap("predict", "--models", models, "--model", "good", "--json-instances", file)
    refused(ran, "one list of 2 instances; expected one JSON instance per line")


def test_an_input_with_a_default_may_be_left_out(server):
    path = "/v1/models/times:predict"
    for body, expected in (
        ({"instances": [1.0, 2.0]}, {"predictions": [3.0, 6.0]}),
        ({"instances": [{"x": 1.0}, {"x": 2.0}]}, {"predictions": [3.0, 6.0]}),
        ({"inputs": [1.0, 2.0]}, {"outputs": [3.0, 6.0]}),
        ({"inputs": {"x": [1.0], "factor": 5.0}}, {"outputs": [5.0]}),
    ):
        assert server.post(path, json=body).json() == expected
    sent = server.post("/", json={"model_name": "times", "data": {"x": [1.0]}})
    assert sent.json() == {"y": [3.0]}
    with connected(server.grpc_port) as client:
        request = predict_request("times", x=[1.0, 2.0])
        answer = client.prediction.Predict(request, timeout=60)
        assert tf.make_ndarray(answer.outputs["y"]).tolist() == [3.0, 6.0]
    response = server.post(path, json={"inputs": {"factor": 5.0}})
    assert_refused(response, 400, "Missing named input: x")
    rows = [{"x": 1.0}, {"x": 2.0, "factor": 5.0}]
    assert_refused(server.post(path, json={"instances": rows}), 400, "keys must be equal")
