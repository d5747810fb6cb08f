"""One value for a batch, and a list of one for a graph of one value: clients move from the one to the other unchanged."""

import base64
import json
import re

import grpc
import numpy as np
import pytest
import requests
import tensorflow as tf
from dogsnap.serving.photos import preprocessing
from support import tensorflow1_models
from support.colour_photos import GREEN, encode, plain
from support.command_line import dogsnap
from support.grpc_client import connected, predict_request
from support.refusals import assert_refused
from support.tiny_models import colours

PHOTO = encode(plain(GREEN), "PNG")
TEXT = base64.b64encode(PHOTO).decode()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """inception_v3 with versions 1 and 2, and two graphs of one value: files, and a number."""
    folder = tmp_path_factory.mktemp("models")
    colours(folder / "inception_v3")

    @tf.function(input_signature=[tf.TensorSpec([], tf.string, "input_bytes")])
    def inverted(input_bytes):
        picture = tf.image.decode_png(input_bytes, channels=3)
        return {"output_bytes": tf.io.encode_png(255 - picture)}

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, "x")])
    def half(x):
        return {"y": x / 2, "pair": tf.stack([x, x])}

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3], tf.float32, "image")])
    def mean(image):
        return {"prediction": tf.reduce_mean(image, [1, 2])}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 1], tf.string, "word"),
            tf.TensorSpec([None, 1], tf.int32, "grade"),
        ]
    )
    def columns(word, grade):
        return {"text": tf.strings.join([word, tf.as_string(grade)])}

    texts = tf.TensorSpec([None], tf.string)

    @tf.function(input_signature=[texts, tf.TensorSpec([None], tf.float32), texts])
    def captioned(caption, grade, image):
        size = tf.shape(preprocessing.decode(preprocessing.decode_base64(image)[0]))
        return {"caption": caption, "grade": grade, "size": size[tf.newaxis]}

    with tf.Graph().as_default() as graph:
        contents = tf.compat.v1.placeholder(tf.string, [], name="DecodeJpeg/contents")
        pixels = tf.cast(tf.io.decode_png(contents, channels=3), tf.float32)
        of_one = {"mean": tf.reduce_mean(pixels), "row": tf.reduce_mean(pixels, [0, 1])[tf.newaxis]}
        predict = ("predict", {"image_bytes": contents}, of_one)
        tensorflow1_models.save(folder / "placeholder" / "1", graph, serving_default=predict)
    functions = {
        "inverted": inverted,
        "half": half,
        "images": mean,
        "captioned": captioned,
        "columns": columns,
    }
    for name, function in functions.items():
        module = tf.Module()
        module.function = function
        tf.saved_model.save(module, str(folder / name / "1"), signatures=function)
    return folder


def predicted(server, model: str, body: dict) -> requests.Response:
    return server.post(f"/v1/models/{model}:predict", json=body)


@pytest.mark.parametrize("form", ["instances", "inputs"])
def test_a_graph_of_one_value_takes_a_list_of_one(server, form):
    answer = predicted(server, "inverted", {form: [{"b64": TEXT}]}).json()
    (picture,) = answer["predictions" if form == "instances" else "outputs"]
    pixels = tf.image.decode_png(base64.b64decode(picture["b64"])).numpy()
    np.testing.assert_array_equal(pixels, 255 - tf.image.decode_png(PHOTO).numpy())
    assert predicted(server, "half", {"instances": [3.0]}).json() == {
        "predictions": [{"y": 1.5, "pair": [3.0, 3.0]}]
    }
    assert predicted(server, "half", {"inputs": 3.0}).json()["outputs"]["y"] == 1.5
    posted = server.post("/", json={"model_name": "half", "data": {"x": [3.0]}})
    assert posted.json()["y"] == [1.5]


