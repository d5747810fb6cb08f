"""The ranges of the shipped network's int8, found on photos of dogs."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from dogsnap.exporting import Report
from dogsnap.exporting.acceleration import convert
from dogsnap.exporting.freezing import Source
from dogsnap.exporting.quantization import Ranges
from dogsnap.files import replacing
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.serving.versions.description import Description
from dogsnap.serving.versions.openvino_runtime import NETWORK, import_openvino
from dogsnap.training.dataset import photo_bytes, readable_photos
from dogsnap.training.ranges import find_ranges


def calibrate(version: Path, photos: Sequence[Path], report: Report) -> Ranges:
    """The ranges for a version that takes images.

    Raises FreezingError, IncompatibleNetwork, or DatasetError.
    """
    description = Description.read(version).raw
    size = tuple(description["input_size"])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        convert(Source(version).freeze_signature("scores"), folder)
        found_on = readable_photos(list(photos), report)
        report(f"finding ranges on {len(found_on)} photos")
        ranges = find_ranges(
            import_openvino().Core().read_model(folder / NETWORK),
            (photos_to_images([photo_bytes(path)], size).numpy()[0] for path in found_on),
        )
    return replace(ranges, weights=description.get("scores", {}).get("weights", ""))


def write(ranges: Ranges, file: Path) -> None:
    """Write the ranges as JSON, a few kB, in one step."""
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(asdict(ranges)) + "\n", encoding="utf-8")
