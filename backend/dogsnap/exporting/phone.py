"""The network that answers on phones, without a connection: that of the second
opinion by itself, with labels, thresholds and a dog score of its own.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from dogsnap.exporting.eight_bits import MODEL, WEIGHTS, write_graph_model, write_onnx
from dogsnap.exporting.export import (
    ExportError,
    Stored,
    check_made_with,
    read_json,
    stated_groups,
)
from dogsnap.exporting.freezing import FrozenGraph, freeze
from dogsnap.exporting.layers import Tensors
from dogsnap.networks.halves import read_halves
from dogsnap.networks.second_opinion import OPINION
from dogsnap.serving.answers.levels import Decision
from dogsnap.serving.versions import checksums
from dogsnap.serving.versions.phone_files import DESCRIPTION, FOLDER, parts_of

FITTED = "phone.json"  # beside the weights: what was fitted on what this network sees
ONNX = "network.onnx"
CALIBRATION = ("temperature", "lapse", "log_prior")


def network_graph(network: keras.Model, kernel: np.ndarray, bias: np.ndarray) -> FrozenGraph:
    """A network of `efficientnet_lite` with a last layer (f, k) and (k,): an
    image float32 (1, side, side, 3) in [0, 1] -> scores (1, k).
    """
    head = keras.layers.Dense(len(bias), name="scores", dtype="float32")
    model = keras.Model(network.input, head(network.output["features"]))
    head.set_weights([kernel, bias])

    def scores(*, image: tf.Tensor) -> Tensors:
        return {"scores": model(image, training=False)}

    image = tf.TensorSpec((1, *network.input_shape[1:]), tf.float32, name="image")
    return freeze(tf.function(scores, autograph=False).get_concrete_function(image=image))


def known_labels(stored: Stored) -> list[dict[str, Any]]:
    """Those of the breeds that the second opinion knows, in the order of its
    `breed_weights`.
    """
    taught = stored.description.get("taught", ())
    unknown = {breed["id"] for breed in taught if OPINION not in breed}
    return [label for label in stored.description["labels"] if label["id"] not in unknown]


def write(version: Path, stored: Stored, artefacts: Path) -> None:
    """Add the network to a version; nothing where no FITTED lies in
    `artefacts`.

    Its scores are the logits of the breeds: the mean over the parts of the photo
    that `parts_of` names. The largest, with `dog_bias` added, is the logit of a
    dog. Raises ExportError for a FITTED of another network or other breeds.
    """
    if stored.opinion is None or not (artefacts / FITTED).is_file():
        return
    fitted = read_json(artefacts / FITTED)
    check_made_with(
        fitted["network"],
        stored.opinion.sha256,
        artefacts / FITTED,
        "run `python -m lab calibrate --phone`",
        "the network beside it",
    )
    calibration, labels = fitted["calibration"], known_labels(stored)
    if len(calibration["log_prior"]) != len(labels):
        raise ExportError(
            f"{artefacts / FITTED} was fitted for {len(calibration['log_prior'])} breeds, expected "
            f"{len(labels)}, as the network beside knows; run `python -m lab calibrate --phone`"
        )
    head = stored.opinion.breed_weights(stored.description.get("taught", ()))
    if "kernel" in fitted:  # a last layer of its own
        head = read_halves(fitted["kernel"]).reshape(head[0].shape), np.array(fitted["bias"])
    graph = network_graph(stored.opinion.network, *head)
    folder = version / FOLDER
    folder.mkdir()
    write_graph_model(graph, folder)
    write_onnx(graph, folder / ONNX)
    files = {}
    for name in (MODEL, WEIGHTS, ONNX):
        contents = (folder / name).read_bytes()
        # Detects damage; what phones can compute of a file.
        sha1 = hashlib.sha1(contents, usedforsecurity=False).hexdigest()
        files[name] = {"bytes": len(contents), "sha1": sha1}
    description = {
        "side": stored.opinion.network.input_shape[1],
        "parts": parts_of(fitted),
        "labels": labels,
        **{name: calibration[name] for name in CALIBRATION},
        "dog_bias": fitted["dog_bias"],
        "decision": Decision.read(calibration).to_json(),
        "groups": stated_groups(calibration, artefacts, labels),
    }
    # Of what it answers: the names of its operations are others in each export.
    stated = json.dumps([description, files[WEIGHTS]])
    digest = hashlib.sha256(stated.encode()).hexdigest()[:16]
    text = json.dumps({"digest": digest, **description, "files": files}, ensure_ascii=False)
    (folder / DESCRIPTION).write_text(text, encoding="utf-8")
    checksums.write(version)
