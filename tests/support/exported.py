"""A tiny network with the interface of the real one, exported and merged by the real code, and photos to ask it about."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from dogsnap.exporting.export import Stored
from dogsnap.files import write_json
from dogsnap.networks.architectures import STORED_WEIGHTS, backbone_of, save_stored_weights
from dogsnap.networks.temperature import Calibration
from dogsnap.serving.versions import checksums
from tensorflow.core.protobuf import saved_model_pb2

from support.photos import striped
from support.tiny_network import tiny

SIZE = (16, 16)
LABELS = [
    {"id": "n00000001", "name": "red hound", "name_zh": "红猎犬"},
    {"id": "n00000002", "name": "green terrier", "name_zh": "绿梗犬"},
    {"id": "n00000003", "name": "blue spaniel", "name_zh": "蓝猎鹬犬"},
]
DESCRIPTION = {
    "model": "tiny",
    "labels": LABELS,
    "input_size": list(SIZE),
    "decision": {"dog_threshold": 0.4, "confident_threshold": 0.6},
    "source": {"weights": "random"},
}
TEMPERATURE, LOG_PRIOR, LAPSE = 1.5, [0.4, -0.1, -0.3], 0.03
CALIBRATION = Calibration(TEMPERATURE, np.array(LOG_PRIOR, np.float32), LAPSE)


def network() -> keras.Model:
    """Random weights, wide enough apart for three clearly different probabilities; statistics that are not 0 and 1."""
    keras.utils.set_random_seed(7)
    model = tiny(3, SIZE)
    generator = np.random.default_rng(7)
    for layer in backbone_of(model).layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            beta, mean, variance = (weight.shape for weight in layer.weights)
            layer.set_weights(
                [
                    generator.normal(0, 0.3, beta),
                    generator.normal(0, 0.3, mean),
                    generator.uniform(0.5, 2, variance),
                ]
            )
    for name in ("breeds", "dog"):
        kernel, bias = model.get_layer(name).get_weights()
        model.get_layer(name).set_weights([kernel * 4, bias])
    return model


def store(folder: Path, scores: dict) -> str:
    """Store the network with its scores, as training and calibration do; returns the digest of its weights."""
    folder.mkdir(parents=True)
    save_stored_weights(network(), folder / STORED_WEIGHTS)
    weights = checksums.digest(folder / STORED_WEIGHTS)
    write_json(LABELS, folder / "labels.json")
    write_json({"architecture": "tiny", "size": SIZE, "seed": 1}, folder / "recipe.json")
    write_json({"weights": weights, **scores}, folder / "scores.json")
    return weights


def export(model_folder: Path, model: keras.Model | None = None) -> Path:
    return Stored(model or network(), CALIBRATION, DESCRIPTION).export(model_folder).folder


class Loaded:
    """A version and its signatures, as TensorFlow loads them: `loaded.scores(image_bytes=...)`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._loaded = tf.saved_model.load(str(folder))
        self.signatures = dict(self._loaded.signatures)

    def __getattr__(self, name: str):
        return self.signatures[name]


def nodes_of(folder: Path) -> list[tf.compat.v1.NodeDef]:
    """All nodes of a version, those of its functions included."""
    contents = (folder / "saved_model.pb").read_bytes()
    graph = saved_model_pb2.SavedModel.FromString(contents).meta_graphs[0].graph_def
    return [
        node
        for nodes in [graph.node, *(each.node_def for each in graph.library.function)]
        for node in nodes
    ]


def photos(count: int = 4) -> list[bytes]:
    """PNG files of different sizes and colours."""
    colours = ((200, 60, 50), (60, 190, 70), (60, 80, 210), (240, 240, 20))
    return [
        png(np.asarray(striped(colours[number % 4], number, (40 + number, 30))))
        for number in range(count)
    ]


def png(pixels: np.ndarray) -> bytes:
    return tf.io.encode_png(tf.constant(pixels, tf.uint8)).numpy()


def contents_of(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`, by its path."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }
