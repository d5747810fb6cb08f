"""Photos that come as values of tensors, to any graph that decodes pictures: held to the limits before a pixel is decoded."""

import base64
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
import requests
import tensorflow as tf
from dogsnap.errors import DeadlineExceeded, InvalidArgument, TooLarge
from dogsnap.exporting.merging import merge
from dogsnap.serving.execution.executor import within
from dogsnap.serving.photos.base64_text import web_safe
from dogsnap.serving.photos.hostile_files import gif_pixels
from dogsnap.serving.photos.photo_values import (
    Decoding,
    check_and_cut_photos,
    check_base64,
    decode_photos,
)
from dogsnap.settings import MAX_PHOTO_PIXELS
from google.protobuf import any_pb2, wrappers_pb2
from support import hostile_photos, tiny_models
from support.colour_photos import encode, huge_png, plain
from support.grpc_client import connected
from support.hostile_photos import gif_of_frames
from support.process_readings import memory, most_seconds, worker_of
from support.refusals import assert_refused

STILL, MOVING = Decoding(pictures=True), Decoding(pictures=True, frames=True)
LONG_GIF = gif_of_frames(10_000)
BOMB = huge_png(9000, 9000)


def seen(value: bytes, decoding: Decoding = STILL, max_pixels: int = MAX_PHOTO_PIXELS) -> bytes:
    """What the graph sees of one value."""
    values, _ = check_and_cut_photos({"x": np.array([value], dtype=object)}, decoding, max_pixels)
    (value,) = values["x"]
    return value