def test_a_placeholder_of_one_value_takes_a_list_of_one(server):
    row = {"mean": 80.0, "row": [20.0, 200.0, 20.0]}
    assert predicted(server, "placeholder", {"instances": [{"b64": TEXT}]}).json() == {
        "predictions": [row]
    }
    (value,) = predicted(server, "placeholder", {"inputs": {"b64": TEXT}}).json()["outputs"]["row"]
    assert value == row["row"]
    with connected(server.grpc_port) as client:
        for photos in ([PHOTO], PHOTO):
            request = predict_request("placeholder", image_bytes=photos)
            outputs = client.prediction.Predict(request, 60).outputs
            assert tf.make_ndarray(outputs["row"]).tolist() == [row["row"]]


def test_several_values_are_told_of_merge_wherever_they_are_sent(server):
    said = "takes one value at a time: send a request for each; `dogsnap merge` makes"
    three = [{"b64": TEXT}] * 3
    assert_refused(predicted(server, "inverted", {"instances": three}), 400, said)
    body = {"model_name": "inverted", "data": {"input_bytes": three}}
    assert_refused(server.post("/", json=body), 400, said)
    with connected(server.grpc_port) as client, pytest.raises(grpc.RpcError) as refused:
        client.prediction.Predict(predict_request("inverted", input_bytes=[PHOTO] * 3), 60)
    assert said in refused.value.details()


@pytest.mark.parametrize("rows", [[("a", 1), ("b", 2)], [("a", 1)]], ids=["two", "one"])
def test_a_column_takes_a_value_for_each_row(server, rows):
    expected = [[f"{word}{grade}"] for word, grade in rows]
    by_name = [{"word": word, "grade": grade} for word, grade in rows]
    words, grades = (list(column) for column in zip(*rows, strict=True))
    frame = {"columns": ["word", "grade"], "data": [list(row) for row in rows]}
    headers = {"X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=columns"}
    asked = server.post("/invocations", json={"dataframe_split": frame}, headers=headers)
    assert asked.json() == {"predictions": expected}
    assert predicted(server, "columns", {"instances": by_name}).json() == {"predictions": expected}
    inputs = {"word": words, "grade": [[grade] for grade in grades]}
    assert predicted(server, "columns", {"inputs": inputs}).json() == {"outputs": expected}
    with connected(server.grpc_port) as client:
        request = predict_request("columns", word=words, grade=np.array(grades, np.int32))
        text = tf.make_ndarray(client.prediction.Predict(request, 60).outputs["text"])
    assert text.tolist() == [[each.encode()] for (each,) in expected]


def test_one_string_is_a_batch_of_one(server):
    path = "inception_v3/versions/2"
    answer = predicted(server, path, {"inputs": {"image": TEXT}}).json()["outputs"]
    assert answer == predicted(server, path, {"inputs": {"image": [TEXT]}}).json()["outputs"]
    assert np.argmax(answer) == 1
    posted = server.post(
        "/", json={"model_version": 2, "model_name": "inception_v3", "data": {"image": TEXT}}
    )
    assert np.argmax(posted.json()["prediction"]) == 1
    with connected(server.grpc_port) as client:
        request = predict_request("inception_v3", image=TEXT.encode())
        request.model_spec.version.value = 2
        assert (
            client.prediction.Predict(request, 60).outputs["prediction"].tensor_shape.dim[0].size
            == 1
        )


@pytest.mark.parametrize("signature", ["labels", "serving_default"])
def test_files_go_to_every_signature_of_base64_text(server, signature):
    body = {"signature_name": signature, "instances": [{"b64": TEXT}]}
    files = predicted(server, "inception_v3/versions/2", body)
    text = predicted(server, "inception_v3/versions/2", {**body, "instances": [TEXT]})
    assert (files.status_code, files.json()) == (200, text.json())


