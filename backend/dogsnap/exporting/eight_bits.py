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
from google.protobuf.json_format import MessageToDict

from dogsnap.exporting.freezing import FreezingError, FrozenGraph, GraphDef, Node

LARGEST = 127
# Where the output channels of a kernel are, by the operation that takes it.
CHANNELS = {"Conv2D": 3, "DepthwiseConv2dNative": 2, "MatMul": 1}
# of TensorFlow.js
MODEL = "model.json"
WEIGHTS = "weights.bin"
# of ONNX
INPUT = "image"
OUTPUT = "output0"
SAME = {"AddV2": "Add", "BiasAdd": "Add", "Mul": "Mul", "MatMul": "MatMul"}
TYPES = {"float32": 1, "int8": 3}
# releases of ONNX
OPERATIONS = 11
FORMAT = 6
# kinds of fields of a protocol buffer
VARINT = 0
BYTES = 2


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
    """The operations and constants so far, as protocol buffers; images have
    their channels in front.
    """

    def __init__(self, graph: FrozenGraph) -> None:
        self._kernels = _kernels(graph)
        (self._image,) = graph.specs.values()
        (told,) = graph.outputs.values()
        self._same: dict[str, str] = {}  # what an Identity takes, by its name
        for node in graph.graph_def.node:
            if node.op == "Identity":
                self._same[node.name] = _sources(node)[0]
        last = told.split(":")[0]
        self._last = self._same.get(last, last)
        self._values: dict[str, np.ndarray] = {}
        self._sides: dict[str, int] = {}  # of what has four dimensions
        self._nodes: list[bytes] = []
        self._stored: list[bytes] = []
        self._count = 0  # of the last layer's outputs

    def contents(self) -> bytes:
        """The file."""
        nodes = [(1, node) for node in self._nodes]
        stored = [(5, constant) for constant in self._stored]
        given = _tensor_type(INPUT, [1, *self._image.shape[1:]])
        told = _tensor_type(OUTPUT, [1, self._count])
        content = _message(*nodes, (2, "network"), *stored, (11, given), (12, told))
        release = _message((1, ""), (2, OPERATIONS))
        return _message((1, FORMAT), (7, content), (8, release))

    def write(self, node: Node) -> None:
        """Add the counterpart of a node, behind what it takes."""
        sources = [self._same.get(source, source) for source in _sources(node)]
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
        taken = [(1, name) for name in inputs]
        own = [(5, _attribute(name, value)) for name, value in attributes.items()]
        given = OUTPUT if output == self._last else output
        self._nodes.append(_message(*taken, (2, given), (4, op), *own))

    def _store(self, name: str, value: np.ndarray) -> str:
        sizes = [(1, size) for size in value.shape]
        kind = TYPES[value.dtype.name]
        contents = np.ascontiguousarray(value).tobytes()
        self._stored.append(_message(*sizes, (2, kind), (8, name), (9, contents)))
        return name


def _sources(node: Node) -> list[str]:
    return [name.split(":")[0] for name in node.input if not name.startswith("^")]


def _kernels(graph: FrozenGraph) -> dict[str, int]:
    """Where the output channels of each kernel are, by its name."""
    found = {}
    for node in graph.graph_def.node:
        if node.op in CHANNELS:
            found[_sources(node)[1]] = CHANNELS[node.op]
    return found


def _message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A protocol buffer of these fields, by their numbers."""
    content = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            content += _varint(number << 3 | VARINT) + _varint(value)
        else:
            text = value.encode() if isinstance(value, str) else value
            content += _varint(number << 3 | BYTES) + _varint(len(text)) + text
    return bytes(content)


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def _attribute(name: str, value: int | list[int]) -> bytes:
    if isinstance(value, int):
        return _message((1, name), (3, value), (20, 2))
    return _message((1, name), *((8, each) for each in value), (20, 7))


def _tensor_type(name: str, sizes: Sequence[int]) -> bytes:
    shape = _message(*((1, _message((1, size))) for size in sizes))
    tensor = _message((1, TYPES["float32"]), (2, shape))
    return _message((1, name), (2, _message((1, tensor))))
