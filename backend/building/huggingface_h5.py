"""Converts the weights of Hugging Face's TensorFlow models, as HDF5 or safetensors, to the checkpoint that KerasHub reads."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np

WEIGHTS = "tf_model.h5"
SAFETENSORS = "model.safetensors"
PROCESSOR = "preprocessor_config.json"
# The last part of a variable's name in Keras, and in the checkpoint.
PARTS = {"kernel": "weight", "gamma": "weight", "beta": "bias"}
# Keras keeps a dense kernel as (in, out), a convolution's as (height, width, in, out); the checkpoint has (out, in) and
# (out, in, height, width).
AXES = {2: (1, 0), 4: (3, 2, 0, 1)}


def is_tensorflows(folder: Path) -> bool:
    """Whether the checkpoint in `folder` has its weights as TensorFlow's `save_pretrained` writes them, and no others."""
    if list(folder.glob(f"{SAFETENSORS}*")):
        return _has_names_of_tensorflow(folder / SAFETENSORS)
    return (folder / WEIGHTS).is_file()


def _has_names_of_tensorflow(file: Path) -> bool:
    """Whether save_pretrained(safe_serialization=True) of a TensorFlow model wrote the file. False for one that is none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "np") as weights:
            return (weights.metadata() or {}).get("format") == "tf"
    except (SafetensorError, OSError):
        return False


@contextmanager
def as_safetensors(folder: Path, report: Callable[[str], None]) -> Iterator[Path]:
    """A temporary folder with the checkpoint in safetensors.

    `save_pretrained` of a model does not write how its photos are prepared; without a preprocessor_config.json, that is as
    ViTImageProcessor does it by default. Raises OSError for a file that is no HDF5, ValueError for one that holds no ViT.
    """
    from safetensors.numpy import save_file

    with TemporaryDirectory() as temporary:
        copy = Path(temporary)
        for file in folder.glob("*.json"):
            shutil.copy(file, copy)
        if not (copy / PROCESSOR).exists():
            report(f"{folder} has no {PROCESSOR}: pixels are scaled to [-1, 1], as ViTImageProcessor does by default")
            (copy / PROCESSOR).write_text("{}")
        weights = (
            read_safetensors(folder / SAFETENSORS)
            if (folder / SAFETENSORS).exists()
            else read_weights(folder / WEIGHTS)
        )
        save_file(weights, copy / SAFETENSORS, metadata={"format": "pt"})
        yield copy


def read_weights(file: Path) -> dict[str, np.ndarray]:
    """The weights of a ViT classifier by their names in a checkpoint. Raises OSError or ValueError as `as_safetensors` does."""
    weights = {}
    with h5py.File(file) as root:
        for layer in root.values():
            layer.visititems(
                lambda _, item: weights.update([_of_hdf5(item)]) if isinstance(item, h5py.Dataset) else None
            )
    return _of_a_vit(weights, file)


def read_safetensors(file: Path) -> dict[str, np.ndarray]:
    """As `read_weights`, of safetensors with TensorFlow's names: vit/encoder/layer_._0/output/dense/kernel:0."""
    from safetensors.numpy import load_file

    return _of_a_vit(dict(_renamed(name.split("/"), value) for name, value in load_file(file).items()), file)


def _of_a_vit(weights: dict[str, np.ndarray], file: Path) -> dict[str, np.ndarray]:
    if not any(name.startswith("vit.") for name in weights):
        raise ValueError(f"{file} holds no ViT; expected what TFViTForImageClassification.save_pretrained writes")
    return weights


def _of_hdf5(variable: h5py.Dataset) -> tuple[str, np.ndarray]:
    """Of /vit/MODEL/vit/encoder/layer_._0/output/dense/kernel:0 the first two parts are the layer's and the model's."""
    _, _, _, *parts = variable.name.split("/")
    return _renamed(parts, np.asarray(variable))


def _renamed(parts: list[str], value: np.ndarray) -> tuple[str, np.ndarray]:
    """vit, encoder, layer_._0, output, dense, kernel:0 is vit.encoder.layer.0.output.dense.weight, its axes swapped."""
    last = parts[-1].partition(":")[0]
    name = re.sub(r"layer_\._(\d+)", r"layer.\1", ".".join([*parts[:-1], PARTS.get(last, last)]))
    return name, np.ascontiguousarray(value.transpose(AXES[value.ndim]) if last == "kernel" else value)
