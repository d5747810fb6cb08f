"""Runs a version's network by OpenVINO where the version brings it in that form, since its export found that to be faster.

It converts and measures nothing: `modeling/acceleration.py` does. What stands around the network (decoding, resizing, names)
stays TensorFlow's, and so does the whole version wherever OpenVINO cannot be used.
"""

import json
import logging
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from backend.serving import checksums

log = logging.getLogger("dogsnap.runtimes")

FOLDER = Path("assets.extra") / "runtime"  # TensorFlow Serving does not look into it
FACTS, NETWORK, AROUND = "runtime.json", "network.xml", "around"
BEFORE, AFTER = "before_", "after_"
TENSORFLOW, OPENVINO = "tensorflow", "openvino"
# Images in the network at once: one, by all cores.
STREAMS = 1

Arrays = dict[str, np.ndarray]
Run = Callable[[Mapping[str, tf.Tensor]], Mapping[str, Any]]


class Unfit(Exception):
    """OpenVINO cannot run this version here; the message says why."""


@dataclass(frozen=True)
class Facts:
    """What an export found out and wrote into runtime.json.

    `precision`: "f32" or "bf16", the numbers that the network multiplies. `speedup`: how many times as fast as TensorFlow.
    `largest_difference`: between their answers; `tolerance`: what was allowed. `measured_by`: program and processor.
    `outputs`: of the network, in its order. `signatures`: the outputs of each signature. `grey`: the answers to a grey image.
    """

    precision: str
    speedup: float
    largest_difference: float
    tolerance: float
    measured_by: str
    outputs: Sequence[str]
    signatures: Mapping[str, Sequence[str]]
    grey: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> "Facts":
        """Raises Unfit for a file that is not as `write` writes it."""
        try:
            return cls(**json.loads((folder / FACTS).read_text(encoding="utf-8")))
        except (OSError, TypeError, ValueError) as error:
            raise Unfit(f"{folder / FACTS} cannot be read: {error}") from error

    def write(self, folder: Path) -> None:
        """Put the facts down as JSON."""
        (folder / FACTS).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def summary(self) -> dict[str, Any]:
        """What a reader of `/api/models` learns."""
        return {
            "name": OPENVINO,
            "precision": self.precision,
            "speedup": self.speedup,
            "largest_difference": self.largest_difference,
            "measured_by": self.measured_by,
        }


def load(version: Path, identity: object) -> "tuple[Accelerated | None, dict[str, Any]]":
    """The version's signatures by OpenVINO, or None where TensorFlow has to run them; and what `/api/models` says of it."""
    if not (version / FOLDER).is_dir():
        return None, {"name": TENSORFLOW}
    try:
        if tf.config.list_physical_devices("GPU"):
            raise Unfit("TensorFlow has a GPU here")
        accelerated = Accelerated(version / FOLDER)
    except Exception as error:  # made by another program, for another processor: TensorFlow can run it anyway
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        log.warning("%s is run by TensorFlow, not by OpenVINO: %s", identity, reason)
        return None, {"name": TENSORFLOW, "in_place_of": OPENVINO, "reason": reason}
    return accelerated, accelerated.facts.summary()


class Accelerated:
    """The signatures of a version, each in three steps: before the network, the network, after it."""

    def __init__(self, folder: Path):
        """Raises Unfit, or whatever OpenVINO raises, where it does not answer as the export's TensorFlow did."""
        self.facts = Facts.read(folder)
        self._network = shared_network(folder, self.facts)
        self._around = tf.saved_model.load(str(folder / AROUND))
        steps = self._around.signatures
        self.signatures: dict[str, Run] = {
            name: self._run(outputs, steps, steps.get(AFTER + name)) for name, outputs in self.facts.signatures.items()
        }

    def _run(self, outputs: Sequence[str], steps: Mapping[str, Callable], after: Callable | None) -> Run:
        def run(**inputs: tf.Tensor) -> Mapping[str, Any]:
            (alias,) = inputs
            before = steps.get(BEFORE + alias)
            (images,) = (before(**inputs) if before else inputs).values()
            answers = self._network.run(images.numpy())
            if after:
                return after(**{name: tf.constant(value) for name, value in answers.items()})
            return {name: answers[name] for name in outputs}

        return run


