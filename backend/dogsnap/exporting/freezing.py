"""Freezes one signature of a SavedModel: variables become constants, and what
inference does not need is pruned.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework.convert_to_constants import (
    _FunctionConverterDataInEager,
    _replace_variables_by_constants,
)
from tensorflow.python.grappler import tf_optimizer

from dogsnap.exporting.inspection import INIT_OP, meta_graphs, plain_name, specs_of
from dogsnap.exporting.layers import Tensors
from dogsnap.serving.versions.servable import kernel_sentence
from dogsnap.serving.versions.version_folders import missing

# Constants from this size on are shared by reference; smaller ones (axes, shapes,
# biases) stay in the graph and can be folded.
SHARED_BYTES = 1024
# Constants from this size on are folded PART_BYTES at a time: 88 of Inception v3, 88 of its 90 MB.
LARGE_BYTES = 2**16
PART_BYTES = 2**24
# A SavedModel is one protocol buffer of at most 2 GiB; the difference is for the graph
# around the constants.
MAX_CONSTANT_BYTES = 1_900_000_000
REFERENCE_VARIABLES = ("Variable", "VariableV2")
GraphDef: TypeAlias = tf.compat.v1.GraphDef
Node: TypeAlias = tf.compat.v1.NodeDef
Function: TypeAlias = tf.types.experimental.ConcreteFunction


class FreezingError(ValueError):
    """The signature cannot be turned into constants; the message says why."""


@dataclass(frozen=True)
class FrozenGraph:
    """A network as one graph of constants.

    `inputs`, `outputs`: its tensors' names by alias, sorted; `specs`: of the
    inputs.
    """

    graph_def: GraphDef
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    specs: Mapping[str, tf.TensorSpec]

    def function(self) -> Function:
        """The network as a function: takes the inputs in their order, returns a
        dict of outputs.
        """
        graph_def, constants = _without_large_constants(self.graph_def)

        def network(*images: tf.Tensor) -> Tensors:
            graph = tf.compat.v1.get_default_graph()
            fed = dict(zip(self.inputs.values(), images, strict=True))
            fed |= {name: graph.capture(value) for name, value in constants.items()}
            wanted = list(self.outputs.values())
            results = tf.graph_util.import_graph_def(
                graph_def, input_map=fed, return_elements=wanted, name="network"
            )
            return dict(zip(self.outputs, results, strict=True))

        specs = []
        for name in self.inputs:
            spec = self.specs[name]
            specs.append(tf.TensorSpec(spec.shape, spec.dtype, name))
        return tf.function(network, autograph=False).get_concrete_function(*specs)


def inputs_of(node: Node) -> list[str]:
    """The nodes whose values a node takes."""
    return [name.split(":")[0] for name in node.input if not name.startswith("^")]


def freeze(signature: Function) -> FrozenGraph:
    """The same network with its variables replaced by constants.

    Constants inside the function's graph would be copied by every function that
    calls the network: a merged Inception v3 took 3 GB. So they are folded first
    (batch normalisation goes into the convolutions), then the large ones become
    tensors that all functions capture by reference and TensorFlow saves once:
    250 MB. Raises FreezingError when the signature needs more than variables (a
    lookup table), or more than one file can hold.
    """
    specs = signature.structured_input_signature[1]
    names = sorted(specs)
    outputs = sorted(signature.structured_outputs)

    def by_place(*inputs: tf.Tensor) -> list[tf.Tensor]:
        answer = signature(**dict(zip(names, inputs, strict=True)))
        return [answer[output] for output in outputs]

    nameless = [tf.TensorSpec(specs[name].shape, specs[name].dtype) for name in names]
    placed = tf.function(by_place, autograph=False).get_concrete_function(*nameless)
    fed = {}
    for name, tensor in zip(names, placed.inputs, strict=False):  # captured variables follow
        fed[name] = tensor.name
    given = {}
    for name, tensor in zip(outputs, placed.outputs, strict=True):
        given[name] = tensor.name
    return FrozenGraph(
        _fold(_with_constants(placed), [*fed.values(), *given.values()]), fed, given, specs
    )


class Source:
    """A version and what was made of it, so that several versions come from one
    reading and freezing of it.
    """

    def __init__(
        self,
        folder: Path,
        signatures: Mapping[str, Function] | None = None,
        frozen: dict[str, FrozenGraph] | None = None,
    ) -> None:
        """`signatures`, `frozen`: given by an export that has them already."""
        self.folder = folder
        self._frozen = frozen or {}
        self.given_names: dict[str, str] = {}  # of inputs and outputs, by plain name
        if signatures is not None:
            self.signatures = signatures

    @cached_property
    def signatures(self) -> Mapping[str, Function]:
        """Its signatures, loaded by TensorFlow, to be used while this object
        lives; inputs and outputs have plain names.

        Reference variables, which TensorFlow 1 made and `freeze` cannot read,
        are constants in them already.
        """
        graph = meta_graphs(self.folder)[0]
        if lacks := missing(self.folder):
            raise FreezingError(f"{self.folder} lacks {lacks}; copy the version again")
        try:
            signatures = self._load(graph)
        except Exception as error:  # a damaged file can raise anything
            reason = kernel_sentence(str(error))
            raise FreezingError(f"{self.folder} cannot be loaded: {reason}") from error
        for definition in graph.signature_def.values():
            for names in (definition.inputs, definition.outputs):
                self.given_names |= {plain_name(name): name for name in names}
        return {name: _with_plain_names(each) for name, each in signatures.items()}

    def _load(self, graph: meta_graph_pb2.MetaGraphDef) -> Mapping[str, Function]:
        tags = list(graph.meta_info_def.tags)
        if any(node.op in REFERENCE_VARIABLES for node in graph.graph_def.node):
            return _freeze_by_session(self.folder, tags)
        self._keep_alive = tf.saved_model.load(str(self.folder), tags=tags)
        return self._keep_alive.signatures

    def freeze_signature(self, signature: str) -> FrozenGraph:
        """One signature with constants for variables."""
        if signature not in self._frozen:
            self._frozen[signature] = freeze(self.signatures[signature])
        return self._frozen[signature]


def _with_plain_names(signature: Function) -> Function:
    """The same function; one with other names cannot take part in another one."""
    specs = signature.structured_input_signature[1]
    outputs = signature.structured_outputs
    if all(plain_name(name) == name for name in (*specs, *outputs)):
        return signature
    for names in (specs, outputs):
        if len(set(map(plain_name, names))) < len(names):
            raise FreezingError(
                f"the names {', '.join(names)} are the same inside TensorFlow, which takes "
                "letters, digits and _; give them others"
            )

    def function(**inputs: tf.Tensor) -> Tensors:
        answer = signature(**{name: inputs[plain_name(name)] for name in specs})
        return {plain_name(name): answer[name] for name in outputs}

    concrete = tf.function(function, autograph=False)
    return concrete.get_concrete_function(**_by_plain_name(specs))


def _by_plain_name(specs: Mapping[str, tf.TensorSpec]) -> dict[str, tf.TensorSpec]:
    plain = {}
    for name, spec in specs.items():
        plain[plain_name(name)] = tf.TensorSpec(spec.shape, spec.dtype, plain_name(name))
    return plain


def _freeze_by_session(folder: Path, tags: list[str]) -> dict[str, Function]:
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        definitions = tf.compat.v1.saved_model.load(session, tags, str(folder)).signature_def
        signatures = {}
        results = set()
        for name, signature in definitions.items():
            if name == INIT_OP:
                continue
            signatures[name] = signature
            for info in signature.outputs.values():
                results.add(info.name.split(":")[0])
        graph_def = tf.compat.v1.graph_util.convert_variables_to_constants(
            session, session.graph.as_graph_def(), sorted(results)
        )
    functions = {}
    for name, signature in signatures.items():
        functions[name] = _import_signature(graph_def, signature)
    return functions


def _import_signature(graph_def: GraphDef, signature: meta_graph_pb2.SignatureDef) -> Function:
    results = [info.name for info in signature.outputs.values()]
    nodes = sorted({name.split(":")[0] for name in results})
    needed = tf.compat.v1.graph_util.extract_sub_graph(graph_def, nodes)
    kept = {node.name for node in needed.node}

    def function(**inputs: tf.Tensor) -> Tensors:
        fed = {}
        for alias, info in signature.inputs.items():
            if info.name.split(":")[0] in kept:
                fed[info.name] = inputs[plain_name(alias)]
        values = tf.graph_util.import_graph_def(
            needed, input_map=fed, return_elements=results, name=""
        )
        return dict(zip(signature.outputs, values, strict=True))

    concrete = tf.function(function, autograph=False)
    return concrete.get_concrete_function(**_by_plain_name(specs_of(signature)))


def _with_constants(placed: Function) -> GraphDef:
    """As convert_variables_to_constants_v2, whose names of inputs and outputs
    it keeps, but no function is made of the graph: for that, all constants are
    copied.
    """
    captured = _FunctionConverterDataInEager(
        placed, lower_control_flow=False, aggressive_inlining=False
    )
    graph_def, _ = _replace_variables_by_constants(captured)
    for function in graph_def.library.function:  # bodies of loops and branches
        # A reference of its own: without it, one that is known goes with the signature.
        context.context().add_function_def(function)
    left = 0
    for node in graph_def.node:
        if node.op == "Placeholder":
            left += node.attr["dtype"].type == tf.resource.as_datatype_enum
    if left:
        raise FreezingError(
            f"the signature holds {left} resources other than variables (lookup tables, "
            "say), which cannot become "
            "constants; export it without them"
        )
    return graph_def


def _fold(graph_def: GraphDef, kept: Sequence[str]) -> GraphDef:
    """The graph after TensorFlow's constant folding and pruning: what does not
    depend on the input is precomputed.

    `kept`: names of its inputs and outputs. TensorFlow copies the constants 14
    times on the way, so the large ones take part in turns, PART_BYTES together,
    while placeholders stand for the others; all at once only if one is computed
    from others.
    """
    graph_def, constants = _with_placeholders(graph_def)
    for part in list(_parts(constants)):
        nodes = {name: constants.pop(name) for name in part}
        graph_def = _optimise(_with_nodes(graph_def, nodes), kept)
        graph_def, changed = _with_placeholders(graph_def)
        constants |= changed
    graph_def = _with_nodes(graph_def, constants)
    return _optimise(graph_def, kept) if _is_left_to_fold(graph_def) else graph_def


def _optimise(graph_def: GraphDef, kept: Sequence[str]) -> GraphDef:
    meta_graph = meta_graph_pb2.MetaGraphDef(graph_def=graph_def)
    # The optimizer keeps the nodes of this collection.
    meta_graph.collection_def["train_op"].node_list.value.extend(kept)
    config = config_pb2.ConfigProto()
    rewrites = config.graph_options.rewrite_options
    rewrites.min_graph_nodes = -1  # small graphs too
    rewrites.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.TWO
    rewrites.optimizers.extend(["pruning", "constfold", "dependency"])
    return tf_optimizer.OptimizeGraph(config, meta_graph)


def _with_placeholders(
    graph_def: GraphDef,
) -> tuple[GraphDef, dict[str, Node]]:
    """The graph with placeholders for its large constants, and these by name."""
    constants = {}
    placeholders = {}
    for node in graph_def.node:
        if node.op != "Const" or node.ByteSize() < LARGE_BYTES:
            continue
        # Without control dependencies, whose nodes folding may remove.
        constants[node.name] = Node(name=node.name, op=node.op, attr=node.attr)
        placeholder = Node(name=node.name, op="Placeholder")
        value = node.attr["value"].tensor
        placeholder.attr["dtype"].type = value.dtype
        placeholder.attr["shape"].shape.CopyFrom(value.tensor_shape)
        placeholders[node.name] = placeholder
    return _with_nodes(graph_def, placeholders), constants


def _parts(constants: Mapping[str, Node]) -> Iterator[list[str]]:
    """Their names, in parts of PART_BYTES or of one constant; at least one part."""
    part: list[str] = []
    size = 0
    for name, node in constants.items():
        if part and size + node.ByteSize() > PART_BYTES:
            yield part
            part = []
            size = 0
        part.append(name)
        size += node.ByteSize()
    yield part


def _is_left_to_fold(graph_def: GraphDef) -> bool:
    """Whether a node takes nothing but constants: those that were not in one part."""
    constants = {node.name for node in graph_def.node if node.op == "Const"}
    for node in graph_def.node:
        sources = {name.split(":")[0] for name in node.input if name[0] != "^"}
        if sources and sources <= constants:
            return True
    return False


def _with_nodes(graph_def: GraphDef, nodes: Mapping[str, Node]) -> GraphDef:
    """A copy of the graph with `nodes` instead of those of the same names."""
    graph = GraphDef(library=graph_def.library, versions=graph_def.versions)
    for node in graph_def.node:
        graph.node.add().CopyFrom(nodes.get(node.name, node))
    return graph


def _without_large_constants(
    graph_def: GraphDef,
) -> tuple[GraphDef, Tensors]:
    """Take the large constants out: the graph that now needs them as inputs,
    and their values by tensor name.
    """
    rest = GraphDef()
    constants = {}
    rest.library.CopyFrom(graph_def.library)
    rest.versions.CopyFrom(graph_def.versions)
    given = {node.name for node in graph_def.node if node.op in ("Const", "Placeholder")}
    for node in graph_def.node:
        if node.op == "Const" and node.attr["value"].tensor.ByteSize() >= SHARED_BYTES:
            constants[f"{node.name}:0"] = tf.constant(tf.make_ndarray(node.attr["value"].tensor))
            continue
        kept = rest.node.add()
        kept.CopyFrom(node)
        kept.attr.pop("_output_shapes", None)  # of the graph before folding
        # Control dependencies on constants are useless, and import_graph_def could not
        # replace them.
        kept.input[:] = [name for name in node.input if name[0] != "^" or name[1:] not in given]
    check_size(constants.values())
    return rest, constants


def check_size(constants: Iterable[tf.Tensor]) -> None:
    """Raises FreezingError when one file cannot hold them all."""
    size = 0
    for value in constants:
        size += (value.dtype.size or 0) * value.shape.num_elements()
    if size > MAX_CONSTANT_BYTES:
        raise FreezingError(
            f"the constants take {size / 1e9:.1f} GB; a SavedModel without variables can hold "
            f"{MAX_CONSTANT_BYTES / 1e9:.1f} GB; serve the unmerged version"
        )
