"""Infers the value range of an output from its last bounded operation (tanh, sigmoid, softmax)."""

import tensorflow as tf

# Operations that do not change the values.
PASSING = {
    "Identity",
    "Reshape",
    "Transpose",
    "Squeeze",
    "ExpandDims",
    "EnsureShape",
    "StopGradient",
    "Cast",
    "Snapshot",
}
RANGES = {"Tanh": (-1.0, 1.0), "Sigmoid": (0.0, 1.0), "Softmax": (0.0, 1.0)}


def bounded_by_last_op(output: tf.Tensor) -> tuple[str, tuple[float, float]] | None:
    """The operation that bounds `output`, a tensor of a graph without function calls, and its bounds; None if none does."""
    operation = output.op
    while operation.type in PASSING:
        operation = operation.inputs[0].op
    bounds = RANGES.get(operation.type)
    return (operation.type.lower(), bounds) if bounds else None
