"""Everything after a training, from weights and photos: what turns logits into
answers, and the thresholds of each version.

Temperature, lapse rate, groups, second pass and the head that tells dogs are
chosen on all validation photos; for the thresholds, once for each fold of them,
on all but that fold, so that a photo takes no part in the choices by which it
is answered (cross-fitting). Halves would leave too few photos for a bound. The
network runs over each photo once, whatever is fitted on what it sees.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
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
from dogsnap.training import dataset, scoring, teaching
from dogsnap.training.class_statistics import ClassStatistics
from dogsnap.training.dataset import FOLDS, Example, breeds_of, class_ids, paths_of
from dogsnap.training.scoring import share
from dogsnap.training.stored_arrays import Arrays, join_rows

from lab import artefacts, decision_fit, dog_score_fit, second_pass_choice, sureness
from lab.array_files import keep_arrays, pick_rows
from lab.group_choice import find_groups, of_groups
from lab.passes import OPINION_OF, Passes, write_ranges
from lab.photo_lists import folds, join_source, sources_of, without_dogs
from lab.prior import log_prior as log_prior_of
from lab.relatives import has_relatives
from lab.trainer import with_whole_pictures

# and the version of what it computes: to be raised with every change of that
MADE_BY = "dogsnap calibrate 6"
# training photos that the ranges of int8 are found on, crops and whole pictures by halves
RANGE_PHOTOS = 432
NO_DOG, ANY, UNKNOWN = -1, -2, -3  # instead of a breed
FEATURES = "features.npz"  # of the photos that the class statistics are made of
NOTHING = -1  # no row of the network is left out
Head = tuple[np.ndarray, np.ndarray]  # kernel (f, classes) and bias (classes,)


@dataclass(frozen=True)
class WithoutDogs:
    """Photos that show no dog, as paths or as bytes of files.

    `folds` int (n,): in which of FOLDS parts each is.
    """

    photos: Sequence[Path | bytes]
    folds: np.ndarray


@dataclass(frozen=True)
class Photos:
    """What everything is fitted on.

    `training`: what the weights were trained on, for ranges and class
    statistics. `validation`: other photos, crops and whole pictures. `taught`:
    folders of photos of further breeds, see `teaching.breeds_in`. `dogs`:
    photos of dogs, whatever the breed. `one_source`: see
    `photo_lists.sources_of`. `left_out`: folders of the first of `taught` that
    are no breeds to teach.
    """

    training: list[Example]
    validation: list[Example]
    others: WithoutDogs
    taught: Sequence[Path] = ()
    dogs: Sequence[Path] = ()
    one_source: Sequence[str] = ()
    left_out: Sequence[str] = ()

    def read_taught_breeds(self) -> list[teaching.NewBreed]:
        """Raises DatasetError, TeachingError."""
        if not self.taught:
            return []
        found = {breed.name: breed for breed in teaching.breeds_in(self.taught, {})}
        for folder in self.left_out:
            if found.pop(folder.replace("_", " "), None) is None:
                raise teaching.TeachingError(
                    f"there is no folder {folder} in {self.taught[0]} to be left out"
                )
        breeds = []
        for breed in found.values():
            sources = {}
            for path, source in breed.sources.items():
                sources[path] = join_source(source, self.one_source)
            breeds.append(replace(breed, sources=sources))
        return breeds


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


@dataclass(frozen=True)
class Seen:
    """Photos as the network sees them: `features` (n, f) of each pass, `folds`
    int (n,), and, of each photo or of all alike:

    `breeds`: a place in the class order, NO_DOG, ANY or UNKNOWN. `whole`:
    whether it is a whole picture of a breed. `left_out`: the breed that answers
    lack, as if the network had not been taught it, or NOTHING.
    """

    features: Arrays
    folds: np.ndarray
    breeds: np.ndarray | int
    whole: np.ndarray | bool = False
    left_out: np.ndarray | int = NOTHING

    def of_each(self, name: str) -> np.ndarray:
        """The field of this name, (n,)."""
        return np.broadcast_to(getattr(self, name), self.folds.shape)


@dataclass(frozen=True)
class TeachingPhotos:
    """Photos that teach breeds, or that keep other breeds as they are.

    `known`: those of other breeds. `rows`: where the features of each are in
    `features` (n, f) of each pass.
    """

    known: Sequence[Path]
    rows: Mapping[Path, int]
    features: Arrays

    def of(self, paths: Sequence[Path]) -> dict[str, np.ndarray]:
        """The features (n, f) of each pass for these photos."""
        return pick_rows(self.features, [self.rows[path] for path in paths])

    def looks(self) -> dict[Path, np.ndarray]:
        """The features (views, f) of each photo that `teaching.Teacher` takes."""
        exact = self.features["exact"]
        views = np.stack([exact, self.features.get("nearer", exact)], axis=1)
        return dict(zip(self.rows, views, strict=True))


@dataclass(frozen=True)
class Observations:
    """What a network sees: `passes` of it over the `training` photos, in `known`
    the `validation` photos, in `further` those without a dog and of any dog, in
    `taught` those that teach breeds.
    """

    passes: Passes
    training: list[Example]
    validation: list[Example]
    known: Seen
    further: Sequence[Seen]
    taught: TeachingPhotos


@dataclass(frozen=True)
class Answers:
    """What the networks of the versions say of photos before anything is
    fitted.

    `breeds` int (n,), NO_DOG where there is none, ANY where nobody says it,
    UNKNOWN where these networks were not taught it; `whole` bool (n,): whole
    pictures of a breed; `folds` int (n,). `surest`: what is tried as the
    certainty up to which there is a second pass. `exact`: the network in float32;
    `fast`: that in the fastest precision, `after`: its second pass; None
    without one.
    """

    breeds: np.ndarray
    whole: np.ndarray
    folds: np.ndarray
    exact: Pass
    fast: Pass
    after: Pass | None
    surest: Sequence[float] = second_pass_choice.SUREST

    def where(self, chosen: np.ndarray) -> "Answers":
        """Those of the photos where `chosen` bool (n,) is true."""
        return Answers(
            self.breeds[chosen],
            self.whole[chosen],
            self.folds[chosen],
            self.exact.where(chosen),
            self.fast.where(chosen),
            self.after and self.after.where(chosen),
            self.surest,
        )

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
    def on(cls, said: Answers, log_prior: np.ndarray) -> "Choice":
        """The choice on these photos, with a prior (classes,)."""
        photos, others = said.where(said.breeds >= 0), said.where(said.breeds == NO_DOG)
        weights = decision_fit.weights_of(photos.breeds, photos.whole, log_prior)
        fitted = fit_calibration(photos.exact.logits, photos.breeds, log_prior, weights=weights)
        calibration = Calibration(round(fitted.temperature, 4), log_prior, round(fitted.lapse, 4))
        calibration = _with_sureness(
            calibration, photos, weights, said.where(said.breeds == UNKNOWN)
        )
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
            first, second, photos.breeds, photos.whole, weights, said.surest
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


def _with_sureness(
    calibration: Calibration, photos: Answers, weights: np.ndarray, unknown: Answers
) -> Calibration:
    """The same that weighs how much photos look like their first breed, where
    there are photos of unknown breeds to fit that.
    """
    if not len(unknown.breeds):
        return calibration
    known = calibration.probabilities(photos.exact.logits)
    strange = calibration.probabilities(unknown.exact.logits)
    right = known.argmax(axis=1) == photos.breeds
    fitted = sureness.fit_sureness(
        (known, photos.exact.looks), right, weights, (strange, unknown.exact.looks)
    )
    return replace(calibration, sureness=fitted)


def without_dog(
    not_dogs: Sequence[Path],
    validation: list[Example],
    frames: Path | None,
    further: Sequence[Path],
    one_source: Sequence[str],
) -> WithoutDogs:
    """Photos that show no dog: these, those that the `index.tsv` of each folder
    of `further` lists, and, where there are some, parts of whole pictures
    beside their dog. Photos of one source are in one fold; `one_source`: see
    `photo_lists.sources_of`.
    """
    photos: list[Path | bytes] = list(not_dogs)
    if frames and not_dogs:
        photos += without_dogs(with_whole_pictures(validation), frames)
    parts = [index % FOLDS for index in range(len(photos))]
    for folder in further:
        sources = sources_of(folder, one_source)
        photos += sources
        parts += map(dataset.fold_of, sources.values())
    return WithoutDogs(photos, np.array(parts, int))


def calibrate(
    folder: Path,
    photos: Photos,
    ranks: Path,
    work: Path,
) -> dict[str, Any]:
    """Write scores.json, int8_ranges.json and class_statistics.npz into
    `folder` with the weights, labels and recipe; return the scores. With photos
    of further breeds, write taught.json, too.

    `ranks`: see `popularity`. `work`: folder for what is computed, to go on
    from where the same call was interrupted; it is removed in the end. Raises
    ExportError, DatasetError, FreezingError, TeachingError, OSError.
    """
    breeds = photos.read_taught_breeds()
    teaching.check_kept(
        folder / TAUGHT,
        [breed.id for breed in breeds],
        "of which --taught gives no photos; give their folder, or remove the file",
    )
    keras.config.set_dtype_policy("float32")
    stored = read_unfitted(folder)
    labels = stored.description["labels"]
    weights = checksums.digest(folder / STORED_WEIGHTS)
    seen = observe(stored, photos, breeds, MADE_BY + weights, work)
    click.echo("class statistics")
    features = keep_arrays(
        seen.passes.work / FEATURES,
        partial(
            artefacts.statistics_features, folder, stored.model, seen.training, seen.validation
        ),
    )
    statistics = ClassStatistics.of(**features)
    click.echo(f"choosing and fitting on {len(seen.validation)} photos")
    heads = [breed_weights(stored.model, ())] * FOLDS
    checked_folds = seen.known.folds[::2]  # of the validation photos that the statistics hold
    said = answers_of(
        [seen.known, *seen.further, *see_unknown(breeds, seen.taught)],
        heads,
        looks_apart(statistics, checked_folds),
    )
    fitted = fit_decision(said, seen.passes.precision, labels, ranks)
    scores = {"weights": weights, "made_by": MADE_BY, **fitted}
    statistics.save(folder / STATISTICS_FILE, weights, MADE_BY)
    write_ranges(replace(seen.passes.ranges, weights=weights, made_by=MADE_BY), folder / RANGES)
    write_json(scores, folder / "scores.json")
    if breeds:
        version = export_stored(
            folder.resolve().name, folder, seen.passes.work / "models", click.echo
        )
        teacher = teaching.Teacher(version.folder, folder, seen.taught.looks())
        more = np.concatenate([features["features"], seen.taught.of(seen.taught.known)["exact"]])
        teacher.teach(breeds, False, click.echo, more, checked_folds)
        taught = teacher.describe_taught(teacher.head)
        write_json({"made_by": MADE_BY, **taught}, folder / TAUGHT)
    shutil.rmtree(seen.passes.work)
    return scores


def read_unfitted(folder: Path) -> Stored:
    """The network that a training left in `folder`, of which nothing is fitted.

    Raises ExportError, or ValueError for weights that do not fit.
    """
    trained = Trained.read(folder, folder.resolve().name)
    description = {"labels": trained.labels, "recipe": trained.recipe}
    return Stored(trained.load(), Calibration(1.0), description)


def observe(
    stored: Stored,
    photos: Photos,
    breeds: Sequence[teaching.NewBreed],
    made_by: str,
    work: Path,
) -> Observations:
    """What a network sees in all photos, also in those that teach `breeds`.

    `work`: where that is kept, in a folder of its own for the photos and for
    `made_by`, which names the command and the weights.
    """
    training = with_whole_pictures(photos.training)
    validation = with_whole_pictures(photos.validation)
    text = "\n".join([made_by, *map(str, paths_of([*training, *validation]))])
    own_work = work / hashlib.sha256(text.encode()).hexdigest()[:16]
    own_work.mkdir(parents=True, exist_ok=True)
    passes = Passes(stored, photos_for_ranges(training), own_work)
    known = Seen(
        passes.features("validation", paths_of(validation)),
        folds(validation),
        breeds_of(validation),
        np.array([example.is_whole for example in validation]),
    )
    others, further = photos.others, []
    if others.photos:
        further.append(Seen(passes.features("others", others.photos), others.folds, NO_DOG))
    if photos.dogs:
        by_turns = np.arange(len(photos.dogs)) % FOLDS
        further.append(Seen(passes.features("dogs", photos.dogs), by_turns, ANY))
    taught = look_at(photos.taught, breeds, stored.description["recipe"], passes)
    return Observations(passes, training, validation, known, further, taught)


def look_at(
    folders: Sequence[Path],
    breeds: Sequence[teaching.NewBreed],
    recipe: Mapping[str, Any],
    passes: Passes,
) -> TeachingPhotos:
    """The photos of `breeds` and those of `folders` that keep others as they are; none
    where there are no breeds.
    """
    if not breeds:
        return TeachingPhotos((), {}, {})
    known = teaching.known_photos(folders, breeds, recipe)
    own = chain.from_iterable(breed.photos for breed in breeds)
    paths = list(dict.fromkeys([*known, *own]))
    rows = {path: row for row, path in enumerate(paths)}
    return TeachingPhotos(known, rows, passes.features("taught", paths, near=True))


def see_unknown(breeds: Sequence[teaching.NewBreed], teaching_photos: TeachingPhotos) -> list[Seen]:
    """Photos of breeds that the network was not trained on, without those that
    are named as a near relative for good reason.
    """
    unknown = []
    for breed in breeds:
        if not has_relatives(breed.id):
            features = teaching_photos.of(breed.photos)
            unknown.append(Seen(features, breed.folds(breed.photos), UNKNOWN))
    return unknown


def as_if_unknown(taught: Seen, labels: Sequence[Mapping[str, Any]]) -> Seen:
    """The same of photos that taught breeds, answered as if their own breed had
    not been taught.
    """
    breeds = taught.of_each("breeds")
    is_strange = np.array([not has_relatives(labels[int(breed)]["id"]) for breed in breeds])
    features = pick_rows(taught.features, is_strange)
    left_out = breeds[is_strange]
    return Seen(features, taught.folds[is_strange], UNKNOWN, left_out=left_out)


def exact_of(features: Arrays) -> np.ndarray:
    """Features (n, f) of one pass, in float32 where that was computed."""
    return features["exact"] if "exact" in features else features["fast"]


def looks_apart(
    statistics: ClassStatistics, checked_folds: np.ndarray, taught: Seen | None = None
) -> list[Looks]:
    """How much photos look like each breed, by all photos but those of each of
    FOLDS.

    `checked_folds` int (m,): of the stored validation photos. `taught`: photos
    of breeds that stand behind the others.
    """
    apart = []
    for fold in range(FOLDS):
        chosen = checked_folds != fold
        if not chosen.any():
            chosen = ~chosen
        means = list(statistics.means)
        if taught:
            breeds = taught.of_each("breeds")
            for breed in np.unique(breeds):
                own = breeds == breed
                kept = own & (taught.folds != fold)
                means.append(exact_of(taught.features)[kept if kept.any() else own].mean(axis=0))
        checked, classes = statistics.checked[chosen], statistics.checked_classes[chosen]
        apart.append(Looks.of(np.stack(means), checked, classes))
    return apart


def answers_of(
    seen: Sequence[Seen],
    heads: Sequence[Head],
    looks: Sequence[Looks],
    opinions: Sequence[Head] = (),
    weight: float = 0.0,
) -> Answers:
    """By the head of the breeds for each of FOLDS, how much photos look like
    them, and, if there is a network beside, its heads and their weight.
    """

    def join(name: str) -> np.ndarray:
        return np.concatenate([photos.of_each(name) for photos in seen])

    folds_of_all, left_out = join("folds"), join("left_out")
    lacking = np.flatnonzero(left_out != NOTHING)
    passes = {}
    joined = join_rows([photos.features for photos in seen])
    for name in [name for name in joined if name not in OPINION_OF.values()]:
        features = joined[name]
        logits = np.zeros((len(features), len(heads[0][1])))
        looked = np.zeros(logits.shape, np.float32)
        for fold, (kernel, bias) in enumerate(heads):
            own = folds_of_all == fold
            logits[own] = features[own] @ kernel + bias
            looked[own] = features[own] @ looks[fold].weights + looks[fold].bias
        logits[lacking, left_out[lacking]] = -np.inf
        largest = logits.max(-1)
        if opinions:
            beside, odds = np.split(joined[OPINION_OF[name]], [-1], axis=1)
            features = np.column_stack([features, odds])
            for fold, (kernel, bias) in enumerate(opinions):
                own = folds_of_all == fold
                told = beside[own] @ kernel + bias
                known = told - np.logaddexp.reduce(told, axis=1, keepdims=True)
                logits[own] += weight * known.astype(np.float64)
        passes[name] = Pass(features, logits, looked, largest)
    fast = passes["fast"]
    exact = passes.get("exact", fast)  # versions with a second opinion are the fast ones alone
    surest = second_pass_choice.SUREST_OF_BOTH if opinions else second_pass_choice.SUREST
    after = passes.get("after")
    return Answers(join("breeds"), join("whole"), folds_of_all, exact, fast, after, surest)


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
    first: int | None = None,
) -> dict[str, Any]:
    """What scores.json says of the choices, of the thresholds of one pass and
    of two, and how good both are.

    `first`: the place of the first class that was taught, if any.
    """
    is_named = said.breeds >= 0
    photos, others = said.where(is_named), said.where(said.breeds == NO_DOG)
    log_prior = np.round(log_prior_of(labels, ranks), 4)
    weights = decision_fit.weights_of(photos.breeds, photos.whole, log_prior)
    choice = Choice.on(said, log_prior)
    chosen = []
    for fold in range(FOLDS):
        apart = said.folds != fold
        # Nothing is left where each breed has one photo.
        is_choice = (is_named & apart).any() and (is_named & ~apart).any()
        chosen.append(Choice.on(said.where(apart), log_prior) if is_choice else choice)
    probabilities, decision = _decide(Choice.once, chosen, photos, others, weights)
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
    both, decision = _decide(Choice.twice, chosen, photos, others, weights)
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
    photos: Answers,
    others: Answers,
    weights: np.ndarray,
) -> tuple[np.ndarray, Decision]:
    """Probabilities (n, classes) for photos that took no part in the choice,
    and the thresholds found on them.

    `chosen`: for each fold, what was chosen without it. `others`: photos
    without a dog.
    """
    count = len(photos.breeds)
    probabilities = np.zeros_like(photos.exact.logits)
    dogs = np.zeros(count)
    none = np.zeros(len(others.breeds))
    shared = np.zeros(count)
    held = np.zeros(count, bool)
    for fold, apart in enumerate(chosen):
        inside = photos.folds == fold
        outside = others.folds == fold
        probabilities[inside], dogs[inside] = answer(apart, photos.where(inside))
        shared[inside], held[inside] = of_groups(
            probabilities[inside], photos.breeds[inside], apart.groups
        )
        none[outside] = answer(apart, others.where(outside))[1]
    dog = decision_fit.dog_threshold(dogs, photos.whole, none)
    return probabilities, decision_fit.fit_decision(
        probabilities, photos.breeds, shared, held, photos.whole, weights, dog
    )
