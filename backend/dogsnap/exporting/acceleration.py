"""Adds an OpenVINO copy of a version's network, if that is measurably faster
and gives the same answers.

Why OpenVINO, and why bfloat16 before int8: backend/lab/notes.md.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from timeit import timeit

import numpy as np
import tensorflow as tf

from dogsnap import processor
from dogsnap.exporting import Report
from dogsnap.exporting.drawn_pictures import drawn_pictures
from dogsnap.exporting.freezing import FrozenGraph, Function
from dogsnap.exporting.quantization import Ranges, write_quantised
from dogsnap.serving.versions.openvino_runtime import (
    AFTER,
    AGAIN,
    AROUND,
    BEFORE,
    BFLOAT16,
    COMBINED,
    EXACT,
    FOLDER,
    INT8,
    MANIFEST,
    NETWORK,
    PLAN,
    IncompatibleNetwork,
    Network,
    NetworkManifest,
    import_openvino,
)

# For smaller networks it does not matter: base64, decoding and resizing of one photo
# take about 5 ms.
SMALLEST_BYTES = 2_000_000
ROUNDS = 3
RUNS = 1
TRIAL_IMAGES = 4
FILES = (NETWORK, Path(NETWORK).with_suffix(".bin").name)  # of a network in OpenVINO's format

# The largest difference allowed from TensorFlow's float32 outputs (probabilities), by
# precision. A network in int8 that names breeds is compared on drawn pictures alone: on
# the trial images, which are noise, "is this a dog" differs by 0.49 with the right
# ranges, and by 0.1 with halved ones.
TOLERANCES = {EXACT: 1e-3, BFLOAT16: 0.1, INT8: 0.3}
# Of the probability of the breeds in a drawn picture, int8 may move this share to
# others, in the mean. Measured with Inception v3 and weights of 7 and 8 bits on a
# processor without VNNI: 0.08 to 0.09 and 0.12 to 0.14 (of 8 bits too much, since sums
# overflow there); with ranges in reverse order but the first 0.18 and 0.21; halved,
# divided by ten, multiplied by thirty 0.37 and more.
MOST_MOVED = 0.15
NAMING = "prediction"  # the output of probabilities (n, classes)
# Less would not justify a second copy of the weights on disk (over TensorFlow), or
# another version (over float32).
LEAST_SPEEDUP = 1.05
LEAST_GAIN = 1.5


@dataclass(frozen=True)
class Steps:
    """What a signature does before and after the network.

    `before`: from its input `alias` to the network's input, and the decoded
    picture for `again`, shared by all signatures with that alias; None: they
    are the same. `after`: from the network's outputs to the signature's; None:
    they are the same ones, those named in `outputs`. `again`: from its input
    `alias`, that picture, windows and the rows of their photos to the images of
    the second pass; None: one pass.
    """

    alias: str
    outputs: Sequence[str]
    before: Function | None = None
    after: Function | None = None
    again: Function | None = None


@dataclass(frozen=True)
class Acceleration:
    """A network and the signatures that use it.

    `plan`: from its outputs to the windows of the second pass, perhaps none;
    `combined`: from its outputs in both passes to those of one.

    `same_as`: a version with the same network, perhaps with an OpenVINO copy.
    `fast`: in the fastest precision, of which int8 needs `ranges`; `required`:
    only if that is much faster than float32.
    """

    graph: FrozenGraph
    reference: Function
    steps: Mapping[str, Steps]
    same_as: Path | None = None
    plan: Function | None = None
    combined: Function | None = None
    fast: bool = False
    ranges: Ranges | None = None
    required: bool = False


class NotFaster(ValueError):
    """No precision is so much faster than float32 here that it justifies
    another version; the message says by how much.
    """


def accelerate(version: Path, acceleration: Acceleration, report: Report = lambda _: None) -> bool:
    """Write assets.extra/runtime into a version that is being built, if
    OpenVINO is installed and fast enough; reports which.

    Raises IncompatibleNetwork if it is not and that is required, NotFaster if
    it only is too slow.
    """
    if not acceleration.fast and acceleration.graph.graph_def.ByteSize() < SMALLEST_BYTES:
        return False
    folder = version / FOLDER
    folder.mkdir(parents=True)
    try:
        chosen = choose(acceleration, folder, report)
    # RuntimeError: an operation that OpenVINO does not have.
    except (IncompatibleNetwork, RuntimeError) as error:
        shutil.rmtree(folder)
        if acceleration.required:
            raise IncompatibleNetwork(_reason(error)) from error
        report(f"TensorFlow runs the network: {_reason(error)}")
        return False
    outputs = {name: list(steps.outputs) for name, steps in acceleration.steps.items()}
    manifest = replace(chosen, signatures=outputs)
    manifest.write(folder)
    _save_around(folder / AROUND, acceleration)
    report(
        f"OpenVINO runs the network in {manifest.precision}: {manifest.speedup:g} times "
        "as fast as TensorFlow, "
        f"answers within {manifest.largest_difference:.1g}"
    )
    return True


def takes_images_of_one_size(graph: FrozenGraph) -> bool:
    """Whether the only input is a batch of float32 images (n, height, width,
    channels) of one size.
    """
    first, *further = graph.specs.values()
    if further or first.dtype != tf.float32 or first.shape.rank != 4:
        return False
    return first.shape[0] is None and first.shape[1:].is_fully_defined()


def choose(acceleration: Acceleration, folder: Path, report: Report) -> NetworkManifest:
    """The network in float32 or, if asked for, in the precision that is fastest
    here; its files are in `folder` then.
    """
    known = _link_network(acceleration, folder)
    outputs = known.outputs if known else convert(acceleration.graph, folder)
    if known and known.precision == EXACT and known.measured_by == _name_releases():
        exact = known
    else:
        exact = _measure_precision(EXACT, folder, outputs, acceleration)
    if not acceleration.fast:
        if exact.speedup < LEAST_SPEEDUP:
            raise IncompatibleNetwork(
                f"OpenVINO in {EXACT} is {exact.speedup:.2f} times as fast, expected at "
                f"least {LEAST_SPEEDUP:g}"
            )
        return exact
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        trials = {EXACT: exact, **_trials(acceleration, folder, Path(temporary), outputs, report)}
        best = max(trials, key=lambda name: trials[name].speedup)
        gain = trials[best].speedup / exact.speedup
        if gain < LEAST_GAIN:
            if acceleration.required:
                where = f"on this processor ({processor.name()})"
                if best == EXACT:
                    raise NotFaster(f"no precision is faster than {EXACT} {where}")
                raise NotFaster(
                    f"{best} is {gain:.2g} times as fast as {EXACT} {where}, "
                    f"expected at least {LEAST_GAIN:g}"
                )
            best = EXACT
        for name in FILES if best == INT8 else ():
            os.replace(Path(temporary) / name, folder / name)
    return replace(trials[best], compared={name: trial.speedup for name, trial in trials.items()})


def _trials(
    acceleration: Acceleration,
    folder: Path,
    temporary: Path,
    outputs: Sequence[str],
    report: Report,
) -> dict[str, NetworkManifest]:
    """Each faster precision that gives the right answers, by name; an int8
    network is in `temporary` then.
    """
    trials = {}
    precisions = (BFLOAT16, INT8) if acceleration.ranges else (BFLOAT16,)
    for precision in precisions:
        network_folder = folder
        try:
            if precision == INT8 and acceleration.ranges:
                network_folder = temporary
                write_quantised(folder / NETWORK, acceleration.ranges, temporary / NETWORK)
            trials[precision] = _measure_precision(precision, network_folder, outputs, acceleration)
        except (IncompatibleNetwork, RuntimeError) as error:
            report(f"{precision} is not used: {_reason(error)}")
    return trials


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _link_network(acceleration: Acceleration, folder: Path) -> NetworkManifest | None:
    """Hard links to the float32 network of another version, whose manifest is
    returned; None if it has none.
    """
    same = acceleration.same_as and acceleration.same_as / FOLDER
    if not same or not (same / MANIFEST).is_file():
        return None
    manifest = NetworkManifest.read(same)
    if manifest.precision == INT8:
        return None
    for name in FILES:
        try:
            os.link(same / name, folder / name)
        except OSError:  # the file system has no links
            shutil.copyfile(same / name, folder / name)
    return manifest


def _measure_precision(
    precision: str, folder: Path, outputs: Sequence[str], acceleration: Acceleration
) -> NetworkManifest:
    """Load, compare and measure a network.

    Raises IncompatibleNetwork if answers differ by more than is allowed.
    """
    # Not kept: the networks of all precisions at once would take 0.5 GB.
    network = Network(folder / NETWORK, precision, outputs, one_caller=True)
    judge = _difference_of_names if precision == INT8 and NAMING in outputs else _difference
    difference = judge(network, acceleration.reference, TOLERANCES[precision])
    grey = network.run_grey()
    speedup = round(_speedup(network, acceleration.reference), 2)
    return NetworkManifest(
        precision=precision,
        speedup=speedup,
        largest_difference=float(f"{difference:.2g}"),
        tolerance=TOLERANCES[precision],
        measured_by=_name_releases(),
        outputs=list(grey),
        signatures={},
        grey={name: value.tolist() for name, value in grey.items()},
        compared={precision: speedup},
        weight_bits=processor.int8_weight_bits(),
    )


def _name_releases() -> str:
    """What a measurement depends on: the releases of both runtimes, and the processor."""
    return (
        f"OpenVINO {import_openvino().__version__}, TensorFlow {tf.__version__}, {processor.name()}"
    )


def convert(graph: FrozenGraph, folder: Path) -> list[str]:
    """Write the network in OpenVINO's format for one image; returns its outputs
    in order. Raises IncompatibleNetwork.
    """
    openvino = import_openvino()
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "frozen.pb"
        file.write_bytes(graph.graph_def.SerializeToString())
        model = openvino.Core().read_model(file)
    ((spec),) = graph.specs.values()
    model.reshape([1, *spec.shape[1:]])
    openvino.save_model(model, folder / NETWORK, compress_to_fp16=False)
    names = [sorted(output.get_names()) for output in model.outputs]
    outputs = []
    for names_of_output in names:
        aliases = [alias for alias, name in graph.outputs.items() if name in names_of_output]
        if len(aliases) != 1:
            raise IncompatibleNetwork(
                f"OpenVINO's output {names_of_output} corresponds to {aliases} of the "
                "network's outputs"
            )
        outputs += aliases
    return outputs


def _difference(network: Network, reference: Function, tolerance: float) -> float:
    """The largest absolute difference over images and outputs.

    Raises IncompatibleNetwork if it or a shape is wrong.
    """
    images = trial_images(network.shape)
    expected = reference(tf.constant(images))
    answers = network.run(images)
    largest = 0.0
    for name, value in expected.items():
        if answers[name].shape != tuple(value.shape):
            raise IncompatibleNetwork(
                f'OpenVINO gives "{name}" the shape {answers[name].shape}, TensorFlow '
                f"{tuple(value.shape)}"
            )
        largest = max(largest, float(np.abs(answers[name] - value.numpy()).max()))
    if not largest <= tolerance:
        raise IncompatibleNetwork(
            f"OpenVINO's answers differ from TensorFlow's by {largest:.2g}, expected at "
            f"most {tolerance:g}"
        )
    return largest


def _difference_of_names(network: Network, reference: Function, tolerance: float) -> float:
    """The same over the probabilities of breeds in drawn pictures, of which no
    more than MOST_MOVED may be others' now.
    """
    pictures = drawn_pictures(network.shape[:2])
    expected = reference(tf.constant(pictures))[NAMING].numpy()
    differences = np.abs(network.run(pictures)[NAMING] - expected)
    moved = float(differences.sum(axis=-1).mean() / 2)
    largest = float(differences.max())
    if not (moved <= MOST_MOVED and largest <= tolerance):
        raise IncompatibleNetwork(
            f"in {INT8} the network changes {moved:.0%} of its answers on "
            f"{len(pictures)} test pictures "
            f"(limit {MOST_MOVED:.0%}), and one probability by {largest:.2g} (limit "
            f"{tolerance:g}); "
            "the ranges are not of this network"
        )
    return largest


def trial_images(shape: tuple[int, ...], count: int = TRIAL_IMAGES) -> np.ndarray:
    """Images in [0, 1] with coarse and fine random patches, similar to photos:
    (count, *shape).
    """
    coarse = tf.random.stateless_uniform((count, 5, 5, shape[-1]), (1, 2))
    fine = tf.random.stateless_uniform((count, 50, 50, shape[-1]), (3, 4))
    size = shape[:2]
    coarse = tf.image.resize(coarse, size, "bicubic")
    fine = tf.image.resize(fine, size, "bicubic")
    return tf.clip_by_value(0.7 * coarse + 0.3 * fine, 0.0, 1.0).numpy()


def _speedup(network: Network, reference: Function) -> float:
    """TensorFlow's processor time for one image over the network's; other
    programs would distort wall-clock time.
    """
    image = trial_images(network.shape, 1)
    tensor = tf.constant(image)
    ratios = []
    for _ in range(ROUNDS + 1):
        tensorflow = timeit(partial(reference, tensor), timer=process_time, number=RUNS)
        openvino = timeit(partial(network.run, image), timer=process_time, number=RUNS)
        ratios.append(tensorflow / openvino)
    return median(ratios[1:])  # the first round warms up


def _save_around(folder: Path, acceleration: Acceleration) -> None:
    """Save the steps before, between and after the runs of the network as a
    SavedModel without the network.
    """
    signatures = {}
    for name, steps in acceleration.steps.items():
        if steps.before:
            signatures[BEFORE + steps.alias] = steps.before
        if steps.again:
            signatures[AGAIN + steps.alias] = steps.again
        if steps.after:
            signatures[AFTER + name] = steps.after
    if acceleration.plan and acceleration.combined:
        signatures |= {PLAN: acceleration.plan, COMBINED: acceleration.combined}
    tf.saved_model.save(tf.Module(), str(folder), signatures=signatures)
