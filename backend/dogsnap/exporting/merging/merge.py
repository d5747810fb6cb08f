"""Merges decoding into a SavedModel: a new version with photos as base64 text
or bytes in, frozen network, answers out.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from dogsnap.exporting import Report, layers
from dogsnap.exporting.acceleration import NotFaster
from dogsnap.exporting.export import INT8_RANGES, read_json, write_version
from dogsnap.exporting.freezing import Function, Source
from dogsnap.exporting.inspection import input_specs, plain_name
from dogsnap.exporting.merging.image_input import (
    NetworkInput,
    Specs,
    find_image_input,
    image_input,
    inputs_of,
    kind_of,
)
from dogsnap.exporting.merging.input_range import Scale, range_text, shown_scale, stated_scale
from dogsnap.exporting.merging.merged_signatures import Merger, noise_images, warmup_requests
from dogsnap.exporting.merging.options import MergeError, Options
from dogsnap.exporting.quantization import Ranges
from dogsnap.networks.every_dog import CELLS, MOST, EveryDog
from dogsnap.networks.second_pass import NEEDED, SecondPass
from dogsnap.schemas import check_schema
from dogsnap.serving.answers.classification import WITHOUT_THRESHOLDS
from dogsnap.serving.answers.levels import INDEPENDENT
from dogsnap.serving.versions.description import (
    DESCRIPTION_FILE,
    SCHEMA,
    SCHEMA_FILE,
    Description,
    check,
    check_fields,
)
from dogsnap.serving.versions.openvino_runtime import IncompatibleNetwork
from dogsnap.serving.versions.version_folders import model_folder_of

# Keras' layers of augmentation are active unless they are told otherwise, and keep the
# state of their random numbers.
TRAINS = (
    "the network changes variables when it answers, as Keras' layers of augmentation "
    "do: model.export() leaves them active, and "
    "the same photo gets another answer each time. Export it for answering: archive = "
    "keras.export.ExportArchive(); "
    "archive.track(model); archive.add_endpoint('serve', lambda image: model(image, "
    "training=False), "
    "[keras.InputSpec(shape=(None, HEIGHT, WIDTH, 3), dtype='float32')]); "
    "archive.write_out('models/NAME/1')"
)


def merge(source: Path | Source, options: Options, report: Report = lambda _: None) -> Path:
    """Write the version after `source` that takes photos instead of images;
    returns its folder.

    `source`: a version directory with a SavedModel, or a version in memory.
    Signatures of the new version, where the source's `serving_default` takes
    `image` and gives `prediction`, a signature `scores` gives more, and the
    labels are known:

      decode base64   serving_default  image string (n), base64 text           -> prediction
                      image_bytes      image_bytes string (n), bytes of files  -> prediction
                      scores           image_bytes                             -> what it gives
                      labels           image                                   -> labels, probabilities (n, k)
      decode bytes    the same without image_bytes, each of input_bytes string (n)

    With encode png the image output becomes output_bytes string (n); a network
    that takes any size then gets each picture in its own size, unless `size` is
    given. All signatures share one frozen network. The numbers for black and
    white come from the options, else from the source's description, else they
    are 0 and 1 if a trial run stays within them; they are reported, and unknown
    ones are an error.

    Raises MergeError, InspectionError or FreezingError, ValueError for a wrong
    description, and NotFaster if `fast` gains too little; the folder of
    versions is then unchanged.
    """
    source = source if isinstance(source, Source) else Source(source)
    options = _with_plain_names(options)
    network_input = find_image_input(input_specs(source.folder), options)
    model_folder = model_folder_of(source.folder)
    report(f"decoding {options.decode} in front of {network_input}")
    description = _describe(source.folder, options)
    signatures = source.signatures
    wanted = image_input(network_input, options, description)
    richest = richest_signature(signatures, network_input, wanted)
    graph = source.freeze_signature(richest)
    if any(node.op.startswith("Assign") for node in graph.graph_def.node):
        raise MergeError(TRAINS)
    scale = stated_scale(options, description)
    if scale is None:
        scale = shown_scale(graph, network_input.name)
        wanted = replace(wanted, mean=scale.mean, deviation=scale.deviation)
    report_input(wanted, network_input, scale, report)
    labels = list(options.labels) or description.get("labels", [])
    names = [label["name"] for label in labels]
    passing = _second_pass(options, description, signatures[richest].structured_outputs)
    merger = Merger(source, richest, network_input, wanted, names, options, passing)
    _try_outputs(merger, options, description, report)
    report_outputs(merger, options, report)
    if merger.classes and labels:
        description = {"model": model_folder.name, **description, "labels": labels}
    if options.independent or options.sigmoid:
        description["classes"] = INDEPENDENT
    levels = check(description, "the description")
    if (
        description.get("labels")
        and levels.decision.confident is None
        and levels.thresholds is None
    ):
        report(f"{WITHOUT_THRESHOLDS}; `dogsnap evaluate --precision` finds one")
    merged = merger.signatures()
    description["source"] = {
        "merged_from": f"{model_folder.name}/{Path(os.path.abspath(source.folder)).name}",
        "decode": options.decode,
    }
    if wanted.size and (labels or "input_size" in description):
        description["input_size"] = list(wanted.size)
    if passing:
        second_pass = passing.one if isinstance(passing, EveryDog) else passing
        report(f"a second pass where the first gives no breed more than {second_pass.surest:.0%}")
        decision = description["scores"]["second_pass"]["decision"]
        description |= {"decision": decision, "second_pass": second_pass.to_json()}
    if isinstance(passing, EveryDog):
        report(f"and one for each of up to {MOST} dogs")
        description["every_dog"] = passing.to_json()
    warmup = warmup_requests(merged, wanted.size)
    acceleration = merger.acceleration(source.folder, _read_ranges(description))
    try:
        return write_version(
            model_folder, tf.Module(), merged, description, warmup, acceleration, report
        )
    except IncompatibleNetwork as error:
        raise MergeError(f"--fast cannot be used on this machine: {error}") from error


def _try_outputs(
    merger: Merger, options: Options, description: Mapping[str, Any], report: Report
) -> None:
    """Find out by trial runs what nobody says of the outputs. Raises MergeError."""
    if options.encode == "png":
        merger.find_output_range(description, report)
    if merger.classes and (options.labels or "labels" in options.description):
        merger.check_probabilities(report)
    if options.encode == "detections":
        merger.find_first_class(report)


def _with_plain_names(options: Options) -> Options:
    names: dict[str, Any] = {}
    for option in ("input", "output", "boxes", "classes", "scores"):
        if (given := getattr(options, option)) is not None:
            names[option] = plain_name(given)
    return replace(options, **names)


def report_input(
    wanted: layers.ImageInput, network_input: NetworkInput, scale: Scale, report: Report
) -> None:
    """Report size, layout and range of the images that go in, who says so, and
    which flag says otherwise.
    """
    size = "in their own size"
    if wanted.size:
        height, width = wanted.size
        size = f"as {height} x {width} (height x width)"
    is_free = network_input.layout.height is None or network_input.layout.width is None
    colours = "blue, green and red" if wanted.is_bgr else "red, green and blue"
    channels = "grey" if wanted.channels == 1 else colours
    layout = f"{channels} {'first' if wanted.channels_first else 'last'}"
    report(f"images go in {size}, {layout}{'; --size HEIGHT WIDTH says otherwise' * is_free}")
    report(range_text(wanted, scale.reason))


def report_outputs(merger: Merger, options: Options, report: Report) -> None:
    """Report what is taken for probabilities or renamed."""
    classes = merger.given_names.get(merger.classes or "", merger.classes)
    if merger.is_one_number:
        first, second = merger.names
        kind = "a logit" if options.softmax else "a probability; --softmax says that it is a logit"
        report(
            f'output "{classes}" is one number, p of "{second}" ({kind}): '
            f'"{first}" gets 1 - p; '
            f'where it is p of "{first}", give --labels in the other order'
        )
    elif merger.classes and options.sigmoid:
        report(f'output "{classes}" holds logits, each of which becomes a probability by itself')
    elif merger.classes and options.softmax:
        report(f'output "{classes}" holds logits, which become probabilities')
    elif merger.classes:
        report(f'output "{classes}" holds probabilities; --softmax says that it holds logits')
    inputs = {merger.network_input.name: merger.alias, **merger.names_of_further}
    for kind, names in (("input", inputs), ("output", merger.renamed)):
        for old, new in names.items():
            if (given := merger.given_names.get(old, old)) != new:
                report(f'{kind} "{given}" becomes {new}')


def merge_all(source: Source, report: Report = lambda _: None) -> list[Path]:
    """The merged version of `source`, and the one that answers the app; without
    a second pass only if one is much faster.
    """
    return [merge(source, Options(), report), *merge_answering(source, report)]


def merge_answering(
    source: Source, report: Report = lambda _: None, required: bool = False
) -> list[Path]:
    """The version of `source` that answers the app: in the fastest precision,
    with the second pass.

    Where no precision is fast enough, it computes in float32; without a second
    pass there is none then, unless it is `required`.
    """
    second_pass = "second_pass" in Description.read(source.folder).raw.get("scores", {})
    try:
        return [merge(source, Options(fast=True, second_pass=second_pass), report)]
    except (MergeError, NotFaster) as error:
        report(f"there is no fast version: {error}")
    if second_pass or required:
        return [merge(source, Options(second_pass=second_pass), report)]
    return []


def _second_pass(
    options: Options, description: Mapping[str, Any], outputs: Mapping[str, Any]
) -> SecondPass | EveryDog | None:
    """The parameters of the second pass, if asked for; for every dog where the
    network finds them. Raises MergeError.
    """
    if not options.second_pass:
        return None
    if missing := [name for name in NEEDED if name not in outputs]:
        raise MergeError(
            f"--second-pass needs a network that gives {', '.join(NEEDED)}; missing: "
            f"{', '.join(missing)}"
        )
    stated = description.get("scores", {}).get("second_pass")
    if stated is None:
        raise MergeError(
            "--second-pass needs its parameters in the source's description: expected "
            "scores.second_pass, from `python -m lab train`"
        )
    try:
        second_pass = SecondPass.of(stated)
        if CELLS not in outputs:
            return second_pass
        return EveryDog.of(second_pass, description["dogs"]["every_dog"])
    except KeyError as missing:
        raise MergeError(
            f"scores.second_pass or dogs in the source's description lacks {missing}; "
            "export it again, from files of "
            "`python -m lab train`"
        ) from None


def _describe(source: Path, options: Options) -> dict[str, Any]:
    """What the source and the options say of the version. Raises ValueError for
    what fits no description.
    """
    check_fields(options.description, "--description")
    file = source / DESCRIPTION_FILE
    description = read_json(file) if file.is_file() else {}
    if isinstance(description, dict):
        description = {**description, **options.description}
    check_schema(description, SCHEMA, str(file), SCHEMA_FILE)
    return description


def _read_ranges(description: Mapping[str, Any]) -> Ranges | None:
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
    """The signature with the most outputs, among those with the same input and
    at least the outputs of the chosen one.
    """

    def kinds(specs: Specs) -> dict[str, str]:
        return {name: kind_of(spec) for name, spec in specs.items()}

    main = signatures[network_input.signature]
    inputs = kinds(inputs_of(main))
    outputs = kinds(main.structured_outputs)
    wider = []
    for name, signature in signatures.items():
        if signature is main or kinds(inputs_of(signature)) != inputs:
            continue
        if outputs.items() <= kinds(signature.structured_outputs).items():
            wider.append(name)
    if not wider or len(inputs_of(main)) != 1:
        return network_input.signature
    best = max(wider, key=lambda name: len(signatures[name].structured_outputs))
    # One network then serves both: they have to compute the same.
    size = network_input.layout.size or wanted.size
    image = noise_images(1, replace(wanted, size=size))
    fed = {network_input.name: image[0] if network_input.layout.batch == "none" else image}
    answers = main(**fed)
    best_answers = signatures[best](**fed)
    for name, value in answers.items():
        is_text = value.dtype == tf.string
        if not is_text and not np.allclose(value, best_answers[name], atol=1e-5):
            return network_input.signature
    return best
