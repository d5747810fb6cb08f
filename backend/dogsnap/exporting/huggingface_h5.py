"""Converts the weights of Hugging Face's TensorFlow models, HDF5 files, to the
checkpoint that KerasHub reads.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np

from dogsnap.exporting import Report

WEIGHTS = "tf_model.h5"
SAFETENSORS = "model.safetensors"
PROCESSOR = "preprocessor_config.json"
# The last part of a variable's name in Keras, and in the checkpoint.
PARTS = {"kernel": "weight", "gamma": "weight", "beta": "bias"}


def is_tensorflows(folder: Path) -> bool:
    """Whether the checkpoint in `folder` has its weights as TensorFlow's
    `save_pretrained` writes them, and no others.
    """
    return (folder / WEIGHTS).is_file() and not list(folder.glob(f"{SAFETENSORS}*"))


@contextmanager
def as_safetensors(folder: Path, report: Report) -> Iterator[Path]:
    """A temporary folder with the checkpoint in safetensors.

    `save_pretrained` of a model does not write how its photos are prepared;
    without a preprocessor_config.json, that is as ViTImageProcessor does it by
    default. Raises OSError for a file that is no HDF5, ValueError for one that
    holds no ViT.
    """
    from safetensors.numpy import save_file

    with TemporaryDirectory() as temporary:
        copy = Path(temporary)
        for file in folder.glob("*.json"):
            shutil.copy(file, copy)
        if not (copy / PROCESSOR).exists():
            report(
                f"{folder} has no {PROCESSOR}: pixels are scaled to [-1, 1], as "
                "ViTImageProcessor does by default"
            )
            (copy / PROCESSOR).write_text("{}")
        save_file(read_weights(folder / WEIGHTS), copy / SAFETENSORS, metadata={"format": "pt"})
        yield copy


def read_weights(file: Path) -> dict[str, np.ndarray]:
    """The weights of a ViT classifier by their names in a checkpoint.

    Raises OSError or ValueError as `as_safetensors` does.
    """
    weights = {}

    def read_item(_: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            name, value = _of_hdf5(item)
            weights[name] = value

    with h5py.File(file) as root:
        root.visititems(read_item)
    if not any(name.startswith("vit.") for name in weights):
        raise ValueError(
            f"{file} holds no ViT; expected what TFViTForImageClassification.save_pretrained writes"
        )
    return weights


def _of_hdf5(variable: h5py.Dataset) -> tuple[str, np.ndarray]:
    """/vit/MODEL/vit/encoder/layer_._0/output/dense/kernel:0 is
    vit.encoder.layer.0.output.dense.weight, its axes swapped; its first two
    parts are the layer's and the model's names.
    """
    _, _, _, *parts, name = variable.name.split("/")
    last = name.partition(":")[0]
    name = re.sub(r"layer_\._(\d+)", r"layer.\1", ".".join([*parts, PARTS.get(last, last)]))
    value = np.asarray(variable)
    if last == "kernel":
        # Keras keeps a dense kernel as (in, out), a convolution's as (height, width, in,
        # out); the checkpoint has (out, in) and (out, in, height, width).
        value = np.moveaxis(value, (-1, -2), (0, 1))
    return name, np.ascontiguousarray(value)
