"""Runs a SavedModel of TensorFlow 1 in a session, as TensorFlow Serving runs
it.

TensorFlow 2's loader turns each signature into a function and holds its
arguments against the placeholders' declared shapes; graphs that rely on a feed
of another shape (a placeholder of shape [] fed with one row) work in a session
alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.saved_model import loader_impl

from dogsnap.serving.tensors.signatures import Arrays, why_unserved

INIT_OP = "__saved_model_init_op"  # what TensorFlow runs at loading, listed among the signatures


def is_of_tensorflow_1(graphs: Sequence[meta_graph_pb2.MetaGraphDef]) -> bool:
    """TensorFlow 2 writes one graph, with the Python objects that it was made from."""
    return len(graphs) > 1 or not graphs[0].HasField("object_graph_def")


class SessionModel:
    """One graph in a session of its own.

    Thread-safe. `signatures`: functions of tensors by alias that return arrays
    by alias.
    """

    def __init__(self, path: Path, meta_graph: meta_graph_pb2.MetaGraphDef):
        definitions = {
            name: definition
            for name, definition in meta_graph.signature_def.items()
            if name != INIT_OP
        }
        graph = tf.Graph()
        with graph.as_default():
            fed = _placeholders(meta_graph.graph_def, definitions.values())
        config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        loader = loader_impl.SavedModelLoader(str(path))
        loader.load(self._session, list(meta_graph.meta_info_def.tags), input_map=fed)
        graph.finalize()
        self.signatures = {
            name: self._function(definition, fed) for name, definition in definitions.items()
        }

    def _function(
        self, definition: meta_graph_pb2.SignatureDef, fed: Mapping[str, tf.Tensor]
    ) -> Callable[..., Any]:
        graph = self._session.graph

        def tensor(info: meta_graph_pb2.TensorInfo) -> tf.Tensor:
            return fed[info.name] if info.name in fed else graph.get_tensor_by_name(info.name)

        inputs = _tensor_names(definition.inputs)
        outputs = _tensor_names(definition.outputs)
        fetches = {alias: tensor(definition.outputs[alias]) for alias in outputs}
        feeds = [tensor(definition.inputs[alias]) for alias in inputs]
        run = self._session.make_callable(fetches, feeds)

        def function(**tensors: tf.Tensor) -> Arrays:
            values = [tensors[alias].numpy() for alias in inputs]
            arrays = {}
            for alias, value in run(*values).items():
                # A session gives a scalar as a NumPy scalar, or as bare bytes.
                arrays[alias] = np.asarray(value, object if isinstance(value, bytes) else None)
            return arrays

        return function


def _tensor_names(infos: Mapping[str, meta_graph_pb2.TensorInfo]) -> list[str]:
    """The aliases of plain tensors: a sparse one has no name of one tensor."""
    return sorted(alias for alias, info in infos.items() if not why_unserved(info))


def _placeholders(
    graph_def: tf.compat.v1.GraphDef, definitions: Iterable[meta_graph_pb2.SignatureDef]
) -> dict[str, tf.Tensor]:
    """By name, a placeholder of any shape per used placeholder: TensorFlow
    Serving's session (C++), unlike Python's, takes any.

    Another tensor that a signature feeds stays as it is, since other signatures
    need what computes it.
    """
    used = {_tensor_name(edge) for node in graph_def.node for edge in node.input}
    plain = {f"{node.name}:0" for node in graph_def.node if node.op == "Placeholder"}
    fed = {}
    for definition in definitions:
        for info in definition.inputs.values():
            if _tensor_name(info.name) in used & plain:
                fed[info.name] = tf.compat.v1.placeholder(info.dtype)
    return fed


def _tensor_name(edge: str) -> str:
    """The first output of a node may be written with its number or without."""
    return edge if ":" in edge else f"{edge}:0"
