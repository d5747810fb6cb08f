"""Reads the signatures of a SavedModel, and the nodes of its graph, without
loading it.
"""

import keyword
import re
from pathlib import Path

import tensorflow as tf
from tensorflow.core.framework import node_def_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from dogsnap.errors import FailedPrecondition
from dogsnap.serving.photos.photo_values import called_functions
from dogsnap.serving.versions import saved_model_file
from dogsnap.serving.versions.version_folders import version_folders

TYPE_NAME = types_pb2.DataType.Name  # of its number
INIT_OP = "__saved_model_init_op"  # TensorFlow lists the initialisation among the signatures


class InspectionError(ValueError):
    """There is no SavedModel; the message says what was found."""


def version_folder(path: Path, version: int | None = None) -> Path:
    """The version folder for `path`: itself, or version `version` (default: the
    largest) of a model. Raises InspectionError.
    """
    if version is None and (saved_model_file.find(path) or path.is_file()):
        return path
    folders = version_folders(path)
    if not folders:
        other = saved_model_file.describe_other(path)
        raise InspectionError(
            other or f"{path} holds neither a saved_model.pb nor folders of versions (1, 2, ...)"
        )
    if version is not None and version not in folders:
        raise InspectionError(
            f"{path} has no version {version}; available: {', '.join(map(str, sorted(folders)))}"
        )
    return folders[max(folders) if version is None else version]


def meta_graphs(folder: Path) -> list[meta_graph_pb2.MetaGraphDef]:
    """The graphs of a version directory, by their tags, without large constants.

    Raises InspectionError when the file is missing or damaged.
    """
    if saved_model_file.find(folder) is None:
        expected = "expected a version directory like models/inception_v3/1"
        other = folder.exists() and saved_model_file.describe_other(folder)
        raise InspectionError(f"{other or f'{folder} holds no saved_model.pb'}; {expected}")
    try:
        graphs = saved_model_file.read(folder)
    except FailedPrecondition as error:
        raise InspectionError(f"{folder}: {error.message}") from error
    return sorted(graphs, key=lambda graph: list(graph.meta_info_def.tags))


def find_graph(folder: Path, tag_set: str) -> meta_graph_pb2.MetaGraphDef:
    """The graph with these tags, separated by commas. Raises InspectionError."""
    graphs = {frozenset(graph.meta_info_def.tags): graph for graph in meta_graphs(folder)}
    graph = graphs.get(frozenset(tag_set.split(",")))
    if graph is None:
        available = "; ".join(",".join(sorted(tags)) for tags in graphs)
        raise InspectionError(
            f"{folder} has no graph with the tags {tag_set}; available: {available}"
        )
    return graph


def input_specs(folder: Path) -> dict[str, dict[str, tf.TensorSpec]]:
    """The inputs of every signature of the first graph: signature -> plain name
    -> shape, type and given name.
    """
    signatures = sorted(meta_graphs(folder)[0].signature_def.items())
    return {name: specs_of(signature) for name, signature in signatures if name != INIT_OP}


def plain_name(name: str) -> str:
    """The name that an input or output has in a function: as TensorFlow's
    `sanitize_arg_name` makes it, but of ASCII alone, and no word of Python.

    "photo.1" -> "photo_1", "图" -> "u56fe", "1st" -> "arg_1st"
    """
    coded = "".join(char if char.isascii() else f"u{ord(char):x}" for char in name)
    plain = re.sub(r"\W", "_", coded)
    is_reserved = keyword.iskeyword(plain) or plain == "self"
    return f"arg_{plain}" if is_reserved or not plain[:1].isalpha() else plain


def specs_of(signature: meta_graph_pb2.SignatureDef) -> dict[str, tf.TensorSpec]:
    """Shape, type and given name of a signature's inputs, by plain name,
    without sparse and ragged ones, which are no tensor.
    """
    specs = {}
    for alias, info in sorted(signature.inputs.items()):
        if info.WhichOneof("encoding") == "name":
            shape = tf.TensorShape(info.tensor_shape)
            specs[plain_name(alias)] = tf.TensorSpec(shape, tf.as_dtype(info.dtype), alias)
    return specs


def list_nodes(folder: Path) -> dict[str, list[node_def_pb2.NodeDef]]:
    """The nodes that the signatures run, those of the graph and function by
    function, by the names of these parts.
    """
    graph = meta_graphs(folder)[0]
    parts = {"graph": _list_run_nodes(graph)}
    library = {}
    for function in graph.graph_def.library.function:
        library[function.signature.name] = list(function.node_def)
    waiting = _list_called_functions(parts["graph"])
    while waiting:
        name = waiting.pop(0)
        if name in library:
            parts[f"function {name}"] = nodes = library.pop(name)
            waiting += _list_called_functions(nodes)
    return parts


def _list_run_nodes(graph: meta_graph_pb2.MetaGraphDef) -> list[node_def_pb2.NodeDef]:
    """The nodes that the signatures' outputs depend on, in the graph's order,
    without those for saving and restoring.
    """
    names = set()
    for name, signature in graph.signature_def.items():
        if name == INIT_OP:
            continue
        for info in (*signature.outputs.values(), *signature.inputs.values()):
            names.add(info.name.split(":")[0])
    # A sparse or ragged input has no name of its own.
    names &= {node.name for node in graph.graph_def.node}
    return list(tf.compat.v1.graph_util.extract_sub_graph(graph.graph_def, sorted(names)).node)


def _list_called_functions(nodes: list[node_def_pb2.NodeDef]) -> list[str]:
    """The functions that nodes call: the branches of a condition, the body of a
    loop, a nested function.
    """
    return [called.name for node in nodes for called in called_functions(node)]
