"""Functions of a SavedModel in the runtime: they answer as TensorFlow's loader has them, and leave with their owner."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.serving.versions.graph_functions import GraphFunctions
from tensorflow.python.eager import context


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two signatures, one of which has a branch and adds a constant from outside of it."""
    folder = tmp_path_factory.mktemp("around")
    added = tf.constant([10.0, 20.0])

    @tf.function(
        input_signature=[tf.TensorSpec([None, 2], name="left"), tf.TensorSpec([], name="right")]
    )
    def both(left, right):
        shown = tf.cond(right > 0, lambda: left + added, lambda: left)
        return {"sum": shown * right, "first": left[0, 0]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def length(text):
        return {"length": tf.strings.length(text)}

    tf.saved_model.save(tf.Module(), str(folder), signatures={"both": both, "length": length})
    return folder


def test_they_answer_as_those_of_the_loader_and_take_their_own_of_what_is_known(folder):
    functions, reference = GraphFunctions(folder), tf.saved_model.load(str(folder)).signatures
    assert set(functions) == {"both", "length"} == set(reference)
    for right in (2.0, -1.0):
        known = {"right": right, "left": np.ones((3, 2), np.float32), "text": [b"more"]}
        answers = functions["both"](known)
        expected = reference["both"](left=tf.ones((3, 2)), right=tf.constant(right))
        assert set(answers) == {"sum", "first"}
        for name, value in expected.items():
            np.testing.assert_array_equal(answers[name], value)
    assert functions["length"]({"text": [b"four"]})["length"].numpy().tolist() == [4]


def test_the_same_file_is_loaded_twice_and_each_leaves_with_its_owner(folder):
    first, second = GraphFunctions(folder), GraphFunctions(folder)
    names = [functions["length"].name.encode() for functions in (first, second)]
    assert len(set(names)) == 2
    del first
    assert [context.context().has_function(name) for name in names] == [False, True]
    assert second["length"]({"text": [b"four"]})["length"].numpy().tolist() == [4]


def test_a_graph_with_variables_is_refused(tmp_path):
    module = tf.Module()
    module.variable = tf.Variable(1.0)
    scaled = tf.function(lambda value: {"scaled": value * module.variable})
    signature = scaled.get_concrete_function(tf.TensorSpec([], name="value"))
    tf.saved_model.save(module, str(tmp_path), signatures=signature)
    with pytest.raises(KeyError):
        GraphFunctions(tmp_path)
