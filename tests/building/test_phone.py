"""The network for phones: TensorFlow.js and ONNX say the same of it, with a byte for each weight."""

import json
import re
from pathlib import Path

import keras
import numpy as np
import openvino
import pytest
import tensorflow as tf
from dogsnap.exporting.eight_bits import DESCRIPTORS, MODEL, WEIGHTS, write_graph_model, write_onnx
from dogsnap.exporting.freezing import FreezingError, FrozenGraph, freeze
from dogsnap.exporting.phone import ONNX, network_graph
from dogsnap.networks.efficientnet_lite import efficientnet_lite0
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from google.protobuf.json_format import ParseDict

SIDE = 64
IMAGES = np.random.default_rng(7).uniform(size=(4, 1, SIDE, SIDE, 3)).astype(np.float32)


def run_graph_model(folder: Path, graph: FrozenGraph, image: np.ndarray) -> np.ndarray:
    """As TensorFlow.js runs it: by its JSON and its weights alone."""
    model = json.loads((folder / MODEL).read_text(encoding="utf-8"))
    assert model["format"] == "graph-model"
    (group,) = model["weightsManifest"]
    contents, values = (folder / WEIGHTS).read_bytes(), {}
    for spec in group["weights"]:
        stated = spec.get("quantization", {"dtype": spec["dtype"], "scale": 1, "min": 0})
        kind = np.dtype(stated["dtype"])
        size = int(np.prod(spec["shape"])) * kind.itemsize
        numbers = np.frombuffer(contents[:size], kind).astype(spec["dtype"])
        values[spec["name"]] = (numbers * stated["scale"] + stated["min"]).reshape(spec["shape"])
        contents = contents[size:]
    assert not contents
    definition = ParseDict(model["modelTopology"], tf.compat.v1.GraphDef())
    for node in definition.node:
        if node.op == "Const":
            value = values[node.name].astype(tf.as_dtype(node.attr["dtype"].type).as_numpy_dtype)
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    (given,), (told,) = graph.inputs.values(), graph.outputs.values()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.graph_util.import_graph_def(definition, name="")
        return session.run(told, {given: image})


def run_onnx(file: Path, image: np.ndarray) -> np.ndarray:
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    network = openvino.Core().compile_model(str(file), "CPU", exact)
    assert network.input(0).any_name == "image"
    assert network.output(0).any_name == "output0"
    return network(image)[0]


@pytest.fixture(scope="module")
def network() -> keras.Model:
    keras.utils.set_random_seed(3)
    return efficientnet_lite0(7, SIDE)


@pytest.fixture(scope="module")
def written(network, tmp_path_factory) -> tuple[Path, FrozenGraph]:
    folder = tmp_path_factory.mktemp("network")
    graph = network_graph(network, *network.get_layer("logits").get_weights())
    write_graph_model(graph, folder)
    write_onnx(graph, folder / ONNX)
    return folder, graph


def test_both_forms_say_the_same_and_nearly_what_the_network_says(network, written):
    folder, graph = written
    for image in IMAGES:
        scores = run_graph_model(folder, graph, image)
        np.testing.assert_allclose(run_onnx(folder / ONNX, image), scores, atol=1e-4)
        exact = network(image)["logits"].numpy()
        assert np.abs(scores - exact).max() < 0.05 * np.ptp(exact)


def test_each_weight_takes_a_byte(network, written):
    folder, _ = written
    count = network.count_params()
    for name in (WEIGHTS, ONNX):
        assert count < (folder / name).stat().st_size < 1.07 * count


def test_a_scale_for_each_channel_keeps_small_ones(tmp_path):
    """One for the whole kernel would leave nothing of the second channel."""
    network = efficientnet_lite0(2, SIDE)
    kernel, bias = network.get_layer("logits").get_weights()
    kernel[:, 1] *= 1e-4
    graph = network_graph(network, kernel, bias)
    write_onnx(graph, tmp_path / ONNX)
    (told,) = graph.function()(tf.constant(IMAGES[0])).values()
    found = run_onnx(tmp_path / ONNX, IMAGES[0])
    np.testing.assert_allclose(found[0, 1], told.numpy()[0, 1], rtol=0.1)


def test_an_operation_that_has_no_counterpart_is_named(tmp_path):
    image = tf.TensorSpec((1, 4, 4, 3), tf.float32, name="image")
    function = tf.function(lambda *, image: {"scores": tf.nn.softplus(image)}, autograph=False)
    graph = freeze(function.get_concrete_function(image=image))
    with pytest.raises(FreezingError, match="is a Softplus"):
        write_onnx(graph, tmp_path / ONNX)


def test_the_compiled_messages_of_onnx_are_those_of_the_proto() -> None:
    """`make protos` compiles it."""
    text = DESCRIPTORS.with_suffix(".proto").read_text(encoding="utf-8")
    (file,) = FileDescriptorSet.FromString(DESCRIPTORS.read_bytes()).file
    found = [each for message in file.message_type for each in numbers_of(message)]
    written = re.findall(r"(\w+) = (\d+);", text)
    assert sorted(found) == sorted((name, int(number)) for name, number in written)


def numbers_of(message: DescriptorProto) -> list[tuple[str, int]]:
    """Names and numbers of its fields and kinds, also of the messages within it."""
    found = [(field.name, field.number) for field in message.field]
    for kinds in message.enum_type:
        found += [(value.name, value.number) for value in kinds.value]
    for inner in message.nested_type:
        found += numbers_of(inner)
    return found
