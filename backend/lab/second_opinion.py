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

import click
import numpy as np
from dogsnap.exporting import SECOND_OPINION, TAUGHT
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
from dogsnap.training.dataset import FOLDS
from dogsnap.training.stored_arrays import Arrays, join_rows

from lab import calibration
from lab.calibration import Head, Observations, Photos, Seen
from lab.passes import OPINION_OF

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

    `stored`: the first network, with the `opinion` of the one beside it; `seen`:
    what both see.
    """

    stored: Stored
    opinion: SecondOpinion
    statistics: ClassStatistics
    seen: Observations
    ranks: Path

    @property
    def checked_folds(self) -> np.ndarray:
        """Of the validation photos that the statistics hold."""
        return self.seen.known.folds[::2]


def fit(
    folder: Path,
    photos: Photos,
    ranks: Path,
    work: Path,
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
    alone = read_stored(folder.resolve().name, folder, with_head=False)
    weights = alone.description["scores"]["weights"]
    opinion = read_opinion({**stated, "weights": weights}, folder, weights)
    stored = replace(alone, opinion=opinion)
    seen = calibration.observe(stored, photos, breeds, MADE_BY + opinion.sha256, work)
    kernel, bias = breed_weights(stored.model, ())
    file = folder / STATISTICS_FILE
    statistics = ClassStatistics.load(file, len(bias), len(kernel), weights)
    basis = Basis(stored, opinion, statistics, seen, ranks)
    click.echo(f"choosing and fitting on {len(seen.validation)} photos")
    scores = _fit_own(basis, calibration.see_unknown(breeds, seen.taught))
    # Of both networks together, as the version runs them.
    ranges = replace(seen.passes.ranges, weights=weights, made_by=MADE_BY)
    found = {INT8_RANGES: vars(ranges), "scores": scores}
    write_json({**stated, "made_by": MADE_BY, "weights": weights, **found}, folder / SECOND_OPINION)
    if breeds:
        kept = read_json(folder / TAUGHT)
        fitted, rows = _fit_taught(basis, breeds, kept["taught"], folder)
        added = {FIELD: opinion.sha256, "taught": rows, "scores": fitted}
        write_json({**kept, **added}, folder / TAUGHT)
    shutil.rmtree(seen.passes.work)
    return scores


def _fit_own(basis: Basis, unknown: Sequence[Seen]) -> dict[str, Any]:
    """What scores.json says, of the breeds of the weights."""
    labels = basis.stored.description["labels"]
    heads = [breed_weights(basis.stored.model, ())] * FOLDS
    opinions = [basis.opinion.breed_weights(())] * FOLDS
    looks = calibration.looks_apart(basis.statistics, basis.checked_folds)
    seen = [basis.seen.known, *basis.seen.further, *unknown]
    said = calibration.answers_of(seen, heads, looks, opinions, basis.opinion.weight)
    precision = basis.seen.passes.precision
    return _keep_sure(calibration.fit_decision(said, precision, labels, basis.ranks))


def _keep_sure(scores: dict[str, Any]) -> dict[str, Any]:
    """The scores with a breed sure from no smaller probability on than LEAST_SURE."""
    decision = scores["second_pass"]["decision"]
    decision["confident_threshold"] = max(decision["confident_threshold"], LEAST_SURE)
    return scores


def _fit_taught(
    basis: Basis,
    breeds: Sequence[teaching.NewBreed],
    taught: Sequence[Mapping[str, Any]],
    folder: Path,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The same of `taught` breeds behind these, whose rows stay as they are;
    each gets a row of the network beside.

    Each photo is answered by rows of both that were taught without its fold.
    """
    stored, seen = basis.stored, basis.seen
    own = stored.description["labels"]
    labels = [*own, *({name: breed[name] for name in NAMES} for breed in taught)]
    by_id = {breed.id: breed for breed in breeds}
    ordered = [by_id[breed["id"]] for breed in taught]
    folds = [breed.folds(breed.photos) for breed in ordered]
    features = [seen.taught.of(breed.photos) for breed in ordered]
    others = seen.taught.of(seen.taught.known)
    prior = stored.calibration.temperature * prior_of(stored, labels, folder)
    kernel, bias = breed_weights(stored.model, ())
    lesson = basis.statistics.fit_new_classes(
        [_views(each, FIRST) for each in features],
        kernel,
        bias + prior[: len(own)],
        others["fast"],
        folds,
        basis.checked_folds,
    )
    heads = []
    for weights, offset in lesson.parts:
        heads.append(_add_classes((kernel, bias), weights, offset - prior[len(own) :]))
    known = seen.known.features[OPINION_OF["fast"]][:, :-1]
    shown = seen.known.of_each("breeds")
    kernel, bias = basis.opinion.breed_weights(())
    taken = ClassStatistics.of(known, shown, known[::2], shown[::2]).fit_new_classes(
        [_views(each, SECOND)[..., :-1] for each in features],
        kernel,
        bias,
        others[OPINION_OF["fast"]][:, :-1],
        folds,
        basis.checked_folds,
    )
    opinions = [_add_classes((kernel, bias), *part) for part in taken.parts]
    rows = []
    for row, weights, offset in zip(taught, taken.weights.T, taken.bias, strict=True):
        rows.append({**row, OPINION: {"weights": write_halves(weights), "bias": float(offset)}})
    places = np.repeat(np.arange(len(own), len(labels)), list(map(len, folds)))
    new = Seen(join_rows(features), np.concatenate(folds), places, whole=True)
    looks = calibration.looks_apart(basis.statistics, basis.checked_folds, new)
    all_seen = [seen.known, new, *seen.further, calibration.as_if_unknown(new, labels)]
    said = calibration.answers_of(all_seen, heads, looks, opinions, basis.opinion.weight)
    fitted = calibration.fit_decision(said, seen.passes.precision, labels, basis.ranks, len(own))
    return _keep_sure(fitted), rows


def _add_classes(head: Head, weights: np.ndarray, bias: np.ndarray) -> Head:
    return np.column_stack([head[0], weights]), np.append(head[1], bias)


def _views(seen: Arrays, passes: Sequence[str]) -> np.ndarray:
    """Features (n, views, f) of photos."""
    return np.stack([seen[name] for name in passes], axis=1)
