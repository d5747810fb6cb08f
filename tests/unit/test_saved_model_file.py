"""Files that are nearly SavedModels: what was found, and what to do."""

import re
import time
from pathlib import Path

import pytest
import tensorflow as tf
from dogsnap.errors import FailedPrecondition
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions import saved_model_file
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.serving.versions.version_folders import missing
from google.protobuf import text_format
from support import own_models, tiny_models
from support.command_line import dogsnap, output_of, refused
from tensorflow.core.protobuf import saved_model_pb2

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


def frozen_graph() -> bytes:
    with tf.Graph().as_default() as graph:
        tf.identity(tf.compat.v1.placeholder(tf.float32, [None], "x") / 2, "y")
    return graph.as_graph_def().SerializeToString()


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        (POINTER, "pointer of Git LFS to a file of 12345 bytes, .* run `git lfs pull`"),
        (frozen_graph(), r"frozen graph \(a GraphDef\), not a SavedModel"),
        (b"", r"saved_model\.pb is empty"),
        (
            b"<!DOCTYPE html>\n<html>404</html>",
            r"a web page \(HTML\), as of a failed download: fetch",
        ),
        (b"\x1c\0\0\0TFL3" + bytes(40), "model for TensorFlow Lite: export the one"),
        (b"\x89HDF\r\n\x1a\n" + bytes(40), r"a file of Keras: .*export\("),
        (b"PK\3\4" + bytes(40), "a packed archive: unpack it"),
        (b"\x1f\x8b" + bytes(40), "a packed archive: unpack it"),
        (b"\x08\x08\x12\x07pytorch\x1a\x032.0", "an ONNX model: convert it"),
        (b"no graph", "no SavedModel, or damaged"),
    ],
    ids=["lfs", "frozen", "empty", "html", "tflite", "h5", "zip", "gzip", "onnx", "other"],
)
def test_what_is_no_saved_model_is_called_by_its_name(tmp_path, contents, sentence):
    (tmp_path / "saved_model.pb").write_bytes(contents)
    with pytest.raises(FailedPrecondition, match=sentence):
        saved_model_file.read(tmp_path)


@pytest.mark.parametrize("contents", [bytes(20_000_000), b"\xff" * 2_000_000], ids=["0", "255"])
def test_a_file_whose_copy_broke_off_is_refused_at_once(tmp_path, contents):
    (tmp_path / "saved_model.pb").write_bytes(contents)
    begun = time.process_time()
    with pytest.raises(FailedPrecondition, match="no SavedModel, or damaged"):
        saved_model_file.read(tmp_path)
    assert time.process_time() - begun < 2


def test_a_pointer_of_git_lfs_is_found_among_the_variables(tmp_path):
    version = tiny_models.half_plus(2.0, tmp_path / "1")
    (version / "variables/variables.data-00000-of-00001").write_bytes(POINTER)
    with pytest.raises(FailedPrecondition, match=r"variables\.data.* pointer of Git LFS"):
        saved_model_file.read(version)


def test_a_saved_model_as_text_is_served(tmp_path):
    version = tiny_models.half_plus(2.0, tmp_path / "1")
    file = version / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    (version / "saved_model.pbtxt").write_text(text_format.MessageToString(model))
    file.unlink()
    assert not missing(version)
    servable = LocalServable(ServableId("half", 1), version)
    outputs = servable.run(servable.signature(), {"x": [2.0]})
    assert outputs["y"].tolist() == [3.0]


def test_values_of_large_constants_are_left_out_and_nothing_else(tmp_path):
    class Large(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], name="x")])
        def __call__(self, x):
            weights = tf.constant([float(number) for number in range(5000)])
            return {"y": tf.cond(x[0] > 0, lambda: x * weights[7], lambda: x + 1.0)}

    tf.saved_model.save(Large(), str(tmp_path))
    (graph,) = saved_model_file.read(tmp_path)
    whole = saved_model_pb2.SavedModel.FromString((tmp_path / "saved_model.pb").read_bytes())
    assert graph.ByteSize() < whole.ByteSize() - 20_000
    for given, kept in zip(nodes_of(whole.meta_graphs[0]), nodes_of(graph), strict=True):
        for name in set(given.attr) - set(kept.attr):
            assert given.attr[name].ByteSize() > saved_model_file.LARGE
            del given.attr[name]
    assert whole.meta_graphs[0] == graph


def nodes_of(graph) -> list:
    """Of the graph and of its functions."""
    nodes = list(graph.graph_def.node)
    for function in graph.graph_def.library.function:
        nodes += function.node_def
    return nodes


@pytest.mark.parametrize(
    ("name", "contents", "sentence"),
    [
        ("model.tflite", b"\x1c\0\0\0TFL3", "model.tflite is a model for TensorFlow Lite"),
        ("model.keras", b"PK\3\4", "model.keras is a file of Keras: keras.saving.load_model("),
        ("model.onnx", b"\x08\x08\x12\x07pytorch", "model.onnx is an ONNX model: convert it"),
        ("model.pt", b"PK\3\4", "model.pt is a file of PyTorch: convert that network"),
        ("model.zip", b"PK\3\4", "model.zip is a packed archive: unpack it"),
        ("model.tar.gz", b"\x1f\x8b", "model.tar.gz is a packed archive: unpack it"),
        ("frozen_inference_graph.pb", frozen_graph(), "graph.pb is a frozen graph (a GraphDef)"),
    ],
)
def test_what_lies_there_instead_is_named_to_commands_and_in_the_servers_log(
    tmp_path, name, contents, sentence
):
    version = tmp_path / "model" / "1"
    version.mkdir(parents=True)
    (version / name).write_bytes(contents)
    assert sentence in missing(version)
    with pytest.raises(FailedPrecondition, match=re.escape(sentence)):
        saved_model_file.read(version)
    for path in (version, version / name):
        for command in ("show", "merge"):
            refused(dogsnap(command, path), sentence)


def test_the_commands_read_what_the_server_reads(tmp_path):
    version = tiny_models.half_plus(2.0, tmp_path / "half" / "1")
    binary = output_of(dogsnap("show", version))
    file = version / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    (version / "saved_model.pbtxt").write_text(text_format.MessageToString(model))
    file.unlink()
    assert output_of(dogsnap("show", version)) == binary
    assert output_of(dogsnap("show", tmp_path / "half")) == binary
    refused(
        dogsnap("predict", version / "saved_model.pbtxt", "--models", version), "single version"
    )
    (version / "saved_model.pbtxt").write_text(POINTER.decode())
    for command in (("show", version), ("merge", version)):
        refused(dogsnap(*command), "run `git lfs pull`")


DATA = "variables/variables.data-00000-of-00001"


def damage(version: Path, what: str) -> None:
    if what == "no data":
        (version / DATA).unlink()
    elif what == "operation":
        file = version / "saved_model.pb"
        file.write_bytes(file.read_bytes().replace(b"BiasAdd", b"BiasAdx"))
    else:
        file = version / (DATA if what == "data" else "variables/variables.index")
        file.write_bytes(file.read_bytes()[:3])


@pytest.mark.parametrize("what", ["data", "index", "no data", "operation"])
def test_no_command_ends_in_a_traceback_for_a_damaged_version(tmp_path, what):
    version = tmp_path / "m" / "1"
    own_models.network().export(version, verbose=False)
    damage(version, what)
    (tmp_path / "photos").mkdir()
    words = "lacks variables/variables.data" if what == "no data" else "cannot be loaded: "
    refused(dogsnap("merge", version), words)
    said = refused(dogsnap("evaluate", version, "--data", tmp_path / "photos"))
    assert str(version) in said
