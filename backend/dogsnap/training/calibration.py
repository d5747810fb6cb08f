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
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import keras
import numpy as np

from dogsnap.exporting import TAUGHT
from dogsnap.exporting.export import (
    STATISTICS_FILE,
    breed_weights,
    export_stored,
    read_json,
    read_stored,
)
from dogsnap.exporting.quantization import RANGES, Ranges
from dogsnap.files import replacing, write_json
from dogsnap.networks import popularity
from dogsnap.networks.architectures import STORED_WEIGHTS
from dogsnap.networks.dog_score import DogHead
from dogsnap.networks.groups import find_groups, of_groups
from dogsnap.networks.looks import Looks, Sureness
from dogsnap.networks.second_pass import SecondPass
from dogsnap.networks.temperature import Calibration, fit_calibration
from dogsnap.serving.answers.levels import Decision
from dogsnap.serving.versions import checksums
from dogsnap.training import (
    artefacts,
    dataset,
    dog_score,
    scoring,
    second_pass_choice,
    sureness,
    teaching,
    thresholds,
)
from dogsnap.training import ranges as int8_ranges
from dogsnap.training.class_statistics import ClassStatistics
from dogsnap.training.dataset import FOLDS, Example, Report, every_second, folds, without_dogs
from dogsnap.training.evaluation.card import has_relatives
from dogsnap.training.passes import Passes
from dogsnap.training.recipes import Recipe
from dogsnap.training.scoring import share
from dogsnap.training.trainer import with_whole_pictures

