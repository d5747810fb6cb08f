"""SavedModels of TensorFlow 1, asked as their articles ask them, by every protocol, here and through a gateway."""

import base64
import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import requests
import tensorflow as tf
from dogsnap.errors import InvalidArgument
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.servable import LocalServable
from PIL import Image
from support import colour_photos, tensorflow1_models
from support.exported import png
from support.grpc_client import connected
from support.refusals import assert_refused

CLIENT = Path(__file__).parents[1] / "support" / "clients" / "image_to_image_client.py"
PIXELS = tensorflow1_models.noise(1)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """saved_model/1: image to image; inception_v3/1: retrained, taking pixels; inception_v3/2: its merged version."""
    folder = tmp_path_factory.mktemp("tensorflow1_models")
    tensorflow1_models.image_to_image(folder / "saved_model" / "1")
    first = tensorflow1_models.retrained(folder / "inception_v3" / "1")
    tensorflow1_models.merged(first, folder / "inception_v3" / "2")
    return folder


@pytest.fixture(scope="module")
def engine(start_server, models):
    return start_server(models)


@pytest.fixture(scope="module")
def gateway(start_server, models, engine):
    return start_server(models, "--engine", f"grpc://127.0.0.1:{engine.grpc_port}")


@pytest.fixture(scope="module", params=["engine", "gateway"])
def server(request):
    """The server itself, and a gateway in front of it."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def picture(tmp_path) -> Path:
    file = tmp_path / "gaussian.png"
    file.write_bytes(png(PIXELS))
    return file


def is_negative(file: bytes) -> bool:
    return np.abs(tf.io.decode_png(file).numpy().astype(int) - (255 - PIXELS)).max() <= 1


def test_the_articles_client_gets_a_picture_from_the_articles_model(
    server, picture, tmp_path
) -> None:
    subprocess.run(
        [sys.executable, CLIENT, server.url, picture, tmp_path / "out.png"], timeout=120, check=True
    )
    assert is_negative((tmp_path / "out.png").read_bytes())


@pytest.mark.parametrize("shape", [(1,), ()])
def test_grpc_takes_one_row_or_the_bare_picture(server, picture, shape) -> None:
    contents = np.array([picture.read_bytes()], dtype=object).reshape(shape)
    with connected(server.grpc_port) as client:
        answer = client.predict(
            "saved_model", input_bytes=tf.make_tensor_proto(contents, tf.string)
        )
    (file,) = answer.outputs["output_bytes"].string_val
    assert is_negative(file)


def test_more_rows_than_the_graph_takes_are_refused_with_both_shapes(server, picture) -> None:
    row = {"b64": base64.b64encode(picture.read_bytes()).decode()}
    answer = server.post("/v1/models/saved_model:predict", json={"instances": [row, row]})
    ours, the_graphs = (
        'input "input_bytes": declared shape (), received (2,)',
        "requested shape has 1",
    )
    assert_refused(answer, 400, ours, the_graphs, "`dogsnap merge` makes of the network")


def test_a_picture_that_the_graph_refuses_is_not_said_to_have_another_shape(server) -> None:
    row = {"b64": base64.b64encode(GREEN).decode()}
    answer = server.post("/v1/models/saved_model:predict", json={"instances": [row]})
    assert_refused(answer, 400, "the requested shape has 12288")
    assert "declared shape" not in answer.text
    said = (
        "gives no number for each class, so call it by its tensors, /v1/models/saved_model:predict"
    )
    named = server.post("/api/classify", json={"image": row["b64"], "model": "saved_model"})
    assert_refused(named, 400, said)


def test_a_form_of_several_pictures_is_answered_one_by_one(server, picture) -> None:
    files = [("images", picture.read_bytes())] * 2
    answer = server.post("/", data={"model_name": "saved_model"}, files=files)
    assert answer.status_code == 200, answer.text
    assert [
        is_negative(base64.b64decode(each["b64"])) for each in answer.json()["output_bytes"]
    ] == [True, True]


GREEN = colour_photos.encode(Image.new("RGB", (40, 30), (10, 250, 10)), "PNG")


def asked(server, **sent) -> np.ndarray:
    answer = server.post("/", **sent)
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Dogsnap-Model-Version"] == "2"
    return np.array(answer.json()["prediction"])


def test_the_merged_model_of_an_unknown_rank_answers_its_articles_json_and_a_form_alike(
    server,
) -> None:
    text = base64.urlsafe_b64encode(GREEN).decode()
    by_json = asked(
        server, json={"model_name": "default", "model_version": 2, "data": {"image": text}}
    )
    assert by_json.shape == (1, 3)
    assert by_json[0].argmax() == 1
    fields = {"model_version": 2}
    np.testing.assert_allclose(
        asked(server, data=fields, files={"image": GREEN}), by_json, atol=1e-3
    )
    several = asked(server, data=fields, files=[("images", GREEN), ("images", GREEN)])
    np.testing.assert_allclose(several, np.repeat(by_json, 2, axis=0), atol=1e-3)


def test_what_is_sent_in_the_wrong_encoding_is_refused_with_the_right_one(server, picture) -> None:
    text = base64.b64encode(picture.read_bytes()).decode()
    for model, body, said in (
        (
            "saved_model",
            {"instances": [text]},
            'takes files and received base64 text: send the bytes of the files, in JSON as {"b64": text}',
        ),
        (
            "inception_v3/versions/1",
            {"inputs": text},
            "is not of expected type: float; version 2 takes text",
        ),
    ):
        assert_refused(server.post(f"/v1/models/{model}:predict", json=body), 400, said)


def test_a_graph_of_base64_text_takes_files_too(server, picture) -> None:
    text = base64.b64encode(picture.read_bytes()).decode()
    path = "/v1/models/inception_v3/versions/2:predict"
    expected = server.post(path, json={"inputs": text}).json()
    assert server.post(path, json={"inputs": {"b64": text}}).json() == expected


def test_reference_variables_are_read_without_complaints(engine) -> None:
    image = np.zeros((1, *tensorflow1_models.SIZE, 3))
    image[..., 2] = 0.9
    answer = engine.post(
        "/v1/models/inception_v3/versions/1:predict", json={"instances": image.tolist()}
    )
    assert np.argmax(answer.json()["predictions"][0]) == 2
    assert "reference variable" not in engine.log()


def load(make, folder: Path) -> LocalServable:
    return LocalServable(ServableId("m", 1), make(folder / "1"))


def run(servable: LocalServable, signature: str = "", **inputs) -> dict:
    outputs = servable.run(servable.signature(signature), inputs)
    return {alias: value.tolist() for alias, value in outputs.items()}


def serialize(x: float) -> bytes:
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(x)
    return example.SerializeToString()


def test_tensorflow_servings_half_plus_two_answers_by_each_signature(tmp_path) -> None:
    servable = load(tensorflow1_models.half_plus_two, tmp_path)
    examples = [serialize(4.0)]
    assert run(servable, x=[[4.0], [6.0]]) == {"y": [[4.0], [5.0]]}
    assert run(servable, "classify_x_to_y", inputs=examples) == {"scores": [[4.0]]}
    assert run(servable, "regress_x_to_y", inputs=examples) == {"outputs": [[4.0]]}
    assert run(servable, "regress_x_to_y2", inputs=examples) == {"outputs": [[5.0]]}
    assert run(servable, "regress_x2_to_y3", inputs=[[2.0]]) == {"outputs": [[4.0]]}


def test_what_one_signature_feeds_another_computes_or_takes_from_its_default(tmp_path) -> None:
    dropout = load(tensorflow1_models.dropout, tmp_path / "dropout")
    assert run(dropout, x=[3.0]) == {"y": [6.0]}
    assert run(dropout, "train", x=[3.0], keep=0.5) == {"y": [3.0]}
    picture = load(tensorflow1_models.decoded_picture, tmp_path / "picture")
    pixels = np.full((2, 3, 3), 7, np.uint8)
    assert run(picture, image_bytes=png(pixels)) == {"mean": 7.0}
    assert run(picture, "pixels", pixels=pixels) == {"mean": 7.0}


def test_a_part_that_is_no_dense_tensor_is_refused_by_its_name_and_leaves_the_rest(
    start_server, tmp_path
) -> None:
    tensorflow1_models.odd_parts(tmp_path / "odd" / "1")
    tensorflow1_models.odd_parts(tmp_path / "mixed" / "1")
    tensorflow1_models.sparse(tmp_path / "mixed" / "2")
    server = start_server(tmp_path)

    def ask(signature: str, **inputs) -> requests.Response:
        body = {"inputs": inputs, "signature_name": signature}
        return server.post("/v1/models/odd:predict", json=body)

    assert ask("", x=[3.0]).json() == {"outputs": [6.0]}
    assert ask("by_reference", x=[3.0]).json() == {"outputs": 2.0}
    assert_refused(ask("of_sparse", rows=[[1.0, 2.0]]), 400, 'input "rows" is a sparse tensor')
    assert_refused(ask("to_sparse", x=[3.0]), 400, 'output "rows" is a sparse tensor')
    text = server.post("/v1/models/mixed/versions/1:predict", json={"inputs": ["text"]})
    assert_refused(text, 400, "is not of expected type: float")
    with connected(server.grpc_port) as client:
        answer = client.predict("odd", signature="to_sparse", output_filter=["y"], x=[3.0])
    assert list(answer.outputs["y"].float_val) == [6.0]


def test_a_signature_may_give_back_its_input_or_leave_it_unused(tmp_path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        kept, unused = (
            v1.placeholder(tf.float32, [2], "kept"),
            v1.placeholder(tf.float32, [], "unused"),
        )
        outputs = {"same": kept, "constant": tf.constant(7.0)}
        v1.saved_model.simple_save(
            session, str(tmp_path / "1"), {"kept": kept, "unused": unused}, outputs
        )
    servable = LocalServable(ServableId("m", 1), tmp_path / "1")
    answer = servable.run(servable.signature(), {"kept": [1.0, 2.0], "unused": 3.0})
    assert {alias: value.tolist() for alias, value in answer.items()} == {
        "constant": 7.0,
        "same": [1.0, 2.0],
    }


def test_a_version_that_is_unloaded_takes_its_session_along(models) -> None:
    servable = LocalServable(ServableId("m", 1), models / "inception_v3" / "1")
    session = weakref.ref(servable._loaded._session)
    with pytest.raises(
        InvalidArgument, match=r"declared shape \(None, 16, 16, 3\), received \(1, 2\)"
    ):
        servable.run(servable.signature(), {"image": [[1.0, 2.0]]})
    del servable
    gc.collect()
    assert session() is None
