"""The Open Inference Protocol against a real server: Triton's own client over HTTP and gRPC, and requests as written."""

import base64
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import requests
from dogsnap.server.protocols.open_inference import DESCRIPTORS, SERVICE
from dogsnap.serving.tensors.json_parsing import LARGE, WAIT_SECONDS
from google.protobuf.descriptor import Descriptor
from support.colour_photos import RED, encode, plain
from support.refusals import assert_refused

PHOTO = encode(plain(RED), "JPEG")
CLIENT = Path(__file__).parents[1] / "support" / "clients" / "open_inference_client.py"
SIZE = (16, 16)
JSON_LENGTH = "Inference-Header-Content-Length"


@pytest.fixture(scope="module")
def server(start_server, colour_models):
    return start_server(colour_models)


@pytest.fixture(scope="module")
def image() -> np.ndarray:
    return np.random.default_rng(2).random((1, *SIZE, 3), np.float32)


def predicted(server, version: int, instances: list) -> list[float]:
    """What TensorFlow Serving's REST API answers."""
    path = f"/v1/models/inception_v3/versions/{version}:predict"
    answer = server.post(path, json.dumps({"instances": instances}))
    return answer.json()["predictions"][0]


@pytest.fixture(scope="module", params=["http", "grpc"])
def answers(request, server, image, tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("client")
    (folder / "photo.jpg").write_bytes(PHOTO)
    np.save(folder / "image.npy", image)
    address = f"127.0.0.1:{server.port if request.param == 'http' else server.grpc_port}"
    files = [str(folder / "photo.jpg"), str(folder / "image.npy")]
    command = [sys.executable, str(CLIENT), request.param, address, "inception_v3", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_tritons_client_finds_server_and_versions(answers) -> None:
    assert answers["live"] is True
    assert answers["ready"] is True
    assert answers["model_ready"] == [True, True, False]
    assert answers["server"]["name"] == "dogsnap"
    assert answers["server"]["extensions"] == [
        "binary_tensor_data",
        "classification",
        "model_repository",
    ]
    assert answers["metadata"]["name"] == "inception_v3"
    assert answers["metadata"]["versions"] == ["1", "2"]
    (tensor,) = answers["metadata"]["inputs"]
    assert (tensor["name"], tensor["datatype"]) == ("image", "BYTES")
    (tensor,) = answers["metadata_1"]["inputs"]
    assert (tensor["datatype"], [int(size) for size in tensor["shape"]]) == ("FP32", [-1, *SIZE, 3])
    (tensor,) = answers["metadata_1"]["outputs"]
    assert (tensor["name"], tensor["datatype"]) == ("prediction", "FP32")


def test_tritons_client_gets_the_probabilities_of_the_rest_api(answers, server, image) -> None:
    by_text = predicted(server, 2, [base64.b64encode(PHOTO).decode()])
    assert answers["numbers"] == pytest.approx(predicted(server, 1, image.tolist()), abs=1e-6)
    for asked in ("photo_1", "photo_2", "photo"):
        assert answers[asked] == pytest.approx(by_text, abs=1e-6)


def test_tritons_client_gets_the_number_of_classes_that_it_counts(answers) -> None:
    value = max(answers["photo_2"])
    assert answers["best"][0] == f"{value:f}:0:red dog"
    assert len(answers["best"]) == 2


def test_tritons_client_is_told_what_is_wrong(answers) -> None:
    assert "Specific(inception_v3, 9)" in answers["no_version"]
    assert "cannot decode the photos at these places" in answers["no_photo"] or answers["no_photo"]
    assert "expected float32 values, received float64" in answers["wrong_type"]
    for tensor in ("shared_input", "shared_output"):
        assert "this server reads and writes no shared memory; send the values" in answers[tensor]


def ask(server, inputs: list, path: str = "", **fields) -> requests.Response:
    body = json.dumps({"inputs": inputs, **fields})
    return server.post(f"/v2/models/inception_v3{path}/infer", body)


def photo_input(data: list, **more) -> dict:
    tensor = {"name": "image", "shape": [len(data)], "datatype": "BYTES", "data": data}
    return {**tensor, **more}


TEXT = base64.b64encode(PHOTO).decode()


@pytest.mark.parametrize("path", ["", "/versions/1", "/versions/2"])
@pytest.mark.parametrize(
    "given",
    [
        photo_input([TEXT]),
        photo_input([TEXT], shape=[1, 1], parameters={"content_type": "base64"}),
        photo_input([TEXT], shape=[1, 1], parameters={"content_type": "str"}),
    ],
    ids=["text", "MLServer's Base64Codec", "MLServer's StringCodec"],
)
def test_json_is_answered_with_json(server, path, given) -> None:
    response = ask(server, [given], path, id="a7")
    assert response.status_code == 200, response.text
    answer = response.json()
    (output,) = answer["outputs"]
    assert (answer["model_name"], answer["id"]) == ("inception_v3", "a7")
    assert (output["name"], output["datatype"], output["shape"]) == ("prediction", "FP32", [1, 3])
    assert output["data"] == pytest.approx(predicted(server, 2, [TEXT]), abs=1e-6)
    assert answer["model_version"] == response.headers["X-Dogsnap-Model-Version"]


def test_a_tensor_of_numbers_is_flat_or_nested_and_strings_are_named(server, image) -> None:
    expected = predicted(server, 1, image.tolist())
    for data in (image.tolist(), image.reshape(-1).tolist()):
        tensor = {"name": "image", "shape": [1, *SIZE, 3], "datatype": "FP32", "data": data}
        output = ask(server, [tensor], "/versions/1").json()["outputs"][0]
        assert output["data"] == pytest.approx(expected, abs=1e-6)
    named = ask(server, [photo_input([TEXT])], parameters={"signature_name": "labels"}).json()
    outputs = {output["name"]: output["data"] for output in named["outputs"]}
    assert outputs["labels"][0] == "red dog"


def test_base64_text_is_taken_by_a_version_that_takes_files_as_well(server) -> None:
    expected = predicted(server, 2, [TEXT])
    for more in ({}, {"parameters": {"content_type": "base64"}}):
        given = photo_input([TEXT], name="image_bytes", **more)
        answer = ask(server, [given], "/versions/2", parameters={"signature_name": "image_bytes"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["outputs"][0]["data"] == pytest.approx(expected, abs=1e-6)


def test_class_count_gives_the_largest_values_with_their_numbers_and_names(server) -> None:
    expected = predicted(server, 2, [TEXT])
    best = sorted(range(3), key=lambda index: -expected[index])
    names = ("red dog", "green dog", "blue dog")
    texts = [f"{expected[index]:f}:{index}:{names[index]}" for index in best]
    for count in (1, 2, 9):
        wanted = {"name": "prediction", "parameters": {"classification": count}}
        answer = ask(server, [photo_input([TEXT])], "/versions/2", outputs=[wanted]).json()
        (output,) = answer["outputs"]
        assert (output["datatype"], output["shape"]) == ("BYTES", [1, min(count, 3)])
        assert output["data"] == texts[:count]


@pytest.mark.parametrize(
    ("name", "count"), [("labels", 2), ("probabilities", 0), ("probabilities", "2")]
)
def test_class_count_of_what_has_no_classes_is_refused(server, name, count) -> None:
    wanted = {"name": name, "parameters": {"classification": count}}
    more = {"parameters": {"signature_name": "labels"}, "outputs": [wanted]}
    answer = ask(server, [photo_input([TEXT])], "/versions/2", **more)
    assert_refused(answer, 400, f'classification of output "{name}": expected a number of classes')


@pytest.mark.parametrize("path", ["/versions/1", "/versions/2"])
def test_no_photo_at_all_gets_no_row(server, path) -> None:
    response = ask(server, [photo_input([])], path)
    assert response.status_code == 200, response.text
    (output,) = response.json()["outputs"]
    assert (output["shape"], output["data"]) == ([0, 3], [])


def test_a_label_is_a_version(server) -> None:
    response = ask(server, [photo_input([TEXT])], "/versions/stable")
    assert_refused(response, 400, "Unrecognized servable version label: stable")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, 'expected "inputs": a list of objects'),
        ({"inputs": [7]}, 'expected "inputs": a list of objects'),
        ({"inputs": []}, "expected the inputs image, received none"),
        ({"inputs": [photo_input([TEXT]), photo_input([TEXT])]}, "received image, image"),
        (
            {"inputs": [photo_input([TEXT]) | {"name": "x"}]},
            "expected the inputs image, received x",
        ),
        ({"inputs": [photo_input([TEXT]) | {"name": 7}]}, 'expected "name": a text'),
        ({"inputs": [photo_input([TEXT]) | {"shape": [2]}]}, "takes 2 values, received 1"),
        ({"inputs": [photo_input([TEXT]) | {"shape": [-1]}]}, "sizes from 0 on"),
        ({"inputs": [photo_input([TEXT]) | {"shape": [2**50, 4]}]}, "received 1"),
        ({"inputs": [photo_input([]) | {"shape": [0, 2**62, 4]}]}, "beyond all memory"),
        ({"inputs": [photo_input([TEXT]) | {"shape": [1.0]}]}, 'expected "shape"'),
        ({"inputs": [photo_input([TEXT]) | {"datatype": "TEXT"}]}, "expected one of BOOL"),
        ({"inputs": [photo_input([7])]}, "is not of expected type"),
        ({"inputs": [photo_input([TEXT]) | {"parameters": 7}]}, 'expected "parameters"'),
        ({"inputs": [photo_input([TEXT])], "outputs": [{"name": "no"}]}, "alias not found"),
        (
            {"inputs": [photo_input([TEXT])], "parameters": {"signature_name": "no"}},
            "no",
        ),
        (
            {"inputs": [photo_input([]) | {"parameters": {"binary_data_size": 9}}]},
            "expected a number up to the 0 bytes",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_in_json_is_refused_in_a_sentence(server, fields, sentence) -> None:
    response = server.post("/v2/models/inception_v3/infer", json.dumps(fields))
    assert response.status_code in (400, 404), response.text
    assert sentence in response.json()["error"]


@pytest.mark.parametrize(
    ("size", "behind", "length", "sentence"),
    [
        (8, b"\x09\0\0\0abcd", None, "expected 1 strings"),
        (3, b"abc", None, "expected 1 strings"),
        (4, b"\0\0\0\0abc", None, "belong to no input"),
        (9, b"\0\0\0\0", None, "expected a number up to the 4 bytes"),
        (4, b"\0\0\0\0", "99999", "expected a number of bytes up to the body's"),
        (4, b"\0\0\0\0", "-1", "expected a number of bytes"),
        (4, b"\0\0\0\0", "x", "expected a number of bytes"),
    ],
)
def test_what_is_wrong_in_binary_tensors_is_refused(server, size, behind, length, sentence) -> None:
    tensor = photo_input([0], parameters={"binary_data_size": size})
    del tensor["data"]
    head = json.dumps({"inputs": [tensor]}).encode()
    headers = {JSON_LENGTH: length or str(len(head))}
    response = server.post("/v2/models/inception_v3/infer", head + behind, headers=headers)
    assert_refused(response, 400, sentence)


def test_a_large_document_keeps_others_waiting_only_until_it_is_read(start_server, sleeper) -> None:
    server = start_server(sleeper)
    seconds = WAIT_SECONDS + 1
    data = [seconds] + [0.0] * LARGE
    tensor = {"name": "x", "shape": [len(data)], "datatype": "FP32", "data": data}
    body = json.dumps({"inputs": [tensor]})
    with ThreadPoolExecutor(2) as clients:
        answers = list(clients.map(server.post, ["/v2/models/sleeper/infer"] * 2, [body] * 2))
    assert [answer.status_code for answer in answers] == [200, 200]


def test_the_compiled_messages_are_those_of_the_proto() -> None:
    """`make protos` compiles it."""
    text = DESCRIPTORS.with_suffix(".proto").read_text(encoding="utf-8")
    assert [method.name for method in SERVICE.methods] == re.findall(r"rpc (\w+)", text)
    fields = []
    for message in SERVICE.file.message_types_by_name.values():
        fields += fields_of(message)
    written = re.findall(r"(\w+) = (\d+);", text)
    assert sorted(fields) == sorted((name, int(number)) for name, number in written)


def fields_of(message: Descriptor) -> list[tuple[str, int]]:
    """Names and numbers, also of the messages within it."""
    fields = [(field.name, field.number) for field in message.fields]
    for inner in message.nested_types:
        if not inner.GetOptions().map_entry:
            fields += fields_of(inner)
    return fields
