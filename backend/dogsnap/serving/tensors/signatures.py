"""The signatures of a version, and the id that names a version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from dogsnap.errors import FailedPrecondition

DEFAULT_SIGNATURE = "serving_default"
# Of aliases of binary values, by the convention of Cloud ML Engine and TensorFlow Serving.
BYTES_SUFFIX = "_bytes"


@dataclass(frozen=True, order=True)
class ServableId:
    """A model's name and the number of one of its versions."""

    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a signature, by alias; `method` is e.g. tensorflow/serving/predict."""

    name: str
    method: str
    inputs: Mapping[str, tf.TensorSpec]
    outputs: Mapping[str, tf.TensorSpec]


class UnknownSignature(FailedPrecondition):
    """`name` was requested, `known` exist."""

    def __init__(self, name: str, known: Sequence[str]):
        names = ", ".join(f'"{each}"' for each in known)
        super().__init__(
            f'Serving signature name: "{name}" not found in signature def; this version has: {names}'
        )
        self.name = name
