"""Fits what the version that answers the app adds: the opinion of the network
beside the first one, and with it its own calibration and thresholds.

`calibration` comes before it, whose files stay as they are but for the scores
of further breeds. All is fitted on the network in its fastest precision, in
which that version runs.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from dogsnap.networks.second_opinion import FIELD, OPINION
from dogsnap.training.class_statistics import ClassStatistics
from dogsnap.training.stored_arrays import join_rows
from dogsnap.training.teaching import NewBreed

from lab.array_files import pick_rows
from lab.calibration import (
    UNKNOWN,
    Head,
    Observations,
    Photos,
    answers_of,
    columns_of,
    fit_decision,
    fit_known,
    looks_apart,
    observe,
    views_of,
)
from lab.passes import OPINION_OF
from lab.relatives import has_relatives
from lab.second_pass_choice import SUREST_OF_BOTH

# From which probability on the version before, of one network, was sure of a breed, by its
# validation photos. What a second network wins goes into being right, not into naming more
# dogs, of unknown breeds, too.
LEAST_SURE = 0.915
MADE_BY = "python -m lab calibrate --opinion 1"
NAMES = ("id", "name", "name_zh")


def fit(folder: Path, photos: Photos, ranks: Path, work: Path) -> dict[str, Any]:
    """Write the scores and int8 ranges of SECOND_OPINION in `folder`, and in
    taught.json the scores and a row of the network beside for each breed;
    returns the first scores.

    The folder has what `calibration.calibrate` writes, the weights of the
    network beside, and a SECOND_OPINION that tells `network`, `classes`, `dogs`
    and `weight`. The arguments are those of `calibrate`. Raises ExportError,
    DatasetError, TeachingError, OSError.
    """
    stated = read_json(folder / SECOND_OPINION)
    alone = read_stored(folder.resolve().name, folder, with_head=False)
    weights = alone.description["scores"]["weights"]
    opinion = read_opinion({**stated, "weights": weights}, folder, weights)
    stored = replace(alone, opinion=opinion)
    seen = observe(stored, photos, work / opinion.sha256[:16])
    kernel, bias = breed_weights(stored.model, ())
    file = folder / STATISTICS_FILE
    statistics = ClassStatistics.load(file, len(bias), len(kernel), weights)
    scores = _keep_sure(fit_known(stored, statistics, seen, photos.breeds, ranks))
    # Of both networks together, as the version runs them.
    ranges = replace(seen.passes.ranges, weights=weights, made_by=MADE_BY)
    found = {INT8_RANGES: vars(ranges), "scores": scores}
    write_json({**stated, "made_by": MADE_BY, "weights": weights, **found}, folder / SECOND_OPINION)
    if photos.breeds:
        kept = read_json(folder / TAUGHT)
        further = [{name: breed[name] for name in NAMES} for breed in kept["taught"]]
        labels = [*stored.description["labels"], *further]
        prior = stored.calibration.temperature * prior_of(stored, labels, folder)
        fitted, (kernel, bias) = _fit_taught(
            stored, statistics, seen, photos.breeds, labels, prior, ranks
        )
        rows = []
        for breed, weights, offset in zip(kept["taught"], kernel.T, bias, strict=True):
            row = {"weights": write_halves(weights), "bias": float(offset)}
            rows.append({**breed, OPINION: row})
        added = {FIELD: opinion.sha256, "taught": rows, "scores": fitted}
        write_json({**kept, **added}, folder / TAUGHT)
    shutil.rmtree(seen.passes.work)
    return scores


def _keep_sure(scores: dict[str, Any]) -> dict[str, Any]:
    """The scores with a breed sure from no smaller probability on than LEAST_SURE."""
    decision = scores["second_pass"]["decision"]
    decision["confident_threshold"] = max(decision["confident_threshold"], LEAST_SURE)
    return scores


def _fit_taught(
    stored: Stored,
    statistics: ClassStatistics,
    seen: Observations,
    breeds: Sequence[NewBreed],
    labels: Sequence[Mapping[str, Any]],
    prior: np.ndarray,
    ranks: Path,
) -> tuple[dict[str, Any], Head]:
    """The same of `breeds` behind those of the weights, whose rows stay as they
    are; each gets a row of the network beside.

    Each photo is answered by rows of both that were taught without its fold.
    `prior`: what it adds to the logits of all `labels`.
    """
    assert stored.opinion
    folds = [breed.folds(breed.photos) for breed in breeds]
    apart = folds, seen.checked_folds
    first = len(labels) - len(breeds)
    kernel, bias = breed_weights(stored.model, ())
    lessons = [views_of(lesson, tuple(OPINION_OF)) for lesson in seen.lessons]
    learnt = statistics.fit_new_classes(
        lessons, kernel, bias + prior[:first], seen.beside["fast"], *apart
    )
    heads = []
    for weights, offset in learnt.parts:
        heads.append(_add_classes((kernel, bias), weights, offset - prior[first:]))
    # Behind the features of the network beside are its odds of a dog.
    known, others = (each[OPINION_OF["fast"]][:, :-1] for each in (seen.known, seen.beside))
    shown = seen.known["breeds"]
    kernel, bias = stored.opinion.breed_weights(())
    lessons = [views_of(lesson, tuple(OPINION_OF.values()))[..., :-1] for lesson in seen.lessons]
    own_statistics = ClassStatistics.of(known, shown, known[::2], shown[::2])
    learnt = own_statistics.fit_new_classes(lessons, kernel, bias, others, *apart)
    opinions = [_add_classes((kernel, bias), *part) for part in learnt.parts]
    places = np.repeat(np.arange(first, len(labels)), list(map(len, folds)))
    features, in_folds = join_rows(seen.lessons), np.concatenate(folds)
    new = columns_of(features, in_folds, places, whole=True)
    # The same as if their own breed had not been taught.
    is_strange = np.array([not has_relatives(labels[int(place)]["id"]) for place in places])
    strange = columns_of(
        pick_rows(features, is_strange),
        in_folds[is_strange],
        UNKNOWN,
        left_out=places[is_strange],
    )
    said = answers_of(
        [seen.known, new, *seen.further, strange],
        heads,
        looks_apart(statistics, seen.checked_folds, new),
        opinions,
        stored.opinion.weight,
    )
    precision = seen.passes.precision
    fitted = fit_decision(said, precision, labels, ranks, SUREST_OF_BOTH, first)
    return _keep_sure(fitted), (learnt.weights, learnt.bias)


def _add_classes(head: Head, weights: np.ndarray, bias: np.ndarray) -> Head:
    return np.column_stack([head[0], weights]), np.append(head[1], bias)
