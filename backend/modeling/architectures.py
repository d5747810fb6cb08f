"""The networks that can be trained and exported, as Keras models with images in [0, 1] going in and logits coming out.

It does not train them, and knows nothing of files but the two weights formats that it reads and writes.
"""

import os
import shutil
import zlib
from pathlib import Path

import keras
import numpy as np

# Blocks behind `mixed8` see 8x8 positions at 299x299: the "upper" part, cheap to train, where a network learns its new classes.
UPPER_BLOCKS_START = "mixed8"

STORED_WEIGHTS = "float16.weights.h5"


class StoredStatistics(keras.layers.Layer):
    """Runs a network whose batch normalisation keeps to its stored statistics, while training too; all its weights can learn.

    A batch of dogs alone shifts the statistics under the fitted upper layers so far that the loss climbs from 1 to 5. Calling a
    network with `training=False` is not enough: Keras 3 overrules that inside a functional model when it is fitted.
    `training.StatisticsDrift` moves the statistics slowly instead.
    """

    def __init__(self, network: keras.Model, **options) -> None:
        super().__init__(**options)
        self.network = network

    def call(self, image):
        """Feature maps (n, h', w', channels) of images (n, h, w, 3)."""
        return self.network(image, training=False)


def inception_v3(classes: int, size: tuple[int, int] = (299, 299), dropout: float = 0.2) -> keras.Model:
    """Inception v3 (Szegedy et al., 2015, as in Keras Applications) with a head for breeds and one for "is this a dog".

    Input: `image` float32 (n, height, width, 3) in [0, 1].
    Output: {"breeds": (n, classes), "dog": (n, 1)}, float32 logits.
    """
    image = keras.Input((*size, 3), name="image")
    scaled = keras.layers.Rescaling(2.0, offset=-1.0, name="to_inception_range")(image)
    network = keras.applications.InceptionV3(weights=None, include_top=False, input_shape=(*size, 3))
    maps = StoredStatistics(network, name="backbone")(scaled)
    features = keras.layers.GlobalAveragePooling2D(name="features", dtype="float32")(maps)
    dropped = keras.layers.Dropout(dropout, name="dropout", dtype="float32")(features)
    breeds = keras.layers.Dense(classes, name="breeds", dtype="float32")(dropped)
    dog = keras.layers.Dense(1, name="dog", dtype="float32")(features)
    return keras.Model(image, {"breeds": breeds, "dog": dog}, name="inception_v3")


ARCHITECTURES = {"inception_v3": inception_v3}


def feature_extractor(model: keras.Model) -> keras.Model:
    """The same network up to its pooled features: image (n, h, w, 3) in [0, 1] -> float32 (n, 2048). Shares the weights."""
    return keras.Model(model.input, model.get_layer("features").output)


def backbone_of(model: keras.Model) -> keras.Model:
    """The network between the image and the pooled features."""
    return model.get_layer("backbone").network


def load_imagenet_weights(model: keras.Model, weights: str) -> None:
    """Fill the backbone with ImageNet weights: `imagenet` lets Keras Applications fetch them, anything else is a file.

    A file may be incomplete (kernels with a run of zeros at the start): those values are drawn as for a fresh layer, since
    a dead part would pass no signal on. Raises FileNotFoundError or ValueError, in one sentence, when the file does not fit.
    """
    backbone = backbone_of(model)
    if weights == "imagenet":
        source = keras.applications.InceptionV3(
            weights="imagenet", include_top=False, input_shape=backbone.input_shape[1:]
        )
        backbone.set_weights(source.get_weights())
        return
    _load_weights_file(backbone, Path(weights))
    for variable in backbone.weights:
        if variable.name == "kernel":
            variable.assign(_refill_missing(variable.numpy(), variable.path))


def _load_weights_file(model: keras.Model, path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"weights file {path} does not exist; give a .weights.h5 file, or `imagenet`")
    try:
        model.load_weights(path)
    except (ValueError, OSError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"weights file {path} does not fit the network {model.name}: {reason}") from error


def _refill_missing(kernel: np.ndarray, seed_text: str) -> np.ndarray:
    """Replace a leading run of zeros by Glorot-uniform values of the kernel's own fan; other kernels come back unchanged."""
    flat = kernel.reshape(-1).copy()
    filled = np.flatnonzero(flat)
    missing = flat.size if filled.size == 0 else int(filled[0])
    if missing < 16:  # a trained value may be 0 by rounding; a run of them at the start is a gap
        return kernel
    receptive = int(np.prod(kernel.shape[:-2]))
    limit = np.sqrt(6.0 / (receptive * (kernel.shape[-2] + kernel.shape[-1])))
    generator = np.random.default_rng(zlib.crc32(seed_text.encode()))
    flat[:missing] = generator.uniform(-limit, limit, missing)
    return flat.reshape(kernel.shape)


def save_stored_weights(model: keras.Model, architecture: str, path: Path) -> None:
    """Write every weight as float16, half the size; `load_stored_weights` casts back. The file is replaced in one step."""
    half = _stored_form(architecture, model)
    require_room(path.parent, 4 * model.count_params())
    temporary = path.with_name(".partial." + path.name)
    half.save_weights(temporary)
    os.replace(temporary, path)


def load_stored_weights(model: keras.Model, path: Path) -> None:
    """Read a file of `save_stored_weights` into a float32 model. Raises ValueError in one sentence when it does not fit."""
    _load_weights_file(model, path)


def require_room(folder: Path, size: int) -> None:
    """Raises OSError unless `size` bytes, and a megabyte for the file's own structure, fit on the disk below `folder`.

    Asked before HDF5 writes: its library ends the whole process, without a word, when a write fails halfway.
    """
    size, free = size + 1_000_000, shutil.disk_usage(folder).free
    if free < size:
        raise OSError(
            f"no room below {folder}: {size / 1e6:.1f} MB are needed, {free / 1e6:.1f} MB are free; free some and go on"
        )


def _stored_form(architecture: str, model: keras.Model) -> keras.Model:
    """A copy whose backbone holds float16 variables; the heads, 1 % of the size, stay float32."""
    size, classes = model.input_shape[1:3], model.get_layer("breeds").units
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float16")
    try:
        half = ARCHITECTURES[architecture](classes, size)
    finally:
        keras.config.set_dtype_policy(policy)
    half.set_weights(model.get_weights())
    return half
