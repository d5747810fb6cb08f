"""Writes a frozen network as TensorFlow.js loads it, and as ONNX, with kernels
of 8 bits: a whole number for each weight, and a scale for each output channel,
by which the network itself multiplies.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

from dogsnap.exporting.freezing import FreezingError, FrozenGraph, GraphDef, Node, inputs_of
from dogsnap.message_files import add_messages

LARGEST = 127
# Where the output channels of a kernel are, by the operation that takes it.
CHANNELS = {"Conv2D": 3, "DepthwiseConv2dNative": 2, "MatMul": 1}
# of TensorFlow.js
MODEL = "model.json"
WEIGHTS = "weights.bin"
# of ONNX, whose messages the .proto beside this describes
DESCRIPTORS = Path(__file__).with_name("onnx.binpb")
INPUT = "image"
OUTPUT = "output0"
SAME = {"AddV2": "Add", "BiasAdd": "Add", "Mul": "Mul", "MatMul": "MatMul"}
TYPES = {"float32": 1, "int8": 3}
# releases of ONNX
OPERATIONS = 11
FORMAT = 6


def quantize(kernel: np.ndarray, channel: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights int8 of the kernel's shape, and the scales float32 that they are
    multiplied by, of size 1 on all axes but `channel`.
    """
    others = tuple(axis for axis in range(kernel.ndim) if axis != channel)
    scales = np.maximum(np.abs(kernel).max(axis=others, keepdims=True), 1e-12) / LARGEST
    return np.round(kernel / scales).astype(np.int8), scales.astype(np.float32)


def write_graph_model(graph: FrozenGraph, folder: Path) -> None:
    """Write MODEL and WEIGHTS: a graph model of TensorFlow.js.

    That knows one scale and one smallest value for a whole tensor: 1 and
    -LARGEST here, and a multiplication follows.
    """
    kernels = _kernels(graph)
    contents = bytearray()
    manifest: list[dict[str, Any]] = []
    topology = GraphDef(versions=graph.graph_def.versions)

    def store(name: str, value: np.ndarray, stored: np.ndarray, **further: Any) -> None:
        kind = tf.as_dtype(value.dtype)
        topology.node.add(name=name, op="Const").attr["dtype"].type = kind.as_datatype_enum
        manifest.append({"name": name, "shape": value.shape, "dtype": kind.name, **further})
        contents.extend(stored.tobytes())

    for node in graph.graph_def.node:
        if node.op != "Const":
            topology.node.add().CopyFrom(node)
            continue
        value = tf.make_ndarray(node.attr["value"].tensor)
        if node.name not in kernels:
            store(node.name, value, value)
            continue
        weights, scales = quantize(value, kernels[node.name])
        unsigned = (weights.astype(np.int16) + LARGEST).astype(np.uint8)
        factors = [f"{node.name}/whole", f"{node.name}/scale"]
        quantization = {"dtype": "uint8", "scale": 1.0, "min": -LARGEST}
        store(factors[0], value, unsigned, quantization=quantization)
        store(factors[1], scales, scales)
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
    writer = _OnnxWriter(graph)
    for node in graph.graph_def.node:
        writer.write(node)
    file.write_bytes(writer.contents())