def of_bytes(*values: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(contents: bytes) -> bytes:
    size = tf.train.Feature(float_list=tf.train.FloatList(value=[1.0]))
    features = tf.train.Features(feature={"image": of_bytes(contents), "size": size})
    return tf.train.Example(features=features).SerializeToString(deterministic=True)


def example_in_rows(contents: bytes) -> bytes:
    images = tf.train.FeatureList(feature=[of_bytes(contents)] * 2)
    lists = tf.train.FeatureLists(feature_list={"images": images})
    return tf.train.SequenceExample(feature_lists=lists).SerializeToString(deterministic=True)


FORMS = {
    "bytes": bytes,
    "base64 text": base64.b64encode,
    "base64 text after a line break": lambda contents: b"\n" + base64.b64encode(contents),
    "base64 text after a long prefix": lambda contents: (
        f"data:{'é' * 256},".encode() + base64.b64encode(contents)
    ),
    "a tf.Example": example,
    "a tf.SequenceExample": example_in_rows,
}


@pytest.mark.parametrize("form", FORMS)
def test_photos_are_seen_as_they_came_but_for_long_gifs_and_not_with_too_many_pixels(form):
    values = {
        name: FORMS[form](contents) for name, contents in hostile_photos.small_files().items()
    }
    values.pop("animated webp")
    as_they_came = {
        name: (value, web_safe(value)) for name, value in values.items()
    }  # in the alphabet of TensorFlow
    assert [name for name, value in values.items() if seen(value) not in as_they_came[name]] == [
        "animated gif"
    ]
    assert all(seen(value, MOVING) in as_they_came[name] for name, value in values.items())
    with pytest.raises(TooLarge, match=r"81\.0 megapixels .*DOGSNAP_MAX_PHOTO_PIXELS"):
        seen(FORMS[form](BOMB))


def test_texts_are_decoded_together_or_not_at_all():
    picture = encode(plain(), "PNG")
    texts = [base64.b64encode(picture), base64.urlsafe_b64encode(picture).rstrip(b"=")]
    assert list(decode_photos(np.array(texts, dtype=object))) == [picture, picture]
    assert list(decode_photos(np.array([picture, *texts], dtype=object))) == [picture] * 3
    for other in (base64.b64encode(b"no picture"), b"no base64!"):
        assert decode_photos(np.array([*texts, other], dtype=object)) is None


def test_what_tensorflow_finds_in_an_example_is_what_is_checked_or_it_is_refused():
    numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    both = (
        of_bytes(BOMB).SerializeToString() + numbers.SerializeToString()
    )  # messages keep the last of the two
    entry = any_pb2.Any(
        type_url="image", value=both
    )  # its fields are written as those of a map's entry
    features = wrappers_pb2.BytesValue(value=entry.SerializeToString())
    hidden = wrappers_pb2.BytesValue(value=features.SerializeToString()).SerializeToString()
    wanted = {"image": tf.io.VarLenFeature(tf.string)}
    assert tf.io.parse_single_example(hidden, wanted)["image"].values.numpy().tolist() == [BOMB]
    assert BOMB not in seen(hidden)
    badly_named = example(BOMB).replace(b"size", b"siz\xff")
    assert (
        tf.io.parse_single_example(badly_named, {"image": tf.io.FixedLenFeature([], tf.string)})[
            "image"
        ]
        == BOMB
    )
    with pytest.raises(InvalidArgument, match="names of its features in UTF-8"):
        seen(badly_named)


def test_of_a_gif_the_graph_sees_the_first_frame_but_where_it_takes_all_they_are_counted_together():
    features = tf.train.Example.FromString(seen(example(LONG_GIF))).features.feature
    assert features["image"].bytes_list.value[0] == gif_of_frames(1)
    assert list(features["size"].float_list.value) == [1.0]
    assert gif_pixels(LONG_GIF, 10**9) == 10_000 * 64 * 48
    with pytest.raises(TooLarge, match=r"megapixels .*DOGSNAP_MAX_PHOTO_PIXELS"):
        seen(LONG_GIF, MOVING, 30_000_000)


def test_texts_that_begin_like_pictures_are_left_alone():
    for text in (
        b"BMW builds cars in Munich",
        b"hello123",
        b"\nhello",
        b"\x12hello",
        b"\n\0",
        b"",
        b"RIFF raff",
    ):
        assert seen(text) == text


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """`decoders` and `frames` are nothing of ours; `merged` is a network without labels with our layers in front."""

    @tf.function(input_signature=[tf.TensorSpec([None, 16, 16, 3], tf.float32, "image")])
    def mean(image):
        return {"mean": tf.reduce_mean(image, axis=[1, 2])}

    folder = tmp_path_factory.mktemp("models")
    tiny_models.decoders(folder / "decoders" / "1")
    tiny_models.frames(folder / "frames" / "1")
    tiny_models.save(folder / "merged" / "1", serving_default=mean)
    merge.merge(folder / "merged" / "1", merge.Options())
    tiny_models.pictures_and_words(folder / "words" / "1")
    return folder


# Model, signature, and the key under which REST takes its values.
GRAPHS = {
    "merged, text": ("merged", "serving_default", "instances"),
    "merged, bytes": ("merged", "image_bytes", "instances"),
    "decode_jpeg": ("decoders", "serving_default", "instances"),
    "all frames": ("frames", "serving_default", "inputs"),
    "any channels": ("decoders", "any_channels", "inputs"),
    "examples": ("decoders", "of_examples", "examples"),
}
ANIMATED_WEBP = encode(plain(), "WEBP", save_all=True, append_images=hostile_photos.many_colours(3))
HOSTILE = {
    "a png of 50,000 x 50,000": (huge_png(50_000, 50_000), 413),
    "a jpeg of 1,000 scans": (hostile_photos.many_scans(1000), 415),
    "a webp that moves": (
        ANIMATED_WEBP,
        400,
    ),  # would end the process where any number of channels is taken
    "a gif of 10,000 frames": (LONG_GIF, 200),
}


def ask(server, graph: str, contents: bytes) -> requests.Response:
    model, signature, key = GRAPHS[graph]
    text = base64.b64encode(contents).decode()
    value = (
        {"image": {"b64": text}}
        if key == "examples"
        else text
        if graph == "merged, text"
        else {"b64": text}
    )
    path = f"/v1/models/{model}:{'classify' if key == 'examples' else 'predict'}"
    return server.post(path, json={"signature_name": signature, key: [value]})


@pytest.mark.measures
@pytest.mark.parametrize("graph", GRAPHS)
def test_hostile_pictures_are_refused_by_every_graph_in_time_and_memory(server, graph):
    process, before = worker_of(server), memory(worker_of(server))
    for name, (contents, status) in HOSTILE.items():
        response = ask(server, graph, contents)
        assert response.status_code == status, (name, response.text[:200])
        assert response.elapsed.total_seconds() < most_seconds(), name
    assert worker_of(server) == process
    assert memory(process) - before < 150  # the frames of the GIF, where all are taken, are 92 MB


@pytest.mark.parametrize("signature", ["serving_default", "labels"])
@pytest.mark.parametrize("form", [form for form in FORMS if "text" in form])
def test_no_form_of_base64_gets_a_picture_past_the_limits(colour_server, signature, form):
    text = FORMS[form](BOMB).decode()
    for texts in ([text], ["AAAA", text]):
        body = {"signature_name": signature, "instances": texts}
        response = colour_server.post("/v1/models/inception_v3/versions/2:predict", json=body)
        assert (response.status_code, "megapixels" in response.text) == (413, True), response.text


@pytest.mark.parametrize(("model", "alias"), [("merged", "image_bytes"), ("decoders", "x")])
def test_by_grpc_the_same_holds(server, model, alias):
    signature, codes = alias if model == "merged" else "", []
    with connected(server.grpc_port) as client:
        for contents in (BOMB, ANIMATED_WEBP, LONG_GIF):
            try:
                client.predict(model, signature=signature, **{alias: [contents]})
                codes.append("OK")
            except grpc.RpcError as error:
                codes.append(error.code().name)
    assert codes == ["INVALID_ARGUMENT", "INVALID_ARGUMENT", "OK"]


@pytest.mark.parametrize(
    ("model", "alias"), [("merged", "image"), ("decoders", "x"), ("frames", "x")]
)
def test_more_values_than_photos_may_be_are_refused_without_a_look_at_them(server, model, alias):
    values = ["AAAA"] * 33
    for body in ({"instances": values}, {"inputs": values}):
        response = server.post(f"/v1/models/{model}:predict", json=body)
        assert_refused(response, 413, "33 photos; at most 32 are taken")
    response = server.post("/", json={"model_name": model, "data": {alias: values}})
    assert_refused(response, 413, "33 photos; at most 32 are taken")
    one = tf.make_tensor_proto([b"\n"])  # fills the tensor, and each value takes long to look at
    one.tensor_shape.dim[0].size = 1_000_000
    with connected(server.grpc_port) as client, pytest.raises(grpc.RpcError) as refused:
        client.predict(model, **{alias: one})
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "1000000 photos; at most 32 are taken" in refused.value.details()


def test_more_examples_than_photos_may_be_are_refused(server):
    body = {"signature_name": "of_examples", "examples": [{"image": "a"}] * 33}
    response = server.post("/v1/models/decoders:classify", json=body)
    assert_refused(response, 413, "33 photos; at most 32 are taken")


def test_images_for_a_version_that_names_breeds_are_at_most_as_many_as_photos(colour_server):
    path = "/v1/models/inception_v3/versions/1:predict"
    images = np.zeros((33, 16, 16, 3), int).tolist()
    response = colour_server.post(path, json={"instances": images})
    assert_refused(response, 413, "33 photos; at most 32 are taken")
    assert colour_server.post(path, json={"instances": images[:32]}).status_code == 200


def test_words_beside_a_picture_may_be_any_number(server):
    picture = base64.b64encode(encode(plain(), "PNG")).decode()
    inputs = {"image": [{"b64": picture}], "words": ["a"] * 1000}
    response = server.post("/v1/models/words:predict", json={"inputs": inputs})
    assert response.json()["outputs"]["number"] == 1000, response.text
    inputs = {"image": [{"b64": picture}] * 33, "words": ["a"]}
    response = server.post("/v1/models/words:predict", json={"inputs": inputs})
    assert_refused(response, 413, "33 photos")
    body = {"signature_name": "count", "inputs": {"words": ["a"] * 1000}}
    response = server.post("/v1/models/words:predict", json=body)
    assert response.json()["outputs"] == 1000, response.text


def test_a_look_at_values_ends_at_the_deadline():
    values = {"x": np.full(1_000_000, b"\n", dtype=object)}
    with within(time.monotonic() + 0.1), pytest.raises(DeadlineExceeded):
        check_and_cut_photos(values, STILL, MAX_PHOTO_PIXELS)
    with within(time.monotonic() - 0.1), pytest.raises(DeadlineExceeded):
        check_base64(values)


def test_a_context_is_not_merged_into_examples_beyond_the_limit_of_a_body(server):
    context = {"text": "a" * 1_000_000}
    body = {"signature_name": "of_examples", "context": context, "examples": [{}] * 200}
    response = server.post("/v1/models/decoders:classify", json=body)
    assert_refused(response, 413, "DOGSNAP_MAX_TENSOR_BODY_MB")
