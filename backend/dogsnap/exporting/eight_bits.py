"""Writes a frozen network as TensorFlow.js loads it, and as ONNX, with kernels
of 8 bits: a whole number for each weight, and a scale for each output channel,
by which the network itself multiplies. Kernels are the constants of two axes
and more.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

from dogsnap.exporting.freezing import FreezingError, FrozenGraph, GraphDef
from dogsnap.message_files import add_messages

LARGEST = 127
# of TensorFlow.js
MODEL = "model.json"
WEIGHTS = "weights.bin"
# of ONNX, whose messages the .proto beside this describes
DESCRIPTORS = Path(__file__).with_name("onnx.binpb")
INPUT = "image"
OUTPUT = "output0"
SAME = {"AddV2": "Add", "BiasAdd": "Add", "Mul": "Mul", "Mean": "GlobalAveragePool"}
# The axes of kernels in ONNX's order: channels of the output, then those of the input.
AXES = {
    "Conv2D": (3, 2, 0, 1),
    "MatMul": (3, 2, 0, 1),
    "DepthwiseConv2dNative": (2, 3, 0, 1),
}
TYPES = {"float32": 1, "int8": 3}
# releases of ONNX
OPERATIONS = 11
FORMAT = 6


def quantize(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights int8 of the kernel's shape, and the scales float32 that they are
    multiplied by, of size 1 on all axes but that of the output channels.
    """
    # Kernels of depthwise convolutions are (h, w, channels, 1).
    channel = max(axis for axis, size in enumerate(kernel.shape) if size > 1)
    others = tuple(axis for axis in range(kernel.ndim) if axis != channel)
    scales = np.maximum(np.abs(kernel).max(axis=others, keepdims=True), 1e-12) / LARGEST
    return np.round(kernel / scales).astype(np.int8), scales.astype(np.float32)


def write_graph_model(graph: FrozenGraph, folder: Path) -> None:
    """Write MODEL and WEIGHTS: a graph model of TensorFlow.js.

    That knows one scale and one smallest value for a whole tensor: 1 and
    -LARGEST here, and a multiplication follows.
    """
    topology = GraphDef(versions=graph.graph_def.versions)
    manifest: list[dict[str, Any]] = []
    contents = bytearray()

    def store(name: str, value: np.ndarray, dtype: str, **further: Any) -> None:
        constant = topology.node.add(name=name, op="Const")
        constant.attr["dtype"].type = tf.as_dtype(dtype).as_datatype_enum
        manifest.append({"name": name, "shape": value.shape, "dtype": dtype, **further})
        contents.extend(value.tobytes())

    for node in graph.graph_def.node:
        if node.op != "Const":
            topology.node.append(node)
            continue
        value = tf.make_ndarray(node.attr["value"].tensor)
        if value.ndim < 2:
            store(node.name, value, value.dtype.name)
            continue
        weights, scales = quantize(value)
        unsigned = (weights.astype(np.int16) + LARGEST).astype(np.uint8)
        quantization = {"dtype": "uint8", "scale": 1.0, "min": -LARGEST}
        factors = [f"{node.name}/whole", f"{node.name}/scale"]
        store(factors[0], unsigned, "float32", quantization=quantization)
        store(factors[1], scales, "float32")
        product = topology.node.add(name=node.name, op="Mul", input=factors)
        product.attr["T"].type = tf.float32.as_datatype_enum
    model = {
        "format": "graph-model",
        "modelTopology": MessageToDict(topology),
        "weightsManifest": [{"paths": [WEIGHTS], "weights": manifest}],
    }
    (folder / MODEL).write_text(json.dumps(model, separators=(",", ":")), encoding="utf-8")
    (folder / WEIGHTS).write_bytes(contents)


def write_onnx(graph: FrozenGraph, file: Path) -> None:
    """Write a network of one image and one output as ONNX: INPUT float32 of the
    same shape -> OUTPUT.

    Raises FreezingError for an operation that is not expected.
    """
    with tf.Graph().as_default() as network:
        tf.graph_util.import_graph_def(graph.graph_def, name="")
    writer = _OnnxWriter()
    for operation in network.get_operations():
        writer.write(operation)
    file.write_bytes(writer.model.SerializeToString())


