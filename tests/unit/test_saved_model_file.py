"""Files that are nearly SavedModels: what was found, and what to do."""

import time

import pytest
import tensorflow as tf
from dogsnap.errors import FailedPrecondition
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions import saved_model_file
from dogsnap.serving.versions.servable import Servable
from dogsnap.serving.versions.version_folders import missing
from google.protobuf import text_format
from support import tiny_models
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
        (b"<html>404</html>", "no SavedModel, or damaged"),
    ],
    ids=["lfs", "frozen", "empty", "other"],
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
    servable = Servable.load(ServableId("half", 1), version)
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