# and the version of what it computes: to be raised with every change of that
MADE_BY = "dogsnap calibrate 6"
RANGE_PHOTOS = (
    432  # training photos that the ranges of int8 are found on, crops and whole pictures by halves
)
NO_DOG, ANY, UNKNOWN = -1, -2, -3  # instead of a breed
NO_PHOTOS = np.zeros(0, int)
NOTHING = -1  # no row of the network is left out
# What is stored until everything is fitted: an answer of such a version is the softmax
# of its logits.
PLAIN = {"temperature": 1.0, **Decision(dog=0.0, confident=1.0).to_json()}


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
    photos of dogs, whatever the breed.
    """

    training: list[Example]
    validation: list[Example]
    others: WithoutDogs
    taught: Sequence[Path] = ()
    dogs: Sequence[Path] = ()


@dataclass(frozen=True)
class Pass:
    """What a pass of the network gives for photos: `features` float32 (n, f),
    `logits` and `looks` (n, classes).
    """

    features: np.ndarray
    logits: np.ndarray
    looks: np.ndarray

    def where(self, chosen: np.ndarray) -> "Pass":
        """Those of the photos where `chosen` bool (n,) is true."""
        return Pass(self.features[chosen], self.logits[chosen], self.looks[chosen])

    def logarithms(self, calibration: Calibration) -> np.ndarray:
        """The log-probabilities (n, classes)."""
        return calibration.logarithms(self.logits, self.looks)

    def dogs(self, head: DogHead) -> np.ndarray:
        """The probabilities of a dog, (n,)."""
        return head.probabilities(self.features, self.logits.max(-1))


@dataclass(frozen=True)
class Further:
    """Photos beside those of known breeds: `features` (n, f) of each pass, None
    where there are none, and `folds` int (n,).

    `breed`: NO_DOG, ANY or UNKNOWN. `left_out` int (n,): the breed that answers
    lack, as if the network had not been taught it.
    """

    features: Mapping[str, np.ndarray] | None
    folds: np.ndarray
    breed: int
    left_out: np.ndarray | None = None


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
        passes = [each and each.where(chosen) for each in (self.exact, self.fast, self.after)]
        return Answers(self.breeds[chosen], self.whole[chosen], self.folds[chosen], *passes)


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
    def on(cls, said: Answers, log_prior: np.ndarray, dog: DogHead) -> "Choice":
        """The choice on these photos, with a prior (classes,); `dog`: the head
        where none of them is without one.
        """
        photos, others = said.where(said.breeds >= 0), said.where(said.breeds == NO_DOG)
        weights = thresholds.weights_of(photos.breeds, photos.whole, log_prior)
        fitted = fit_calibration(photos.exact.logits, photos.breeds, log_prior, weights=weights)
        calibration = Calibration(round(fitted.temperature, 4), log_prior, round(fitted.lapse, 4))
        calibration = _with_sureness(
            calibration, photos, weights, said.where(said.breeds == UNKNOWN)
        )
        groups = find_groups(np.exp(photos.exact.logarithms(calibration)), photos.breeds)
        if len(others.breeds):
            dog = _dog_head(said.where((said.breeds >= 0) | (said.breeds == ANY)), others)
        if photos.after is None:
            return cls(calibration, groups, None, dog)
        both = [each.logarithms(calibration) for each in (photos.fast, photos.after)]
        passing = second_pass_choice.choose(*both, photos.breeds, photos.whole, weights)
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
        passes = (photos.fast, photos.after)
        logarithms = (each.logarithms(self.calibration) for each in passes)
        both, twice = second_pass_choice.mix_passes(self.passing, *logarithms)
        first, second = (each.dogs(self.dog) for each in passes)
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


def _dog_head(photos: Answers, others: Answers) -> DogHead:
    """Fitted on both passes: the second one sees the dog, or what looks like
    one, at another size.
    """
    shown = []
    for said in (photos, others):
        passes = [each for each in (said.fast, said.after) if each]
        shown.append(np.concatenate([each.features for each in passes]))
        shown.append(np.concatenate([each.logits.max(-1) for each in passes]))
    return dog_score.fit(*shown)


def without_dog(
    not_dogs: Sequence[Path],
    validation: list[Example],
    frames: Path | None,
    further: Sequence[Path] = (),
    one_source: Sequence[str] = (),
) -> WithoutDogs:
    """Photos that show no dog: these, those that the `index.tsv` of each folder
    of `further` lists, and, where there are some, parts of whole pictures
    beside their dog. Photos of one source are in one fold; `one_source`: see
    `dataset.sources_of`.
    """
    photos: list[Path | bytes] = list(not_dogs)
    if frames and not_dogs:
        photos += without_dogs(with_whole_pictures(validation), frames)
    parts = [np.arange(len(photos)) % FOLDS]
    for folder in further:
        sources = dataset.sources_of(folder, one_source)
        photos += sources
        parts.append(np.array([dataset.fold_of(source) for source in sources.values()], int))
    return WithoutDogs(photos, np.concatenate(parts))


def calibrate(
    folder: Path,
    photos: Photos,
    ranks: Path,
    work: Path,
    report: Report,
    one_source: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> dict:
    """Write scores.json, int8_ranges.json and class_statistics.npz into
    `folder` with the weights, labels and recipe; return the scores. With photos
    of further breeds, write taught.json, too.

    `ranks`: see `popularity`. `work`: folder for what is computed, to go on
    from where the same call was interrupted; it is removed in the end.
    `one_source`, `left_out`: see `teaching.breeds_in`. Raises ExportError,
    DatasetError, FreezingError, TeachingError, OSError.
    """
    breeds = teaching.breeds_in(photos.taught, {}, one_source, left_out) if photos.taught else []
    lost = "of which --taught gives no photos; give their folder, or remove the file"
    teaching.check_kept(folder / TAUGHT, {breed.id for breed in breeds}, lost)
    keras.config.set_dtype_policy("float32")
    labels, recipe = (read_json(folder / f"{name}.json") for name in ("labels", "recipe"))
    weights = checksums.digest(folder / STORED_WEIGHTS)
    training, validation = (
        with_whole_pictures(part) for part in (photos.training, photos.validation)
    )
    work = work / _key(weights, training, validation, photos.others.photos)
    work.mkdir(parents=True, exist_ok=True)
    stage = _stage(folder, work, weights)
    plain = cache(partial(_plain_version, stage, work, report))
    ranges = _ranges(plain, training, weights, work / RANGES, report)
    stored = read_stored(stage.name, stage, with_head=False)
    passes = Passes(stored, ranges, second_pass_choice.MARGIN, work, report)
    shown = passes.features("validation", [example.path for example in validation])
    others = photos.others
    unseen = passes.features("others", others.photos) if len(others.photos) else None
    unnamed = passes.features("dogs", photos.dogs) if photos.dogs else None
    report(f"choosing and fitting on {len(validation)} photos, {len(others.photos)} without a dog")
    parts, own = folds(validation), DogHead.in_network(stored.model)
    report(f"class statistics of {len(every_second(training))} training photos")
    trained = Recipe(recipe["architecture"], tuple(recipe["size"]), stages=())
    computed = partial(
        artefacts.statistics_features, folder, trained, training, validation, len(labels)
    )
    features = _load_or_compute(work / "features.npz", computed)
    statistics = ClassStatistics.of(**features)
    further = [
        Further(unseen, others.folds, NO_DOG),
        Further(unnamed, np.arange(len(photos.dogs)) % FOLDS, ANY),
    ]
    looked = _look_at(photos.taught, breeds, recipe, passes) if breeds else {}
    heads = [breed_weights(stored.model, ())] * FOLDS
    looks = _looks_apart(statistics, parts[::2])
    said = _answers(shown, validation, parts, [*further, *_unknown(breeds, looked)], heads, looks)
    scores = {
        "weights": weights,
        "made_by": MADE_BY,
        **_fit_decision(said, own, passes.precision, labels, ranks),
    }
    statistics.save(folder / STATISTICS_FILE, weights, MADE_BY)
    ranges.write(folder / RANGES)
    write_json(scores, folder / "scores.json")
    if breeds:
        known = teaching.known_photos(photos.taught, breeds, recipe)
        learnt = plain(), breeds, known, looked, folder, features["features"], parts, report
        teacher, taught = _teach_breeds(*learnt)
        own_looks = _rows(looked, [example.path for example in taught.photos])
        joined = {name: np.concatenate([shown[name], own_looks[name]]) for name in shown}
        heads = [
            breed_weights(stored.model, teacher.describe_taught(head)["taught"])
            for head in taught.parts
        ]
        places = np.array([example.breed for example in taught.photos])
        looks = _looks_apart(statistics, parts[::2], own_looks["exact"], places, taught.folds)
        further.append(_as_if_unknown(own_looks, taught.folds, places, teacher.head.labels))
        everything, parts = [*validation, *taught.photos], np.append(parts, taught.folds)
        said = _answers(joined, everything, parts, further, heads, looks)
        fitted = _fit_decision(said, own, passes.precision, teacher.head.labels, ranks, len(labels))
        write_json(
            {"made_by": MADE_BY, **teacher.describe_taught(teacher.head), "scores": fitted},
            folder / TAUGHT,
        )
    shutil.rmtree(work)
    return scores


def _look_at(
    folders: Sequence[Path], breeds: Sequence[teaching.NewBreed], recipe: Mapping, passes: Passes
) -> dict[Path, dict[str, np.ndarray]]:
    """The features (f,) of each pass for each photo that teaches, or that keeps
    other breeds as they are.
    """
    known = teaching.known_photos(folders, breeds, recipe)
    own = [path for breed in breeds for path in breed.photos]
    paths = list(dict.fromkeys([*known, *own]))
    features = passes.features("taught", paths, near=True)
    return {
        path: {name: each[row] for name, each in features.items()} for row, path in enumerate(paths)
    }


def _rows(
    looked: Mapping[Path, Mapping[str, np.ndarray]], paths: Sequence[Path]
) -> dict[str, np.ndarray]:
    """Features (n, f) of each pass for these photos."""
    return {name: np.stack([looked[path][name] for path in paths]) for name in looked[paths[0]]}


def _unknown(
    breeds: Sequence[teaching.NewBreed], looked: Mapping[Path, Mapping[str, np.ndarray]]
) -> list[Further]:
    """Photos of breeds that the network was not trained on, without those that
    are named as a near relative for good reason.
    """
    strange = [breed for breed in breeds if not has_relatives(breed.id)]
    if not strange:
        return []
    folds_of = [breed.folds(breed.photos) for breed in strange]
    paths = [path for breed in strange for path in breed.photos]
    return [Further(_rows(looked, paths), np.concatenate(folds_of), UNKNOWN)]


def _as_if_unknown(
    features: Mapping[str, np.ndarray],
    parts: np.ndarray,
    breeds: np.ndarray,
    labels: Sequence[Mapping],
) -> Further:
    """Photos that taught `breeds` int (n,), places among the labels, answered
    as if their own breed had not been taught.
    """
    is_strange = np.array([not has_relatives(labels[breed]["id"]) for breed in breeds])
    kept = {name: each[is_strange] for name, each in features.items()}
    return Further(kept, parts[is_strange], UNKNOWN, breeds[is_strange])


def _looks_apart(
    statistics: ClassStatistics,
    checked_folds: np.ndarray,
    features: np.ndarray = NO_PHOTOS,
    breeds: np.ndarray = NO_PHOTOS,
    parts: np.ndarray = NO_PHOTOS,
) -> list[Looks]:
    """How much photos look like each breed, by all photos but those of each of
    FOLDS.

    `checked_folds` int (m,): of the stored validation photos. `features` (n,
    f): of photos that taught `breeds` int (n,), which stand behind the others,
    and `parts` int (n,): their folds.
    """
    found = []
    for fold in range(FOLDS):
        apart = checked_folds != fold
        if not apart.any():
            apart = ~apart
        means = list(statistics.means)
        for breed in np.unique(breeds):
            own = breeds == breed
            kept = own & (parts != fold)
            means.append(features[kept if kept.any() else own].mean(axis=0))
        checked, classes = statistics.checked[apart], statistics.checked_classes[apart]
        found.append(Looks.of(np.stack(means), checked, classes))
    return found


def _teach_breeds(
    source: Path,
    breeds: Sequence[teaching.NewBreed],
    known: Sequence[Path],
    looked: Mapping[Path, Mapping[str, np.ndarray]],
    artefacts_folder: Path,
    statistics: np.ndarray,
    parts: np.ndarray,
    report: Report,
) -> tuple[teaching.Teacher, teaching.Taught]:
    """What is taught.

    `known`: photos of other breeds; `looked`: features of all photos;
    `statistics` (m, f): features of the training photos; `parts`: of the
    validation photos.
    """
    looks = {}
    for path, seen in looked.items():
        looks[path] = np.stack([seen["exact"], seen.get("nearer", seen["exact"])])
    teacher = teaching.Teacher(source, artefacts_folder, looks)
    more = np.concatenate([statistics, teacher.features_of_known(known, report)])
    return teacher, teacher.teach(breeds, False, report, more, parts[::2])


def _answers(
    shown: Mapping[str, np.ndarray],
    examples: Sequence[Example],
    parts: np.ndarray,
    further: Sequence[Further],
    heads: Sequence[tuple[np.ndarray, np.ndarray]],
    looks: Sequence[Looks],
) -> Answers:
    """Of photos of breeds, by their features (n, f), `parts` int (n,), and for
    each of FOLDS kernel and bias of the breeds, and how much photos look like
    them; and of `further` photos.
    """
    breeds = np.array([example.breed for example in examples])
    whole = np.array([example.is_whole for example in examples])
    left_out = np.full(len(breeds), NOTHING)
    given = [shown]
    for each in further:
        if each.features is not None:
            count = len(each.folds)
            given.append(each.features)
            breeds = np.append(breeds, np.full(count, each.breed))
            whole = np.append(whole, np.zeros(count, bool))
            parts = np.append(parts, each.folds)
            without = np.full(count, NOTHING) if each.left_out is None else each.left_out
            left_out = np.append(left_out, without)
    lacking = np.flatnonzero(left_out != NOTHING)

    def make_pass(name: str) -> Pass:
        features = np.concatenate([each[name] for each in given])
        logits = np.zeros((len(features), len(heads[0][1])))
        looked = np.zeros(logits.shape, np.float32)
        for fold, (kernel, bias) in enumerate(heads):
            own = parts == fold
            logits[own] = features[own] @ kernel + bias
            looked[own] = looks[fold].of_features(features[own])
        logits[lacking, left_out[lacking]] = -np.inf
        return Pass(features, logits, looked)

    after = make_pass("after") if "after" in shown else None
    return Answers(breeds, whole, parts, make_pass("exact"), make_pass("fast"), after)


def _key(
    weights: str, training: list[Example], validation: list[Example], others: Sequence[Path | bytes]
) -> str:
    paths = [str(each.path) for each in (*training, *validation)]
    return hashlib.sha256(
        "\n".join([MADE_BY, weights, *paths, *map(str, others)]).encode()
    ).hexdigest()[:16]


def _stage(folder: Path, work: Path, weights: str) -> Path:
    """A folder with the weights of `folder`, and nothing that was fitted."""
    stage = work / "artefacts" / folder.resolve().name
    stage.mkdir(parents=True, exist_ok=True)
    for name in ("labels.json", "recipe.json"):
        shutil.copy(folder / name, stage)
    if not (stage / STORED_WEIGHTS).exists():
        (stage / STORED_WEIGHTS).symlink_to((folder / STORED_WEIGHTS).resolve())
    write_json({"weights": weights, "calibration": PLAIN}, stage / "scores.json")
    return stage


def _plain_version(stage: Path, work: Path, report: Report) -> Path:
    """A version whose answers are the softmax of its logits."""
    models = work / "models"
    shutil.rmtree(models, ignore_errors=True)
    return export_stored(stage.name, stage, models, report).folder


def _ranges(
    plain: Callable[[], Path], training: list[Example], weights: str, file: Path, report: Report
) -> Ranges:
    """Found on crops and whole pictures by halves, and kept in `file`."""
    if not file.is_file():
        kinds = [
            [each.path for each in training if each.is_whole == whole] for whole in (False, True)
        ]
        found_on = [
            path for kind in kinds for path in kind[:: max(1, 2 * len(kind) // RANGE_PHOTOS)]
        ]
        ranges = int8_ranges.calibrate(plain(), found_on, report)
        replace(ranges, weights=weights, made_by=MADE_BY).write(file)
    return Ranges(**read_json(file))


def _load_or_compute(
    file: Path, computed: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    if not file.is_file():
        with replacing(file) as temporary:
            np.savez(temporary, **computed())
    with np.load(file) as arrays:
        return dict(arrays)


def _fit_decision(
    said: Answers,
    own: DogHead,
    precision: str,
    labels: Sequence[Mapping],
    ranks: Path,
    first: int | None = None,
) -> dict:
    """What scores.json says of the choices, of the thresholds of one pass and
    of two, and how good both are.

    `own`: the network's head of dogs. `first`: the place of the first class
    that was taught, if any.
    """
    is_named = said.breeds >= 0
    photos, others = said.where(is_named), said.where(said.breeds == NO_DOG)
    log_prior = np.round(popularity.log_prior(labels, ranks), 4)
    weights = thresholds.weights_of(photos.breeds, photos.whole, log_prior)
    choice = Choice.on(said, log_prior, own)
    chosen = []
    for fold in range(FOLDS):
        apart = said.folds != fold
        # Nothing is left where each breed has one photo.
        is_choice = (is_named & apart).any() and (is_named & ~apart).any()
        chosen.append(Choice.on(said.where(apart), log_prior, own) if is_choice else choice)

    def decide(
        answer: Callable[[Choice, Answers], tuple[np.ndarray, np.ndarray]],
    ) -> tuple[np.ndarray, Decision]:
        """Probabilities (n, classes) for photos that took no part in the
        choice, and the thresholds found on them.
        """
        probabilities = np.zeros_like(photos.exact.logits)
        dogs, none = np.zeros(len(photos.breeds)), np.zeros(len(others.breeds))
        shared, held = np.zeros(len(photos.breeds)), np.zeros(len(photos.breeds), bool)
        for fold, each in enumerate(chosen):
            inside = photos.folds == fold
            probabilities[inside], dogs[inside] = answer(each, photos.where(inside))
            shared[inside], held[inside] = of_groups(
                probabilities[inside], photos.breeds[inside], each.groups
            )
            none[others.folds == fold] = answer(each, others.where(others.folds == fold))[1]
        dog = thresholds.dog_threshold(dogs, photos.whole, none)
        return probabilities, thresholds.fit_decision(
            probabilities, photos.breeds, shared, held, photos.whole, weights, dog
        )

    probabilities, decision = decide(Choice.once)
    scores: dict = {
        "calibration": {
            "temperature": choice.calibration.temperature,
            "lapse": choice.calibration.lapse,
            **_stated(choice.calibration.sureness),
            "log_prior": [round(float(each), 4) for each in log_prior],
            **decision.to_json(),
            "groups": [[labels[place]["id"] for place in group] for group in choice.groups],
        },
        "dog_head": choice.dog.to_json(),
        "validation": scoring.report(
            probabilities, photos.breeds, labels, decision.confident or 1.0
        ),
    }
    if choice.passing:
        both, decision = decide(Choice.twice)
        once, right = (each.argmax(-1) == photos.breeds for each in (probabilities, both))
        before = photos.fast.logarithms(choice.calibration)
        validation = {
            "photos": len(photos.breeds),
            "top1_one_pass": share(once),
            "top1": share(right),
            "top1_whole_one_pass": share(once[photos.whole]),
            "top1_whole": share(right[photos.whole]),
            "second_passes": share(
                second_pass_choice.mix_passes(choice.passing, before, before)[1]
            ),
        }
        if first is not None:
            shown = right[photos.breeds >= first]
            recall = {
                labels[each]["id"]: share(right[photos.breeds == each])
                for each in range(first, len(labels))
            }
            validation["taught"] = {"photos": len(shown), "top1": share(shown), "recall": recall}
        stated = {"precision": precision, "decision": decision.to_json(), "validation": validation}
        scores["second_pass"] = {**choice.passing.to_json(), **stated}
    return scores


def _stated(fitted: Sureness | None) -> dict[str, dict[str, float]]:
    return {"sureness": fitted.to_json()} if fitted else {}
