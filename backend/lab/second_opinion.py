"""Fits what the version that answers the app adds: the opinion of the network
beside the first one, and with it its own calibration and thresholds.

`calibration` comes before it, whose files stay as they are but for the scores
of further breeds. All is fitted on the network in its fastest precision, in
which that version runs.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from dogsnap.exporting import SECOND_OPINION, TAUGHT, Report
from dogsnap.exporting.export import (
    INT8_RANGES,
    STATISTICS_FILE,
    Stored,
    breed_weights,
    prior_of,
    read_json,
    read_opinion,
    read_stored,
)
from dogsnap.files import write_json
from dogsnap.networks.halves import write_halves
from dogsnap.networks.second_opinion import FIELD, OPINION, SecondOpinion
from dogsnap.training import teaching
from dogsnap.training.class_statistics import ClassStatistics
from dogsnap.training.dataset import FOLDS, Example, breeds_of, paths_of
from dogsnap.training.stored_arrays import Arrays

from lab import calibration, second_pass_choice
from lab.calibration import Photos, Seen, TeachingPhotos
from lab.opinion_head import OpinionHead
from lab.passes import OPINION_OF, Passes
from lab.trainer import with_whole_pictures

# From which probability on the version before, of one network, was sure of a breed, by its
# validation photos. What a second network wins goes into being right, not into naming more
# dogs, of unknown breeds, too.
LEAST_SURE = 0.915
MADE_BY = "python -m lab calibrate --opinion 1"
NAMES = ("id", "name", "name_zh")
FIRST, SECOND = tuple(OPINION_OF), tuple(OPINION_OF.values())  # passes, by the network


@dataclass(frozen=True)
class Basis:
    """What everything is fitted on.

    `stored`: the first network with the `opinion` of the one beside it;
    `precision`: in which both ran. `known`: the validation photos, `further`:
    photos without a dog, and of dogs of any breed.
    """

    stored: Stored
    opinion: SecondOpinion
    precision: str
    statistics: ClassStatistics
    known: Seen
    further: Sequence[Seen]
    ranks: Path


def fit(
    folder: Path,
    photos: Photos,
    ranks: Path,
    work: Path,
    report: Report,
) -> dict[str, Any]:
    """Write the scores and int8 ranges of SECOND_OPINION in `folder`, and in
    taught.json the scores and a row of the network beside for each breed;
    returns the first scores.

    The folder has what `calibration.calibrate` writes, the weights of the
    network beside, and a SECOND_OPINION that tells `network`, `classes`, `dogs`
    and `weight`. The arguments are those of `calibrate`. Raises ExportError,
    DatasetError, TeachingError, OSError.
    """
    breeds = photos.read_taught_breeds()
    stated = read_json(folder / SECOND_OPINION)
    stored, opinion = _unfitted(folder, stated)
    training = with_whole_pictures(photos.training)
    validation = with_whole_pictures(photos.validation)
    work = calibration.own_work(work, MADE_BY, opinion.sha256, [*training, *validation])
    weights = stored.description["scores"]["weights"]
    # Of both networks together, as the version runs them.
    ranges = calibration.find_ranges(
        lambda: stored.export(work / "models", report).folder,
        training,
        weights,
        MADE_BY,
        work,
        report,
    )
    passes = Passes(stored, ranges, second_pass_choice.MARGIN, work, report)
    known, further = calibration.see(photos, validation, passes)
    recipe = stored.description["recipe"]
    looked_at = calibration.look_at(photos.taught, breeds, recipe, passes)
    kernel, bias = breed_weights(stored.model, ())
    file = folder / STATISTICS_FILE
    statistics = ClassStatistics.load(file, len(bias), len(kernel), weights)
    basis = Basis(stored, opinion, passes.precision, statistics, known, further, ranks)
    report(f"choosing and fitting on {len(validation)} photos")
    scores = _fit_own(basis, calibration.see_unknown(breeds, looked_at))
    found = {INT8_RANGES: vars(ranges), "scores": scores}
    write_json({**stated, "made_by": MADE_BY, "weights": weights, **found}, folder / SECOND_OPINION)
    if breeds:
        kept = read_json(folder / TAUGHT)
        fitted, rows = _fit_taught(basis, breeds, kept["taught"], looked_at, folder)
        added = {FIELD: opinion.sha256, "taught": rows, "scores": fitted}
        write_json({**kept, **added}, folder / TAUGHT)
    shutil.rmtree(work)
    return scores


def _unfitted(folder: Path, stated: Mapping[str, Any]) -> tuple[Stored, SecondOpinion]:
    """Both networks, and the second by itself, before anything was fitted on them."""
    stored = read_stored(folder.resolve().name, folder, with_head=False)
    weights = stored.description["scores"]["weights"]
    opinion = read_opinion({**stated, "weights": weights}, folder, weights)
    width = stored.model.get_layer("features").output.shape[-1]
    head = {"weights": write_halves(np.zeros(width + 1)), "bias": 0.0}
    scores = {**stored.description["scores"], "dog_head": head}
    description = {**stored.description, "scores": scores}
    return replace(stored, opinion=opinion, description=description), opinion


def _fit_own(basis: Basis, unknown: Sequence[Seen]) -> dict[str, Any]:
    """What scores.json says, of the breeds of the weights."""
    stored = basis.stored
    heads = [breed_weights(stored.model, ())] * FOLDS
    labels = stored.description["labels"]
    kernel, bias = basis.opinion.breed_weights(())
    own = OpinionHead(kernel, bias, len(labels), basis.opinion.weight)
    looks = calibration.looks_apart(basis.statistics, basis.known.folds[::2])
    seen = [basis.known, *basis.further, *unknown]
    said = calibration.answers_of(seen, heads, looks, [own] * FOLDS)
    return _keep_sure(calibration.fit_decision(said, stored, basis.precision, labels, basis.ranks))


def _keep_sure(scores: dict[str, Any]) -> dict[str, Any]:
    """The scores with a breed sure from no smaller probability on than LEAST_SURE."""
    decision = scores["second_pass"]["decision"]
    decision["confident_threshold"] = max(decision["confident_threshold"], LEAST_SURE)
    return scores


def _fit_taught(
    basis: Basis,
    breeds: Sequence[teaching.NewBreed],
    taught: Sequence[Mapping[str, Any]],
    looked_at: TeachingPhotos,
    folder: Path,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The same of `taught` breeds behind these, whose rows stay as they are;
    each gets a row of the network beside.

    Each photo is answered by rows of both that were taught without its fold.
    """
    stored = basis.stored
    own = stored.description["labels"]
    labels = [*own, *({name: breed[name] for name in NAMES} for breed in taught)]
    by_id = {breed.id: breed for breed in breeds}
    ordered = [by_id[breed["id"]] for breed in taught]
    folds, examples = [], []
    for place, breed in enumerate(ordered, len(own)):
        folds.append(breed.folds(breed.photos))
        examples += [Example(path, place) for path in breed.photos]
    prior = stored.calibration.temperature * prior_of(stored, labels, folder)
    kernel, bias = breed_weights(stored.model, ())
    checked_folds = basis.known.folds[::2]
    lesson = basis.statistics.fit_new_classes(
        [_views(looked_at.of(breed.photos), FIRST) for breed in ordered],
        kernel,
        bias + prior[: len(own)],
        looked_at.of(looked_at.known)["fast"],
        folds,
        checked_folds,
    )
    heads = []
    for weights, offset in lesson.parts:
        head = np.column_stack([kernel, weights]), np.append(bias, offset - prior[len(own) :])
        heads.append(head)
    known = basis.known.features[OPINION_OF["fast"]][:, :-1]
    shown = basis.known.of_each("breeds")
    beside = ClassStatistics.of(known, shown, known[::2], shown[::2])
    kernel, bias = basis.opinion.breed_weights(())
    taken = beside.fit_new_classes(
        [_views(looked_at.of(breed.photos), SECOND) for breed in ordered],
        kernel,
        bias,
        looked_at.of(looked_at.known)[OPINION_OF["fast"]][:, :-1],
        folds,
        checked_folds,
    )
    opinions = []
    for weights, offset in taken.parts:
        both = np.column_stack([kernel, weights]), np.append(bias, offset)
        opinions.append(OpinionHead(*both, len(labels), basis.opinion.weight))
    rows = []
    for row, weights, offset in zip(taught, taken.weights.T, taken.bias, strict=True):
        rows.append({**row, OPINION: {"weights": write_halves(weights), "bias": float(offset)}})
    new = Seen(
        looked_at.of(paths_of(examples)), np.concatenate(folds), breeds_of(examples), whole=True
    )
    looks = calibration.looks_apart(basis.statistics, checked_folds, new)
    seen = [basis.known, new, *basis.further, calibration.as_if_unknown(new, labels)]
    said = calibration.answers_of(seen, heads, looks, opinions)
    fitted = calibration.fit_decision(said, stored, basis.precision, labels, basis.ranks, len(own))
    return _keep_sure(fitted), rows


def _views(seen: Arrays, passes: Sequence[str]) -> np.ndarray:
    """Features (n, views, f) of photos, without the odds of a dog."""
    width = -1 if passes == SECOND else None
    return np.stack([seen[name][:, :width] for name in passes], axis=1)
