"""Everything after a training, from weights and photos: what turns logits into
answers, and the thresholds of each version.

Temperature, lapse rate, groups, second pass and the head that tells dogs are
chosen on all validation photos; for the thresholds, once for each fold of them,
on all but that fold, so that a photo takes no part in the choices by which it
is answered (cross-fitting). Halves would leave too few photos for a bound. The
network runs over each photo once, whatever is fitted on what it sees.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import click
import keras
import numpy as np
from dogsnap.exporting import TAUGHT
from dogsnap.exporting.export import (
    STATISTICS_FILE,
    Stored,
    Trained,
    breed_weights,
    export_stored,
)
from dogsnap.exporting.quantization import RANGES
from dogsnap.files import write_json
from dogsnap.networks.architectures import STORED_WEIGHTS
from dogsnap.networks.dog_score import DogHead
from dogsnap.networks.looks import Looks
from dogsnap.networks.second_pass import SecondPass
from dogsnap.networks.temperature import Calibration, fit_calibration
from dogsnap.serving.answers.levels import Decision
from dogsnap.serving.versions import checksums
from dogsnap.training import scoring, teaching
from dogsnap.training.class_statistics import ClassStatistics
from dogsnap.training.dataset import FOLDS, Example, breeds_of, class_ids, paths_of
from dogsnap.training.scoring import share
from dogsnap.training.stored_arrays import Arrays, join_rows

from lab import artefacts, decision_fit, dog_score_fit, second_pass_choice, sureness
from lab.array_files import pick_rows
from lab.group_choice import find_groups, of_groups
from lab.passes import OPINION_OF, Passes
from lab.photo_lists import folds
from lab.prior import log_prior as log_prior_of
from lab.relatives import has_relatives

# and the version of what it computes: to be raised with every change of that
MADE_BY = "dogsnap calibrate 6"
# training photos that the ranges of int8 are found on, crops and whole pictures by halves
RANGE_PHOTOS = 432
NO_DOG, ANY, UNKNOWN = -1, -2, -3  # instead of a breed
NOTHING = -1  # no row of the network is left out
Head = tuple[np.ndarray, np.ndarray]  # kernel (f, classes) and bias (classes,)


@dataclass(frozen=True)
class Photos:
    """What everything is fitted on.

    `training`: what the weights were trained on, for ranges and class
    statistics. `validation`: other photos. Both are crops and whole pictures.
    `others`: photos without a dog, as paths or as bytes of files, and
    `other_folds` int (n,): in which of FOLDS parts each is. `dogs`: photos of
    dogs, whatever the breed. `breeds` to teach, and `taught`: the folders of
    their photos, see `teaching.breeds_in`.
    """

    training: list[Example]
    validation: list[Example]
    others: Sequence[Path | bytes]
    other_folds: np.ndarray
    dogs: Sequence[Path]
    breeds: Sequence[teaching.NewBreed]
    taught: Sequence[Path]


@dataclass(frozen=True)
class Pass:
    """What a pass of the network gives for photos: `features` float32 (n, f),
    `logits` and `looks` (n, classes), `largest` (n,): the largest logit without
    a second opinion.
    """

    features: np.ndarray
    logits: np.ndarray
    looks: np.ndarray
    largest: np.ndarray

    def where(self, chosen: np.ndarray) -> "Pass":
        """Those of the photos where `chosen` bool (n,) is true."""
        return Pass(*(array[chosen] for array in vars(self).values()))

    def logarithms(self, calibration: Calibration) -> np.ndarray:
        """The log-probabilities (n, classes)."""
        looks = self.looks.astype(np.float64)
        return np.log(calibration.probabilities(self.logits, looks=looks))

    def dogs(self, head: DogHead) -> np.ndarray:
        """The probabilities of a dog, (n,)."""
        return dog_score_fit.probabilities(head, self.features, self.largest)


def columns_of(
    features: Arrays,
    folds: np.ndarray,
    breeds: np.ndarray | int,
    whole: np.ndarray | bool = False,
    left_out: np.ndarray | int = NOTHING,
) -> dict[str, np.ndarray]:
    """Photos as the network sees them: `features` (n, f) of each pass, `folds`
    int (n,), and, of each photo or of all alike:

    `breeds`: a place in the class order, NO_DOG, ANY or UNKNOWN. `whole`:
    whether it is a whole picture of a breed. `left_out`: the breed that answers
    lack, as if the network had not been taught it, or NOTHING.
    """
    of_each = {"folds": folds, "breeds": breeds, "whole": whole, "left_out": left_out}
    spread = {name: np.broadcast_to(value, len(folds)) for name, value in of_each.items()}
    return {**features, **spread}


@dataclass(frozen=True)
class Observations:
    """What a network sees in its `passes`: in `known` the validation photos, in
    `further` those without a dog and of any dog, see `columns_of`.

    Features: in `lessons` those of the photos of each breed to teach, in
    `beside` those of the photos that keep other breeds as they are.
    """

    passes: Passes
    known: Arrays
    further: Sequence[Arrays]
    lessons: Sequence[Arrays]
    beside: Arrays

    @property
    def checked_folds(self) -> np.ndarray:
        """Of the validation photos that the class statistics hold."""
        return self.known["folds"][::2]


@dataclass(frozen=True)
class Answers:
    """What the networks of the versions say of photos before anything is
    fitted.

    `breeds` int (n,), NO_DOG where there is none, ANY where nobody says it,
    UNKNOWN where these networks were not taught it; `whole` bool (n,): whole
    pictures of a breed; `folds` int (n,). `exact`: the network in float32;
    `fast`: that in the fastest precision, `after`: its second pass; None
    without one.
    """

    breeds: np.ndarray
    whole: np.ndarray
    folds: np.ndarray
    exact: Pass
    fast: Pass
    after: Pass | None

    def where(self, chosen: np.ndarray) -> "Answers":
        """Those of the photos where `chosen` bool (n,) is true."""
        columns = self.breeds[chosen], self.whole[chosen], self.folds[chosen]
        after = self.after and self.after.where(chosen)
        return Answers(*columns, self.exact.where(chosen), self.fast.where(chosen), after)

    def in_both_passes(self) -> tuple[np.ndarray, np.ndarray]:
        """The features (m, f) of `fast`, and of `after` behind them, and the
        largest logits of a breed (m,).
        """
        passes = [self.fast, self.after] if self.after else [self.fast]
        features = [each.features for each in passes]
        largest = [each.largest for each in passes]
        return np.concatenate(features), np.concatenate(largest)


@dataclass(frozen=True)
class Choice:
    """What is chosen on validation photos.

    `groups`: of look-alikes, as places in the class order. `dog`: what tells
    dogs.
    """

    calibration: Calibration
    groups: list[list[int]]
    passing: SecondPass | None
    dog: DogHead

    @classmethod
    def on(cls, said: Answers, log_prior: np.ndarray, surest: Sequence[float]) -> "Choice":
        """The choice on these photos, with a prior (classes,). `surest`: what is tried
        as the certainty up to which there is a second pass.
        """
        photos, others = said.where(said.breeds >= 0), said.where(said.breeds == NO_DOG)
        unknown = said.where(said.breeds == UNKNOWN).exact
        weights = decision_fit.weights_of(photos.breeds, photos.whole, log_prior)
        fitted = fit_calibration(photos.exact.logits, photos.breeds, log_prior, weights=weights)
        calibration = Calibration(round(fitted.temperature, 4), log_prior, round(fitted.lapse, 4))
        if len(unknown.logits):
            known = calibration.probabilities(photos.exact.logits)
            strange = calibration.probabilities(unknown.logits)
            right = known.argmax(axis=1) == photos.breeds
            fit = sureness.fit_sureness(
                (known, photos.exact.looks), right, weights, (strange, unknown.looks)
            )
            calibration = replace(calibration, sureness=fit)
        groups = find_groups(np.exp(photos.exact.logarithms(calibration)), photos.breeds)
        dog = DogHead(np.zeros(said.fast.features.shape[1]), 0.0)
        if len(others.breeds):
            dogs = said.where((said.breeds >= 0) | (said.breeds == ANY))
            # On both passes: the second one sees the dog, or what looks like one, at
            # another size.
            dog = dog_score_fit.fit(*dogs.in_both_passes(), *others.in_both_passes())
        if photos.after is None:
            return cls(calibration, groups, None, dog)
        first, second = photos.fast.logarithms(calibration), photos.after.logarithms(calibration)
        passing = second_pass_choice.choose(
            first, second, photos.breeds, photos.whole, weights, surest
        )
        return cls(calibration, groups, passing, dog)

    def once(self, photos: Answers) -> tuple[np.ndarray, np.ndarray]:
        """Of one pass in float32: the probabilities of the breeds (n, classes),
        and of a dog (n,).
        """
        return np.exp(photos.exact.logarithms(self.calibration)), photos.exact.dogs(self.dog)

    def twice(self, photos: Answers) -> tuple[np.ndarray, np.ndarray]:
        """The same of the version with a second pass, for a dog the larger one
        of both where there is one.
        """
        assert self.passing
        assert photos.after
        before = photos.fast.logarithms(self.calibration)
        after = photos.after.logarithms(self.calibration)
        both, twice = second_pass_choice.mix_passes(self.passing, before, after)
        first, second = photos.fast.dogs(self.dog), photos.after.dogs(self.dog)
        return np.exp(both), np.where(twice, np.maximum(first, second), first)


def calibrate(folder: Path, photos: Photos, ranks: Path, work: Path) -> dict[str, Any]:
    """Write scores.json, int8_ranges.json and class_statistics.npz into
    `folder` with the weights, labels and recipe; return the scores. With
    breeds to teach, write taught.json, too.

    `ranks`: see `popularity`. `work`: folder for what is computed, to go on
    from where the same call was interrupted; it is removed in the end. Raises
    ExportError, DatasetError, FreezingError, TeachingError, OSError.
    """
    teaching.check_kept(
        folder / TAUGHT,
        [breed.id for breed in photos.breeds],
        "of which --taught gives no photos; give their folder, or remove the file",
    )
    keras.config.set_dtype_policy("float32")
    name = folder.resolve().name
    trained = Trained.read(folder, name)
    description = {"labels": trained.labels, "recipe": trained.recipe}
    stored = Stored(trained.load(), Calibration(1.0), description)  # nothing is fitted yet
    weights = checksums.digest(folder / STORED_WEIGHTS)
    seen = observe(stored, photos, work / weights[:16])
    click.echo("class statistics")
    features = artefacts.statistics_features(
        trained, stored.model, photos.training, photos.validation
    )
    statistics = ClassStatistics.of(**features)
    fitted = fit_known(stored, statistics, seen, photos.breeds, ranks)
    scores = {"weights": weights, "made_by": MADE_BY, **fitted}
    statistics.save(folder / STATISTICS_FILE, weights, MADE_BY)
    ranges = replace(seen.passes.ranges, weights=weights, made_by=MADE_BY)
    write_json(asdict(ranges), folder / RANGES)
    write_json(scores, folder / "scores.json")
    if photos.breeds:
        version = export_stored(name, folder, seen.passes.work / "models", click.echo)
        looks: dict[Path, np.ndarray] = {}
        for breed, lesson in zip(photos.breeds, seen.lessons, strict=True):
            looks |= zip(breed.photos, views_of(lesson, ("exact", "nearer")), strict=True)
        teacher = teaching.Teacher(version.folder, folder, looks)
        more = np.concatenate([features["features"], seen.beside["exact"]])
        teacher.teach(photos.breeds, False, click.echo, more, seen.checked_folds)
        taught = teacher.describe_taught(teacher.head)
        write_json({"made_by": MADE_BY, **taught}, folder / TAUGHT)
    shutil.rmtree(seen.passes.work)
    return scores


def observe(stored: Stored, photos: Photos, work: Path) -> Observations:
    """What a network sees in all photos, also in those that teach breeds, which
    `work` keeps.
    """
    passes = Passes(stored, photos_for_ranges(photos.training), work)
    known = columns_of(
        passes.features("validation", paths_of(photos.validation)),
        folds(photos.validation),
        breeds_of(photos.validation),
        np.array([example.is_whole for example in photos.validation]),
    )
    further, lessons, beside = [], [], {}
    if photos.others:
        seen = passes.features("others", photos.others)
        further.append(columns_of(seen, photos.other_folds, NO_DOG))
    if photos.dogs:
        by_turns = np.arange(len(photos.dogs)) % FOLDS
        further.append(columns_of(passes.features("dogs", photos.dogs), by_turns, ANY))
    if photos.breeds:
        recipe = stored.description["recipe"]
        groups = [breed.photos for breed in photos.breeds]
        groups.append(teaching.known_photos(photos.taught, photos.breeds, recipe))
        paths = list(dict.fromkeys(chain.from_iterable(groups)))
        rows = {path: row for row, path in enumerate(paths)}
        seen = passes.features("taught", paths, near=True)
        *lessons, beside = [pick_rows(seen, [rows[path] for path in group]) for group in groups]
    return Observations(passes, known, further, lessons, beside)


def views_of(seen: Arrays, passes: Sequence[str]) -> np.ndarray:
    """Features (n, views, f) of photos."""
    return np.stack([seen[name] for name in passes], axis=1)


def fit_known(
    stored: Stored,
    statistics: ClassStatistics,
    seen: Observations,
    breeds: Sequence[teaching.NewBreed],
    ranks: Path,
) -> dict[str, Any]:
    """What scores.json says, of the breeds of the weights. `breeds` to teach are
    unknown here, but for those that are named as a near relative for good reason.
    """
    click.echo(f"choosing and fitting on {len(seen.known['folds'])} photos")
    unknown = []
    for breed, lesson in zip(breeds, seen.lessons, strict=True):
        if not has_relatives(breed.id):
            unknown.append(columns_of(lesson, breed.folds(breed.photos), UNKNOWN))
    heads = [breed_weights(stored.model, ())] * FOLDS
    opinions = [stored.opinion.breed_weights(())] * FOLDS if stored.opinion else []
    said = answers_of(
        [seen.known, *seen.further, *unknown],
        heads,
        looks_apart(statistics, seen.checked_folds),
        opinions,
        stored.opinion.weight if stored.opinion else 0.0,
    )
    surest = second_pass_choice.SUREST_OF_BOTH if stored.opinion else second_pass_choice.SUREST
    labels = stored.description["labels"]
    return fit_decision(said, seen.passes.precision, labels, ranks, surest)


def looks_apart(
    statistics: ClassStatistics, checked_folds: np.ndarray, taught: Arrays | None = None
) -> list[Head]:
    """How much photos look like each breed, by all photos but those of each of
    FOLDS.

    `checked_folds` int (m,): of the stored validation photos. `taught`: photos
    of breeds that stand behind the others, in the fastest precision.
    """
    apart = []
    for fold in range(FOLDS):
        means = list(statistics.means)
        if taught:
            for breed in np.unique(taught["breeds"]):
                kept = (taught["breeds"] == breed) & (taught["folds"] != fold)
                means.append(taught["fast"][kept].mean(axis=0))
        chosen = checked_folds != fold
        checked, classes = statistics.checked[chosen], statistics.checked_classes[chosen]
        looks = Looks.of(np.stack(means), checked, classes)
        apart.append((looks.weights, looks.bias))
    return apart


def answers_of(
    seen: Sequence[Arrays],
    heads: Sequence[Head],
    looks: Sequence[Head],
    opinions: Sequence[Head],
    weight: float,
) -> Answers:
    """By the head of the breeds for each of FOLDS, how much photos look like
    them, and, if there is a network beside, its heads and their weight.
    """
    photos = join_rows(seen)
    breeds, whole, of_folds, left_out = (
        photos.pop(name) for name in ("breeds", "whole", "folds", "left_out")
    )
    lacking = np.flatnonzero(left_out != NOTHING)
    passes = {}
    for name in photos.keys() - OPINION_OF.values():
        features = photos[name]
        logits = _by_folds(features, of_folds, heads)
        looked = _by_folds(features, of_folds, looks)
        logits[lacking, left_out[lacking]] = -np.inf
        largest = logits.max(-1)
        if opinions:
            beside, odds = np.split(photos[OPINION_OF[name]], [-1], axis=1)
            features = np.column_stack([features, odds])
            told = _by_folds(beside, of_folds, opinions).astype(np.float32)
            known = told - np.logaddexp.reduce(told, axis=1, keepdims=True)
            logits += weight * known.astype(np.float64)
        passes[name] = Pass(features, logits, looked, largest)
    fast = passes["fast"]
    exact = passes.get("exact", fast)  # versions with a second opinion are the fast ones alone
    return Answers(breeds, whole, of_folds, exact, fast, passes.get("after"))


def _by_folds(features: np.ndarray, of_folds: np.ndarray, heads: Sequence[Head]) -> np.ndarray:
    """What the head of its fold gives of each photo, float64 (n, classes)."""
    found = np.zeros((len(features), len(heads[0][1])))
    for fold, (kernel, bias) in enumerate(heads):
        own = of_folds == fold
        found[own] = features[own] @ kernel + bias
    return found


def photos_for_ranges(training: Sequence[Example]) -> list[Path]:
    """Crops and whole pictures by halves, RANGE_PHOTOS together."""
    photos = []
    for whole in (False, True):
        kind = [example.path for example in training if example.is_whole == whole]
        photos += kind[:: max(1, 2 * len(kind) // RANGE_PHOTOS)]
    return photos


def fit_decision(
    said: Answers,
    precision: str,
    labels: Sequence[Mapping[str, Any]],
    ranks: Path,
    surest: Sequence[float] = (),
    first: int | None = None,
) -> dict[str, Any]:
    """What scores.json says of the choices, of the thresholds of one pass and
    of two, and how good both are.

    `surest`: see `Choice.on`. `first`: the place of the first class that was
    taught, if any.
    """
    photos = said.where(said.breeds >= 0)
    log_prior = np.round(log_prior_of(labels, ranks), 4)
    weights = decision_fit.weights_of(photos.breeds, photos.whole, log_prior)
    choice = Choice.on(said, log_prior, surest)
    chosen = []
    for fold in range(FOLDS):
        chosen.append(Choice.on(said.where(said.folds != fold), log_prior, surest))
    probabilities, decision = _decide(Choice.once, chosen, said, weights)
    ids = class_ids(labels)
    calibration: dict[str, Any] = {
        "temperature": choice.calibration.temperature,
        "lapse": choice.calibration.lapse,
    }
    if choice.calibration.sureness:
        calibration["sureness"] = asdict(choice.calibration.sureness)
    calibration["log_prior"] = np.round(log_prior.astype(float), 4).tolist()
    calibration |= decision.to_json()
    calibration["groups"] = [np.take(ids, group).tolist() for group in choice.groups]
    scores: dict[str, Any] = {
        "calibration": calibration,
        "dog_head": choice.dog.to_json(),
        "validation": scoring.report(
            probabilities, photos.breeds, labels, decision.confident or 1.0
        ),
    }
    if choice.passing is None:
        return scores
    both, decision = _decide(Choice.twice, chosen, said, weights)
    once = probabilities.argmax(-1) == photos.breeds
    right = both.argmax(-1) == photos.breeds
    before = photos.fast.logarithms(choice.calibration)
    _, twice = second_pass_choice.mix_passes(choice.passing, before, before)
    validation: dict[str, Any] = {
        "photos": len(photos.breeds),
        "top1_one_pass": share(once),
        "top1": share(right),
        "top1_whole_one_pass": share(once[photos.whole]),
        "top1_whole": share(right[photos.whole]),
        "second_passes": share(twice),
    }
    if first is not None:
        is_taught = photos.breeds >= first
        recall = {}
        for breed in range(first, len(ids)):
            recall[ids[breed]] = share(right[photos.breeds == breed])
        of_taught = {"photos": int(is_taught.sum()), "top1": share(right[is_taught])}
        validation["taught"] = {**of_taught, "recall": recall}
    stated = {"precision": precision, "decision": decision.to_json(), "validation": validation}
    scores["second_pass"] = {**choice.passing.to_json(), **stated}
    return scores


def _decide(
    answer: Callable[[Choice, Answers], tuple[np.ndarray, np.ndarray]],
    chosen: Sequence[Choice],
    said: Answers,
    weights: np.ndarray,
) -> tuple[np.ndarray, Decision]:
    """Probabilities (n, classes) for the photos of a breed, which took no part in the
    choice, and the thresholds found on them, and on those without a dog.

    `chosen`: for each fold, what was chosen without it.
    """
    asked = said.where(said.breeds >= NO_DOG)
    count = len(asked.breeds)
    probabilities = np.zeros_like(asked.exact.logits)
    dogs, shared, held = np.zeros(count), np.zeros(count), np.zeros(count, bool)
    for fold, apart in enumerate(chosen):
        own = asked.folds == fold
        photos = asked.where(own)
        probabilities[own], dogs[own] = answer(apart, photos)
        shared[own], held[own] = of_groups(probabilities[own], photos.breeds, apart.groups)
    named = asked.breeds >= 0
    breeds, whole = asked.breeds[named], asked.whole[named]
    dog = decision_fit.dog_threshold(dogs[named], whole, dogs[~named])
    decision = decision_fit.fit_decision(
        probabilities[named], breeds, shared[named], held[named], whole, weights, dog
    )
    return probabilities[named], decision