class _OnnxWriter:
    """The operations and constants so far.

    Images have their channels in front. Features are an image of one pixel, so
    that the last layer is a convolution, too.
    """

    def __init__(self) -> None:
        pool = add_messages(DESCRIPTORS, DescriptorPool())  # its own: others may load ONNX's, too
        model_class = GetMessageClass(pool.FindMessageTypeByName("onnx.ModelProto"))
        releases = [{"domain": "", "version": OPERATIONS}]
        self.model: Any = model_class(ir_version=FORMAT, opset_import=releases)
        self._graph = self.model.graph
        self._graph.name = "network"

    def write(self, operation: tf.Operation) -> None:
        """Add the counterpart of an operation, behind what it takes."""
        name, kind = operation.name, operation.type
        (output,) = operation.outputs
        # Without the axes of a mean.
        sources = [each.op.name for each in operation.inputs if each.dtype == tf.float32]
        if kind == "Const":
            if output.dtype == tf.float32 and output.shape.rank < 2:
                self._store(name, tf.make_ndarray(operation.get_attr("value")).reshape(-1, 1, 1))
        elif kind == "Placeholder":
            self._graph.input.add(**_tensor_info(INPUT, output))
            self._add("Transpose", [INPUT], name, perm=[0, 3, 1, 2])
        elif kind == "Identity":
            self._graph.output.add(**_tensor_info(OUTPUT, output))
            self._add("Flatten", sources, OUTPUT)
        elif kind == "Relu6":
            ends = [self._store(f"{name}/{end}", np.array(end, np.float32)) for end in (0, 6)]
            self._add("Clip", [*sources, *ends], name)
        elif kind in AXES:
            self._write_convolution(operation)
        elif kind in SAME:
            self._add(SAME[kind], sources, name)
        else:
            raise FreezingError(f"{name} is a {kind}; ONNX is written without that")

    def _write_convolution(self, operation: tf.Operation) -> None:
        image, constant = operation.inputs
        kernel = tf.make_ndarray(constant.op.get_attr("value"))
        framing = {}
        if operation.type == "MatMul":
            kernel = kernel[np.newaxis, np.newaxis]
        else:
            stride = operation.get_attr("strides")[1]
            reached = (operation.outputs[0].shape[1] - 1) * stride + len(kernel)
            around = max(reached - image.shape[1], 0)
            pads = [around // 2] * 2 + [around - around // 2] * 2
            framing = {"strides": [stride, stride], "pads": pads}
        weights, scales = (each.transpose(AXES[operation.type]) for each in quantize(kernel))
        name = constant.op.name
        whole = self._store(f"{name}/whole", weights)
        scale = self._store(f"{name}/scale", scales)
        self._add("Cast", [whole], f"{name}/float", to=TYPES["float32"])
        self._add("Mul", [f"{name}/float", scale], name)
        group = image.shape[-1] // weights.shape[1]
        self._add("Conv", [image.op.name, name], operation.name, group=group, **framing)

    def _add(
        self, op: str, inputs: Sequence[str], output: str, **attributes: int | list[int]
    ) -> None:
        node = self._graph.node.add(input=inputs, output=[output], op_type=op)
        for name, value in attributes.items():
            if isinstance(value, int):
                node.attribute.add(name=name, i=value, type="INT")
            else:
                node.attribute.add(name=name, ints=value, type="INTS")

    def _store(self, name: str, value: np.ndarray) -> str:
        self._graph.initializer.add(
            name=name,
            dims=value.shape,
            data_type=TYPES[value.dtype.name],
            raw_data=np.ascontiguousarray(value).tobytes(),
        )
        return name


def _tensor_info(name: str, tensor: tf.Tensor) -> dict[str, Any]:
    """A ValueInfoProto of a float32 tensor."""
    dimensions = [{"dim_value": size} for size in tensor.shape]
    stated = {"elem_type": TYPES["float32"], "shape": {"dim": dimensions}}
    return {"name": name, "type": {"tensor_type": stated}}