@pytest.mark.parametrize(
    ("version", "value", "said"),
    [
        (2, [[[[0.5] * 3] * 16] * 16], "; version 1 takes numbers"),
        (1, [TEXT], "; version 2 takes text"),
        (1, [{"b64": TEXT}], '{"b64": ...} Type: Object is not of expected type: float; version 2'),
        (1, [{"image": {"b64": TEXT}}], "; version 2 takes text"),
    ],
)
def test_values_of_another_kind_are_told_of_the_version_that_takes_them(
    server, version, value, said
):
    path = f"inception_v3/versions/{version}"
    assert_refused(predicted(server, path, {"instances": value}), 400, said)


def test_a_photo_for_numbers_is_told_of_merge_where_no_version_takes_photos(server):
    said = "`dogsnap merge images/1` makes a version that takes it"
    for value in (TEXT, {"b64": TEXT}):
        for form, given in (("instances", [value]), ("inputs", [value]), ("inputs", value)):
            assert_refused(predicted(server, "images", {form: given}), 400, said)
    with connected(server.grpc_port) as client, pytest.raises(grpc.RpcError) as refused:
        client.prediction.Predict(predict_request("images", image=[TEXT]), 60)
    assert said in refused.value.details()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("https://a.example/dog.jpg", "received an address or the name of a file (https://a."),
        ("wxfile://tmp_1.jpg", "received an address or the name of a file (wxfile://"),
        ("no base64!", "received the character '!'"),
    ],
)
def test_what_comes_in_place_of_base64_text_is_named_at_every_door(server, text, said):
    said = (
        f'input "image", value 1: Unable to base64 decode: expected base64 text.*{re.escape(said)}'
    )
    two = [TEXT, text]
    tensor = {"name": "image", "datatype": "BYTES", "shape": [2], "data": two}
    for path, body in (
        ("/v1/models/inception_v3:predict", {"instances": two}),
        ("/v2/models/inception_v3/infer", {"inputs": [tensor]}),
        ("/invocations", {"instances": two}),
        ("/", {"data": {"image": two}}),
    ):
        answer = server.post(path, json=body)
        assert answer.status_code == 400
        assert re.search(said, answer.json()["error"]), (path, answer.text)
    with connected(server.grpc_port) as client, pytest.raises(grpc.RpcError) as refused:
        client.prediction.Predict(predict_request("inception_v3", image=two), 60)
    assert re.search(said, refused.value.details())


def test_a_caption_beside_the_photo_is_not_taken_for_one_that_is_no_base64(server):
    row = {"caption": "hello!", "grade": 0.5, "image": "no base64!"}
    said = "input \"image\", value 0: Unable to base64 decode: .* received the character '!'"
    answer = predicted(server, "captioned", {"instances": [row]})
    assert answer.status_code == 400
    assert re.search(said, answer.json()["error"]), answer.text
    assert predicted(server, "captioned", {"instances": [{**row, "image": TEXT}]}).ok


ADVICE = '; for image_bytes set signature_name to "image_bytes"'


def test_advice_is_the_same_at_every_door(server, models, tmp_path):
    row = {"image_bytes": {"b64": TEXT}}
    refused = predicted(
        server, "inception_v3/versions/2", {"signature_name": "labels", "instances": [row]}
    )
    assert_refused(refused, 400, ADVICE)
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row))
    for where in (("--url", server.url), ("--models", models)):
        flags = (
            "--signature-name",
            "labels",
            "--json-instances",
            file,
            "--model",
            "inception_v3",
            "--version",
            2,
            *where,
        )
        assert ADVICE in dogsnap("predict", *flags).output
    text = [TEXT.encode()]
    with connected(server.grpc_port) as client, pytest.raises(grpc.RpcError) as error:
        client.prediction.Predict(predict_request("inverted", input_bytes=text), 60)
    assert "send the bytes of the files" in error.value.details()
    body = {"model_name": "inverted", "data": {"input_bytes": [TEXT]}}
    said = 'send the bytes of the files, in JSON as {"b64": text}'
    assert_refused(server.post("/", json=body), 400, said)
