"""Merges decoding into a SavedModel: a new version with photos as base64 text or bytes in, frozen network, answers out."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import tensorflow as tf

from dogsnap.exporting import layers
from dogsnap.exporting.acceleration import NotFaster, Report
from dogsnap.exporting.export import INT8_RANGES, write_version
from dogsnap.exporting.freezing import Source
from dogsnap.exporting.inspection import input_specs
from dogsnap.exporting.merging.image_input import (
    Function,
    NetworkInput,
    Specs,
    find_image_input,
    image_input,
    input_range_text,
    inputs_of,
    kind_of,
    with_known_layout,
)
from dogsnap.exporting.merging.options import MergeError, Options
from dogsnap.exporting.merging.signatures import Merger, noise_images, warmup_requests
from dogsnap.exporting.quantization import Ranges
from dogsnap.networks.every_dog import CELLS, MOST, EveryDog
from dogsnap.networks.second_pass import NEEDED, SecondPass
from dogsnap.serving.answers.classification import WITHOUT_THRESHOLDS
from dogsnap.serving.versions.description import DESCRIPTION_FILE, check
from dogsnap.serving.versions.openvino_runtime import IncompatibleNetwork


def merge(source: Path | Source, options: Options, report: Report = lambda _: None) -> Path:
    """Write the version after `source` that takes photos in place of images; returns its folder.

    `source`: a version directory with a SavedModel, or a version in memory. Signatures of the new version, where the source's
    `serving_default` takes `image` and gives `prediction`, a signature `scores` gives more, and the labels are known:
      decode base64   serving_default  image string (n), base64 text           -> prediction
                      image_bytes      image_bytes string (n), bytes of files  -> prediction
                      scores           image_bytes                             -> prediction and what else it gives
                      labels           image                                   -> labels string (n, k), probabilities (n, k)
      decode bytes    the same without image_bytes, each of input_bytes string (n)
    With encode png the image output becomes output_bytes string (n); a network that takes any size then gets each picture in
    its own size, unless `size` is given. All signatures share one frozen network. The numbers for black and white come from the
    options, else from the source's description, else they are 0 and 1 if a trial run stays within them; they are reported, and
    unknown ones are an error.
    Raises MergeError, InspectionError or FreezingError, ValueError for a wrong description, and NotFaster if `fast` gains too
    little; the folder of versions is then unchanged.
    """
    source = source if isinstance(source, Source) else Source(source)
    folder = source.folder.resolve()
    network_input = find_image_input(input_specs(folder), options)
    report(f"decoding {options.decode} in front of {network_input}")
    description = {**read_description(folder), **options.description}
    signatures = source.signatures
    wanted = image_input(network_input, options, description)
    wanted = with_known_layout(wanted, network_input, signatures[network_input.signature], report)
    if options.encode and not wanted.dtype.is_integer:
        report(input_range_text(wanted, options, description))
    richest = richest_signature(signatures, network_input, wanted)
    labels = list(options.labels) or description.get("labels", [])
    names = [label["name"] for label in labels]
    passing = _second_pass(options, description, signatures[richest].structured_outputs)
    merger = Merger(source, richest, network_input, wanted, names, options, passing)
    if options.encode == "png":
        merger.find_output_range(description, report)
    if merger.classes and (options.labels or "labels" in options.description):
        merger.check_probabilities()
    if merger.classes and labels:
        description = {"model": folder.parent.name, **description, "labels": labels}
    if description.get("labels") and "confident_threshold" not in description.get("decision", {}):
        report(f"{WITHOUT_THRESHOLDS}; --description FILE adds them")
    check(description, "the description")
    merged = merger.signatures()
    if description:
        description["source"] = {
            "merged_from": f"{folder.parent.name}/{folder.name}",
            "decode": options.decode,
        }
        if wanted.size and (labels or "input_size" in description):
            description["input_size"] = list(wanted.size)
        if passing:
            one = passing.one if isinstance(passing, EveryDog) else passing
            report(f"a second pass where the first gives no breed more than {one.surest:.0%}")
            decision = description["scores"]["second_pass"]["decision"]
            description |= {"decision": decision, "second_pass": one.to_json()}
        if isinstance(passing, EveryDog):
            report(f"and one for each of up to {MOST} dogs")
            description["every_dog"] = passing.to_json()
    warmup, acceleration = (
        warmup_requests(merged, wanted.size),
        merger.acceleration(folder, _ranges(description)),
    )
    try:
        return write_version(
            folder.parent, tf.Module(), merged, description, warmup, acceleration, report
        )
    except IncompatibleNetwork as error:
        raise MergeError(f"--fast cannot be used on this machine: {error}") from error


def merge_all(source: Source, report: Report = lambda _: None) -> list[Path]:
    """The merged version of `source`, and the one that answers the app; without a second pass only if one is much faster."""
    return [merge(source, Options(), report), *merge_answering(source, report)]


def merge_answering(
    source: Source, report: Report = lambda _: None, required: bool = False
) -> list[Path]:
    """The version of `source` that answers the app: in the fastest precision, with the second pass.

    Where no precision is fast enough, it computes in float32; without a second pass there is none then, unless it is `required`.
    """
    second_pass = "second_pass" in read_description(source.folder).get("scores", {})
    try:
        return [merge(source, Options(fast=True, second_pass=second_pass), report)]
    except (MergeError, NotFaster) as error:
        report(f"there is no fast version: {error}")
        return (
            [merge(source, Options(second_pass=second_pass), report)]
            if second_pass or required
            else []
        )


def _second_pass(
    options: Options, description: Mapping, outputs: Mapping
) -> SecondPass | EveryDog | None:
    """The parameters of the second pass, if asked for; for every dog where the network finds them. Raises MergeError."""
    if not options.second_pass:
        return None
    if missing := [name for name in NEEDED if name not in outputs]:
        raise MergeError(
            f"--second-pass needs a network that gives {', '.join(NEEDED)}; missing: {', '.join(missing)}"
        )
    stated = description.get("scores", {}).get("second_pass")
    if stated is None:
        raise MergeError(
            "--second-pass needs its parameters in the source's description: expected scores.second_pass, from `dogsnap train`"
        )
    try:
        one = SecondPass.of(stated)
        return EveryDog.of(one, description["dogs"]["every_dog"]) if CELLS in outputs else one
    except KeyError as missing:
        raise MergeError(
            f"scores.second_pass or dogs in the source's description lacks {missing}; export it again, from files of "
            "`dogsnap train`"
        ) from None


def read_description(source: Path) -> dict:
    """The description in a version; {} if it has none."""
    file = source / DESCRIPTION_FILE
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _ranges(description: Mapping) -> Ranges | None:
    stated = description.get(INT8_RANGES)
    try:
        return Ranges(**stated) if stated else None
    except TypeError as error:
        raise MergeError(
            f"{INT8_RANGES} in {DESCRIPTION_FILE} is not as `dogsnap quantize` writes it: {error}"
        ) from None


def richest_signature(
    signatures: Mapping[str, Function], network_input: NetworkInput, wanted: layers.ImageInput
) -> str:
    """The signature with the most outputs, among those with the same input and at least the outputs of the chosen one."""

    def kinds(specs: Specs) -> dict[str, str]:
        return {name: kind_of(spec) for name, spec in specs.items()}

    main = signatures[network_input.signature]
    inputs, outputs = kinds(inputs_of(main)), kinds(main.structured_outputs)
    alike = {
        name: each
        for name, each in signatures.items()
        if each is not main and kinds(inputs_of(each)) == inputs
    }
    wider = [
        name
        for name, each in alike.items()
        if outputs.items() <= kinds(each.structured_outputs).items()
    ]
    if not wider or len(inputs_of(main)) != 1:
        return network_input.signature
    best = max(wider, key=lambda name: len(signatures[name].structured_outputs))
    # One network then serves both: they have to compute the same.
    own = (network_input.layout.height, network_input.layout.width)
    image = noise_images(1, wanted if None in own else replace(wanted, size=own))
    fed = {network_input.name: image[0] if network_input.layout.batch == "none" else image}
    one, other = main(**fed), signatures[best](**fed)
    same = all(
        np.allclose(value, other[name], atol=1e-5)
        for name, value in one.items()
        if value.dtype != tf.string
    )
    return best if same else network_input.signature
