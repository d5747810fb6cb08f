"""Runs a SavedModel of TensorFlow 1 in a session, as TensorFlow Serving runs it.

TensorFlow 2's loader turns each signature into a function and holds its arguments against the placeholders' declared shapes;
graphs that rely on a feed of another shape (a placeholder of shape [] fed with one row) work in a session alone.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.saved_model import loader_impl

INIT_OP = "__saved_model_init_op"  # what TensorFlow runs at loading, listed among the signatures


def is_of_tensorflow_1(graphs: Sequence[meta_graph_pb2.MetaGraphDef]) -> bool:
    """TensorFlow 2 writes one graph, with the Python objects that it was made from."""
    return len(graphs) > 1 or not graphs[0].HasField("object_graph_def")


class SessionModel:
    """One graph in a session of its own. Thread-safe. `signatures`: functions of tensors by alias that return arrays by alias."""

    def __init__(self, path: Path, meta_graph: meta_graph_pb2.MetaGraphDef):
        definitions = {
            name: each for name, each in meta_graph.signature_def.items() if _can_run(name, each)
        }
        graph = tf.Graph()
        with graph.as_default():
            fed = _placeholders(meta_graph.graph_def, definitions)
        config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        loader = loader_impl.SavedModelLoader(str(path))
        loader.load(self._session, list(meta_graph.meta_info_def.tags), input_map=fed)
        graph.finalize()
        self.signatures = {name: self._function(each, fed) for name, each in definitions.items()}

    def _function(
        self, definition: meta_graph_pb2.SignatureDef, fed: Mapping[str, tf.Tensor]
    ) -> Callable[..., Any]:
        graph = self._session.graph

        def tensor(info: meta_graph_pb2.TensorInfo) -> tf.Tensor:
            return fed[info.name] if info.name in fed else graph.get_tensor_by_name(info.name)

        inputs, outputs = sorted(definition.inputs), sorted(definition.outputs)
        run = self._session.make_callable(
            [tensor(definition.outputs[alias]) for alias in outputs],
            [tensor(definition.inputs[alias]) for alias in inputs],
        )

        def function(**tensors: tf.Tensor) -> dict[str, np.ndarray]:
            values = run(*[tensors[alias].numpy() for alias in inputs])
            # A session gives a scalar as a NumPy scalar, or as bare bytes.
            arrays = (
                np.asarray(value, dtype=object if isinstance(value, bytes) else None)
                for value in values
            )
            return dict(zip(outputs, arrays, strict=True))

        return function


def _can_run(name: str, definition: meta_graph_pb2.SignatureDef) -> bool:
    """Sparse and composite tensors have no name of one tensor; TensorFlow Serving does not run them either."""
    infos = [*definition.inputs.values(), *definition.outputs.values()]
    return name != INIT_OP and all(info.name for info in infos)


def _placeholders(
    graph_def: tf.compat.v1.GraphDef, definitions: Mapping[str, meta_graph_pb2.SignatureDef]
) -> dict[str, tf.Tensor]:
    """By name, a placeholder of any shape per used input: TensorFlow Serving's session (C++), unlike Python's, takes any."""
    used = {_tensor_name(edge) for node in graph_def.node for edge in node.input}
    infos = [info for each in definitions.values() for info in each.inputs.values()]
    return {
        info.name: tf.compat.v1.placeholder(info.dtype)
        for info in infos
        if _tensor_name(info.name) in used
    }


def _tensor_name(edge: str) -> str:
    """The first output of a node may be written with its number or without."""
    return edge if ":" in edge else f"{edge}:0"
