"""Calls the functions of a SavedModel without variables, which TensorFlow's
runtime has from its file.

`tf.saved_model.load` makes Python objects of every operation besides: for the
2,500 around a network these take 27 MB, and Python's lock for 0.3 s. No public
function has the runtime take one: a session needs 14 MB and the lock for 0.1 s,
this 4 MB and 0.003 s.
"""

import itertools
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow.python.eager import context

from dogsnap.serving.photos.photo_values import called_functions
from dogsnap.serving.versions import saved_model_file

OWN = "__saved_model"  # prefix of signatures that only TensorFlow's loader uses
NUMBERS = itertools.count()  # functions of different versions have the same names


@dataclass(frozen=True)
class GraphFunction:
    """A signature. `inputs`: names in the function's order, or what a constant is.

    `outputs`: the place of each; of `count`.
    """

    name: str
    inputs: Sequence[str | tf.Tensor]
    outputs: Mapping[str, int]
    count: int

    def __call__(self, values: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        """All outputs, by name; `values` may hold more than it takes."""
        tensors = []
        for given in self.inputs:
            tensors.append(tf.constant(values[given]) if isinstance(given, str) else given)
        answers = context.context().call_function(self.name.encode(), tensors, self.count)
        return {name: answers[place] for name, place in self.outputs.items()}


class GraphFunctions(dict[str, GraphFunction]):
    """The signatures of a SavedModel, by name; with it they leave the runtime."""

    def __init__(self, folder: Path):
        """Raises KeyError if the graph has variables."""
        contents = (folder / saved_model_file.BINARY).read_bytes()
        meta_graph, *_ = saved_model_pb2.SavedModel.FromString(contents).meta_graphs
        functions = meta_graph.graph_def.library.function
        suffix = f"_{next(NUMBERS)}"
        names = {function.signature.name for function in functions}
        for function in functions:
            _rename(function, names, suffix)
            context.context().add_function_def(function)
        forget = weakref.finalize(self, _forget, [name + suffix for name in names])
        forget.atexit = False  # the runtime may be gone by then
        nodes = {node.name: node for node in meta_graph.graph_def.node}
        for name, definition in meta_graph.signature_def.items():
            if not name.startswith(OWN):
                self[name] = _find_function(definition, nodes, suffix)


def _rename(function: function_pb2.FunctionDef, names: set[str], suffix: str) -> None:
    """Add the suffix to a function's name, and to those that it calls."""
    function.signature.name += suffix
    for node in function.node_def:
        if node.op in names:
            node.op += suffix
        for called in called_functions(node):
            called.name += suffix


def _forget(names: Sequence[str]) -> None:
    for name in names:
        context.context().remove_function(name)


def _find_function(
    definition: meta_graph_pb2.SignatureDef,
    nodes: Mapping[str, node_def_pb2.NodeDef],
    suffix: str,
) -> GraphFunction:
    """The function that the graph calls for a signature."""
    aliases = {info.name.partition(":")[0]: alias for alias, info in definition.inputs.items()}
    outputs, callers = {}, set()
    for alias, info in definition.outputs.items():
        caller, _, place = info.name.partition(":")
        outputs[alias] = int(place)
        callers.add(caller)
    (caller,) = callers
    inputs: list[str | tf.Tensor] = []
    for edge in nodes[caller].input:
        name = edge.partition(":")[0]
        if name not in aliases and nodes[name].op == "Const":
            inputs.append(tf.constant(tf.make_ndarray(nodes[name].attr["value"].tensor)))
        else:
            inputs.append(aliases[name])
    attributes = nodes[caller].attr
    name, count = attributes["f"].func.name + suffix, len(attributes["Tout"].list.type)
    return GraphFunction(name, inputs, outputs, count)