class Weights:
    """The network as it lies in its file, which is mapped into memory once for all precisions."""

    def __init__(self, file: Path):
        self.core = import_openvino().Core()
        self.model = self.core.read_model(file)


class Network:
    """A network compiled for this processor: one copy for all threads, and for all versions that hold the same network."""

    def __init__(self, weights: Weights, precision: str, outputs: Sequence[str]):
        self.shape = tuple(weights.model.input(0).get_shape())[1:]
        self._weights, self._outputs = weights, outputs
        settings = {
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": cores(),
            "NUM_STREAMS": STREAMS,
            # Threads tied to a core wait for it while another program has it: 1.6 times the time beside one.
            "ENABLE_CPU_PINNING": False,
        }
        compiled = weights.core.compile_model(weights.model, "CPU", settings)
        self._idle: queue.SimpleQueue = queue.SimpleQueue()
        for _ in range(STREAMS):
            self._idle.put(compiled.create_infer_request())

    def run(self, images: np.ndarray) -> Arrays:
        """Images float32 (n, height, width, channels) -> each output, (n, ...).

        One image after the other, so that a photo costs the same in a batch of any size.
        """
        rows = [self._one(image) for image in images] or [self._one(np.zeros(self.shape, np.float32))]
        return {name: np.stack([row[place] for row in rows])[: len(images)] for place, name in enumerate(self._outputs)}

    def _one(self, image: np.ndarray) -> list[np.ndarray]:
        request = self._idle.get()
        try:
            answers = request.infer([np.ascontiguousarray(image)[np.newaxis]], share_inputs=True)
            return [answers[place][0] for place in range(len(self._outputs))]
        finally:
            self._idle.put(request)


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_WEIGHTS: "weakref.WeakValueDictionary[str, Weights]" = weakref.WeakValueDictionary()
_NETWORKS: "weakref.WeakValueDictionary[tuple[str, str], Network]" = weakref.WeakValueDictionary()
_LOADING = threading.Lock()


def shared_network(folder: Path, facts: Facts) -> Network:
    """The network of a version; the one in memory already where another version holds the same files.

    Raises Unfit when it does not answer as it did at the export.
    """
    file = folder / NETWORK
    content = checksums.digest(file) + checksums.digest(file.with_suffix(".bin"))
    with _LOADING:
        network = _NETWORKS.get((content, facts.precision))
        if network is None:
            weights = _WEIGHTS.get(content) or Weights(file)
            network = Network(weights, facts.precision, facts.outputs)
            check_grey(network, facts)
            _WEIGHTS[content] = weights
            _NETWORKS[content, facts.precision] = network
        return network


def check_grey(network: Network, facts: Facts) -> None:
    """Raises Unfit unless the network answers a grey image as it did for the export; that also is its first, slow run."""
    answers = network.run(np.full((1, *network.shape), 0.5, np.float32))
    for name, expected in facts.grey.items():
        difference = float(np.abs(answers[name] - np.asarray(expected)).max())
        if not difference <= facts.tolerance:
            raise Unfit(
                f"it answers a grey image otherwise than at the export: {name} differs by {difference:.2g}, "
                f"expected at most {facts.tolerance:g}"
            )


def import_openvino() -> Any:
    """The module openvino, without its converter of models: that one reports each import to its maker over the network.

    Raises Unfit where it is not installed.
    """
    converter = "openvino.tools.ovc"
    left_out = converter not in sys.modules
    if left_out:
        sys.modules[converter] = None
    try:
        import openvino
    except ImportError as error:
        raise Unfit(f"OpenVINO is not installed ({error})") from error
    finally:
        if left_out:
            del sys.modules[converter]
    return openvino
