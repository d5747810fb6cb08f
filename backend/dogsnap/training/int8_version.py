"""Writes a classifier of photos again with its network in int8, as the next
version, if that is much faster and answers alike.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import tensorflow as tf

from dogsnap import processor
from dogsnap.exporting import Report
from dogsnap.exporting.acceleration import FILES, TOLERANCES
from dogsnap.exporting.export import INT8_RANGES
from dogsnap.exporting.quantization import Ranges, write_quantised
from dogsnap.exporting.redescription import rewriting
from dogsnap.serving.versions.graph_functions import GraphFunctions
from dogsnap.serving.versions.openvino_runtime import (
    AROUND,
    BEFORE,
    FOLDER,
    INT8,
    MANIFEST,
    NETWORK,
    PICTURE,
    IncompatibleNetwork,
    Network,
    NetworkManifest,
    import_openvino,
)
from dogsnap.training import dataset
from dogsnap.training.dataset import DatasetError, Example, paths_of, photo_bytes, photos_below
from dogsnap.training.evaluation import agreement
from dogsnap.training.evaluation.exported_version import ExportedVersion
from dogsnap.training.evaluation.labelled_photos import UNKNOWN, spread
from dogsnap.training.ranges import find_ranges

LEAST_SPEEDUP = 1.3
LEAST_AGREEMENT = 0.99
# Every second photo finds the ranges, the others compare the answers: fewer than 100 cannot
# tell 99 % from all.
LEAST_PHOTOS = 200
MOST_PHOTOS = 600


@dataclass(frozen=True)
class Quantised:
    """`version`: the new folder; None where it is not written.

    `speedup`: how many times as fast a photo is answered, decoding included, and
    `agreement`: the share of `photos` with the same top class.
    """

    version: Path | None
    speedup: float
    agreement: float
    photos: int

    def __str__(self) -> str:
        return (
            f"in int8 it is {self.speedup:.2f} times as fast, and {self.agreement:.1%} of "
            f"{self.photos} answers agree; asked are {LEAST_SPEEDUP:g} times and "
            f"{LEAST_AGREEMENT:.0%}"
        )


def quantize(
    version: Path,
    folder: Path,
    report: Report = lambda _: None,
    progress: Callable[[], None] = lambda: None,
) -> Quantised:
    """Write `version`, a folder with a version that `dogsnap merge` made, again
    in int8, if it is LEAST_SPEEDUP times as fast and LEAST_AGREEMENT of its
    answers agree.

    `folder`: photos such as it will be asked about. Raises ValueError for a
    version without a network for it, and DatasetError for too few photos.
    """
    exact = ExportedVersion.load(version)
    manifest = _network_of(exact)
    examples = spread([Example(path, UNKNOWN) for path in photos_below(folder)], MOST_PHOTOS)
    examples = dataset.readable(examples, report)
    if len(examples) < LEAST_PHOTOS:
        raise DatasetError(
            f"{folder} has {len(examples)} photos that can be read; expected at least "
            f"{LEAST_PHOTOS}: half of them find the ranges of int8, the others compare the answers"
        )
    finding = examples[::2]
    comparing = examples[1::2]
    with rewriting(version) as draft:
        report(f"finding ranges on {len(finding)} photos")
        ranges, quantised = _quantise(draft.folder, manifest, _images(exact, paths_of(finding)))
        draft.description[INT8_RANGES] = asdict(ranges)
        draft.finish()
        report(f"comparing answers to {len(comparing)} other photos")
        int8 = ExportedVersion.load(draft.folder)
        if int8.servable.runtime.get("precision") != INT8:
            raise IncompatibleNetwork(f"int8 does not run here: {int8.servable.runtime['reason']}")
        result = agreement.compare(exact, int8, comparing, report, progress)
        before, after = result["milliseconds"]
        found = Quantised(None, before / after, result["agreement"], result["photos"])
        if found.speedup < LEAST_SPEEDUP or found.agreement < LEAST_AGREEMENT:
            return found
        measured = round(manifest.speedup * found.speedup, 2)
        replace(
            quantised,
            speedup=measured,
            largest_difference=float(f"{result['largest_difference']:.2g}"),
            compared={**manifest.compared, INT8: measured},
        ).write(draft.folder / FOLDER)
        return replace(found, version=draft.publish())


def _network_of(version: ExportedVersion) -> NetworkManifest:
    """What is known of its float32 network. Raises ValueError without one."""
    folder = version.path / FOLDER
    if not (folder / MANIFEST).is_file():
        raise ValueError(
            f"{version.path} has no network for OpenVINO, which computes int8: it is so small "
            "that decoding takes longer, or `dogsnap merge` said why TensorFlow runs it"
        )
    manifest = NetworkManifest.read(folder)
    if manifest.precision == INT8:
        raise ValueError(f"{version.path} computes in int8 already")
    if "reason" in version.servable.runtime and "precision" not in version.servable.runtime:
        reason = version.servable.runtime["reason"]
        raise ValueError(f"OpenVINO, which computes int8, does not run here: {reason}")
    return manifest


def _images(version: ExportedVersion, photos: Sequence[Path]) -> Iterator[np.ndarray]:
    """Photos as its network sees them, float32 (height, width, channels)."""
    signature = version.servable.photo_signature()
    alias, _ = version.servable.photo_input(signature)
    steps = GraphFunctions(version.path / FOLDER / AROUND)
    before = steps.get(BEFORE + alias)
    if before is None:
        raise ValueError(
            f"{version.path} takes images; `dogsnap merge {version.path}` makes a version that "
            "takes photos"
        )
    for photo in photos:
        decoded = before({alias: tf.constant([photo_bytes(photo)])})
        decoded.pop(PICTURE, None)
        (images,) = decoded.values()
        yield images.numpy()[0]


def _quantise(
    folder: Path, manifest: NetworkManifest, images: Iterator[np.ndarray]
) -> tuple[Ranges, NetworkManifest]:
    """Replace the network of a version that is being written by one in int8."""
    runtime = folder / FOLDER
    model = import_openvino().Core().read_model(runtime / NETWORK)
    ranges = find_ranges(model, images, pooled=True)
    del model  # it reads the file that is replaced
    other = runtime / "int8"
    write_quantised(runtime / NETWORK, ranges, other / NETWORK)
    for name in FILES:
        os.replace(other / name, runtime / name)
    other.rmdir()
    network = Network(runtime / NETWORK, INT8, manifest.outputs, one_caller=True)
    grey = network.run_grey()
    quantised = replace(
        manifest,
        precision=INT8,
        tolerance=TOLERANCES[INT8],
        grey={name: value.tolist() for name, value in grey.items()},
        weight_bits=processor.int8_weight_bits(),
    )
    quantised.write(runtime)
    return ranges, quantised
