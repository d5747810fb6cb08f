"""Freezing: constants for variables, the same answers, and one copy of them however many signatures there are."""

import gc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.exporting import freezing
from dogsnap.exporting.freezing import FreezingError, freeze
from support.exported import nodes_of
from support.tiny_models import signature, spec
from tensorflow.python.grappler import tf_optimizer


def saved(
    folder: Path, function: tf.types.experimental.ConcreteFunction, signatures: int = 1
) -> Path:
    """Save `signatures` functions that each call `function`."""

    def calling(number: int) -> tf.types.experimental.ConcreteFunction:
        x = tf.TensorSpec(function.inputs[0].shape, tf.float32, "x")
        return tf.function(lambda x: {"y": function(x)["y"] + number}).get_concrete_function(x)

    tf.saved_model.save(
        tf.Module(), str(folder), signatures={f"s{n}": calling(n) for n in range(signatures)}
    )
    return folder


def operations(folder: Path) -> set[str]:
    return {node.op for node in nodes_of(folder)}


def loaded_signature(folder: Path, network: tf.types.experimental.GenericFunction, *kept: object):
    """`network` as it comes out of a SavedModel; `kept`: its variables and tables."""
    module = tf.Module()
    module.kept = kept
    tf.saved_model.save(module, str(folder), signatures=network)
    loaded = tf.saved_model.load(str(folder))
    network = loaded.signatures["serving_default"]
    network.keep_alive = loaded
    return network


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> tf.types.experimental.ConcreteFunction:
    """A signature with a variable of 1 MB: y = x * w."""
    w = tf.Variable(np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32))
    network = signature(lambda x: {"y": x @ w}, spec(tf.float32, None, 512))
    return loaded_signature(tmp_path_factory.mktemp("wide"), network, w)


def test_no_variable_is_left_and_four_signatures_share_one_copy(wide, tmp_path) -> None:
    folder = saved(tmp_path / "1", freeze(wide).function(), signatures=4)
    assert not {"VarHandleOp", "ReadVariableOp"} & operations(folder)
    assert 2**20 < (folder / "saved_model.pb").stat().st_size < 1.1 * 2**20
    loaded = tf.saved_model.load(str(folder)).signatures
    x = tf.random.uniform((2, 512))
    for number in range(4):
        np.testing.assert_allclose(
            loaded[f"s{number}"](x=x)["y"], wide(x=x)["y"] + number, rtol=1e-5
        )


def test_what_does_not_depend_on_the_input_is_computed_beforehand(tmp_path) -> None:
    scale = tf.Variable(tf.random.uniform((64, 64)))
    network = signature(
        lambda x: {"y": x @ (tf.math.rsqrt(scale + 1.0) * 3.0)}, spec(tf.float32, None, 64)
    )
    folder = saved(
        tmp_path / "2", freeze(loaded_signature(tmp_path / "1", network, scale)).function()
    )
    assert "MatMul" in operations(folder)
    assert not {"Rsqrt", "Mul"} & operations(folder)


def test_branches_and_loops_survive(tmp_path) -> None:
    steps = tf.Variable(3)
    weights = tf.Variable(tf.random.uniform((32, 32)) / 32)

    @tf.function(input_signature=[tf.TensorSpec((None, 32), tf.float32, "x")])
    def network(x):
        looped = tf.while_loop(lambda i, _: i < steps, lambda i, v: (i + 1, v @ weights), (0, x))[1]
        return {"y": tf.cond(tf.reduce_sum(x) > 0, lambda: looped, lambda: -looped)}

    frozen = freeze(loaded_signature(tmp_path, network, steps, weights)).function()
    gc.collect()  # what was frozen is gone, and with it its functions
    for x in (tf.ones((2, 32)), -tf.ones((2, 32))):
        np.testing.assert_allclose(frozen(x)["y"], network(x)["y"], rtol=1e-5)


def deep(folder: Path, product: bool) -> tf.types.experimental.ConcreteFunction:
    """A signature with four scaled convolutions of 147 kB, and a matrix of 77 kB or the product of two."""
    generator = np.random.default_rng(0)
    kernels = [
        tf.Variable(generator.normal(0, 0.05, (3, 3, 64, 64)).astype(np.float32)) for _ in range(4)
    ]
    scales = [tf.Variable(generator.uniform(0.5, 2, 64).astype(np.float32)) for _ in range(4)]
    left, right = (
        tf.Variable(generator.normal(0, 0.1, (64, 300)).astype(np.float32)) for _ in range(2)
    )

    @tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 64), tf.float32, "x")])
    def network(x):
        for kernel, scale in zip(kernels, scales, strict=True):
            x = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME") * (scale / tf.sqrt(scale + 1)))
        return {"y": x @ (tf.matmul(left, right, transpose_b=True) if product else left)}

    return loaded_signature(folder, network, *kernels, *scales, left, right)


@pytest.mark.parametrize("product", [False, True])
def test_large_constants_are_folded_in_parts_with_the_same_result(
    tmp_path, monkeypatch, product: bool
) -> None:
    network, sizes = deep(tmp_path, product), []
    at_once = freeze(network).graph_def
    optimise = tf_optimizer.OptimizeGraph

    def recorded(config, meta_graph):
        sizes.append(meta_graph.ByteSize())
        return optimise(config, meta_graph)

    monkeypatch.setattr(freezing, "PART_BYTES", 2**17)
    monkeypatch.setattr(freezing.tf_optimizer, "OptimizeGraph", recorded)
    frozen = freeze(network)
    assert Counter(node.op for node in frozen.graph_def.node) == Counter(
        node.op for node in at_once.node
    )
    assert (
        Counter(node.op for node in at_once.node)["Mul"] == 0
    )  # the scales are in the convolutions
    x = tf.random.stateless_uniform((2, 8, 8, 64), (1, 2))
    np.testing.assert_allclose(frozen.function()(x)["y"], network(x=x)["y"], rtol=1e-3, atol=1e-5)
    largest = max(
        sizes[:-1] if product else sizes
    )  # matrices that are multiplied need a pass with all constants
    assert largest < 2**18 < at_once.ByteSize()


def test_more_than_a_saved_model_holds_is_refused(wide, monkeypatch) -> None:
    monkeypatch.setattr(freezing, "MAX_CONSTANT_BYTES", 10**6)
    with pytest.raises(FreezingError, match=r"the constants take 0\.0 GB"):
        freeze(wide).function()