class _OnnxWriter:
    """The operations and constants so far; images have their channels in front."""

    def __init__(self, graph: FrozenGraph) -> None:
        self._model = _load_model_class()(ir_version=FORMAT)
        self._model.opset_import.add(domain="", version=OPERATIONS)
        self._model.graph.name = "network"
        self._kernels = _kernels(graph)
        (self._image,) = graph.specs.values()
        (told,) = graph.outputs.values()
        self._same: dict[str, str] = {}  # what an Identity takes, by its name
        for node in graph.graph_def.node:
            if node.op == "Identity":
                self._same[node.name] = inputs_of(node)[0]
        last = told.split(":")[0]
        self._last = self._same.get(last, last)
        self._values: dict[str, np.ndarray] = {}
        self._sides: dict[str, int] = {}  # of what has four dimensions
        self._count = 0  # of the last layer's outputs

    def contents(self) -> bytes:
        """The file."""
        graph = self._model.graph
        _describe(graph.input.add(), INPUT, [1, *self._image.shape[1:]])
        _describe(graph.output.add(), OUTPUT, [1, self._count])
        contents: bytes = self._model.SerializeToString()
        return contents

    def write(self, node: Node) -> None:
        """Add the counterpart of a node, behind what it takes."""
        sources = [self._same.get(source, source) for source in inputs_of(node)]
        side = next((self._sides[source] for source in sources if source in self._sides), 0)
        if node.op == "Const":
            self._values[node.name] = tf.make_ndarray(node.attr["value"].tensor)
        elif node.op == "Placeholder":
            self._add("Transpose", [INPUT], node.name, perm=[0, 3, 1, 2])
            self._sides[node.name] = self._image.shape[1]
        elif node.op in ("Conv2D", "DepthwiseConv2dNative"):
            self._write_convolution(node, sources[0], sources[1], side)
        elif node.op == "Mean":
            self._add("GlobalAveragePool", sources[:1], f"{node.name}/pooled")
            self._add("Flatten", [f"{node.name}/pooled"], node.name)
        elif node.op == "Relu6":
            ends = [self._store(f"{node.name}/{end}", np.array(end, np.float32)) for end in (0, 6)]
            self._add("Clip", [*sources, *ends], node.name)
            self._sides[node.name] = side
        elif node.op in SAME:
            self._add(SAME[node.op], [self._taken(each, side) for each in sources], node.name)
            if side:
                self._sides[node.name] = side
        elif node.op not in ("Identity", "NoOp"):
            raise FreezingError(f"{node.name} is a {node.op}; ONNX is written without that")

    def _write_convolution(self, node: Node, image: str, name: str, side: int) -> None:
        stride = node.attr["strides"].list.i[1]
        kernel = self._values[name]
        seen = side if node.attr["padding"].s == b"SAME" else side - len(kernel) + 1
        smaller = math.ceil(seen / stride)
        around = max((smaller - 1) * stride + len(kernel) - side, 0)
        pads = [around // 2] * 2 + [around - around // 2] * 2
        deep = node.op == "DepthwiseConv2dNative"
        weights = self._write_kernel(name, (2, 3, 0, 1) if deep else (3, 2, 0, 1))
        group = kernel.shape[2] if deep else 1
        strides = [stride, stride]
        self._add("Conv", [image, weights], node.name, strides=strides, pads=pads, group=group)
        self._sides[node.name] = smaller

    def _write_kernel(self, name: str, order: Sequence[int]) -> str:
        weights, scales = quantize(self._values[name], self._kernels[name])
        whole = self._store(f"{name}/whole", weights.transpose(order))
        scale = self._store(f"{name}/scale", scales.transpose(order))
        self._add("Cast", [whole], f"{name}/float", to=TYPES["float32"])
        self._add("Mul", [f"{name}/float", scale], name)
        return name

    def _taken(self, source: str, side: int) -> str:
        """What an operation takes; constants beside images are one for each channel."""
        if source in self._kernels:
            self._count = self._values[source].shape[1]
            return self._write_kernel(source, (0, 1))
        if source not in self._values:
            return source
        value = self._values[source]
        return self._store(f"{source}/constant", value.reshape(-1, 1, 1) if side else value)

    def _add(
        self, op: str, inputs: Sequence[str], output: str, **attributes: int | list[int]
    ) -> None:
        given = OUTPUT if output == self._last else output
        node = self._model.graph.node.add(input=inputs, output=[given], op_type=op)
        for name, value in attributes.items():
            if isinstance(value, int):
                node.attribute.add(name=name, i=value, type="INT")
            else:
                node.attribute.add(name=name, ints=value, type="INTS")

    def _store(self, name: str, value: np.ndarray) -> str:
        self._model.graph.initializer.add(
            name=name,
            dims=value.shape,
            data_type=TYPES[value.dtype.name],
            raw_data=np.ascontiguousarray(value).tobytes(),
        )
        return name


def _kernels(graph: FrozenGraph) -> dict[str, int]:
    """Where the output channels of each kernel are, by its name."""
    found = {}
    for node in graph.graph_def.node:
        if node.op in CHANNELS:
            found[inputs_of(node)[1]] = CHANNELS[node.op]
    return found


def _load_model_class() -> Any:
    """The message that a file is, in a pool of its own: others may load ONNX's, too."""
    pool = add_messages(DESCRIPTORS, DescriptorPool())
    return GetMessageClass(pool.FindMessageTypeByName("onnx.ModelProto"))


def _describe(told: Any, name: str, sizes: Sequence[int]) -> None:
    """Fill in a ValueInfoProto: a float32 tensor of these sizes."""
    told.name = name
    told.type.tensor_type.elem_type = TYPES["float32"]
    for size in sizes:
        told.type.tensor_type.shape.dim.add(dim_value=size)
