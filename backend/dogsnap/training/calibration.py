"""Everything after a training, from weights and photos: what turns logits into answers, and the thresholds of each version.

Temperature, lapse rate, groups and second pass are chosen on all validation photos; for the thresholds, once for each fold of
them, on all but that fold, so that a photo takes no part in the choices by which it is answered (cross-fitting). Halves would
leave too few photos for a bound.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path

import keras
import numpy as np

from dogsnap.exporting import TAUGHT
from dogsnap.exporting.export import INT8_RANGES, export_stored, export_taught, read_json
from dogsnap.exporting.merging.merge import Options, merge
from dogsnap.exporting.quantization import RANGES, Ranges
from dogsnap.files import replacing, write_json
from dogsnap.networks import popularity
from dogsnap.networks.architectures import STORED_WEIGHTS
from dogsnap.networks.groups import find_groups, of_groups
from dogsnap.networks.second_pass import SecondPass
from dogsnap.networks.temperature import Calibration, fit_calibration
from dogsnap.serving.versions import checksums
from dogsnap.training import artefacts, scoring, second_pass_choice, teaching, thresholds
from dogsnap.training import ranges as int8_ranges
from dogsnap.training.class_statistics import STATISTICS_FILE, ClassStatistics
from dogsnap.training.dataset import FOLDS, Example, Report, folds, without_dogs
from dogsnap.training.evaluation.exported_version import ExportedVersion, answers
from dogsnap.training.recipes import Recipe
from dogsnap.training.scoring import share
from dogsnap.training.trainer import with_whole_pictures

MADE_BY = "dogsnap calibrate 4"  # and the version of what it computes: to be raised with every change of that
RANGE_PHOTOS = (
    432  # training photos that the ranges of int8 are found on, crops and whole pictures by halves
)
LEAST = 1e-37  # stands for a probability of 0
# What is stored until everything is fitted: an answer of such a version is the softmax of its logits.
PLAIN = {"temperature": 1.0, "dog_threshold": 0.0, "confident_threshold": 1.0}
Plain = Callable[[], Path]  # builds such a version when it is asked for the first time


@dataclass(frozen=True)
class Photos:
    """What everything is fitted on. `training`: what the weights were trained on, for ranges and class statistics. `validation`:
    other photos, crops and whole pictures. `others`: photos without a dog, as paths or as bytes of files. `taught`: folders of
    photos of further breeds, see `teaching.breeds_in`.
    """

    training: list[Example]
    validation: list[Example]
    others: Sequence[Path | bytes]
    taught: Sequence[Path] = ()


@dataclass(frozen=True)
class Answers:
    """What the networks of the versions say of photos before anything is fitted.

    `breeds` int (n,), -1 where there is no dog, `whole` bool (n,): whole pictures with one. `exact`: logits (n, classes) of the
    network in float32; `fast`: of that in the fastest precision, `after`: of its second pass; None without one. `dogs` (n, 3):
    the probabilities of a dog of these, in the last column the larger one of both passes.
    """

    breeds: np.ndarray
    whole: np.ndarray
    exact: np.ndarray
    fast: np.ndarray
    after: np.ndarray | None
    dogs: np.ndarray

    def where(self, chosen: np.ndarray) -> "Answers":
        """Those of the photos where `chosen` bool (n,) is true."""
        return Answers(
            *(value if value is None else value[chosen] for value in vars(self).values())
        )

    @classmethod
    def joined(cls, parts: "Sequence[Answers]") -> "Answers":
        """Those of all parts, one after the other."""
        values = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*(None if each[0] is None else np.concatenate(each) for each in values))


@dataclass(frozen=True)
class Choice:
    """What is chosen on validation photos. `groups`: of look-alikes, as places in the class order."""

    calibration: Calibration
    groups: list[list[int]]
    passing: SecondPass | None

    @classmethod
    def on(cls, photos: Answers, log_prior: np.ndarray) -> "Choice":
        """The choice on these photos, with a prior (classes,)."""
        fitted = fit_calibration(photos.exact, photos.breeds, log_prior)
        calibration = Calibration(round(fitted.temperature, 4), log_prior, round(fitted.lapse, 4))
        groups = find_groups(np.exp(calibration.logarithms(photos.exact)), photos.breeds)
        if photos.after is None:
            return cls(calibration, groups, None)
        both = [calibration.logarithms(each) for each in (photos.fast, photos.after)]
        return cls(
            calibration, groups, second_pass_choice.choose(*both, photos.breeds, photos.whole)
        )

    def once(self, photos: Answers) -> tuple[np.ndarray, np.ndarray]:
        """Of one pass in float32: the probabilities of the breeds (n, classes), and of a dog (n,)."""
        return np.exp(self.calibration.logarithms(photos.exact)), photos.dogs[:, 0]

    def twice(self, photos: Answers) -> tuple[np.ndarray, np.ndarray]:
        """The same of the version with a second pass."""
        logarithms = (self.calibration.logarithms(each) for each in (photos.fast, photos.after))
        both, twice = second_pass_choice.mixed(self.passing, *logarithms)
        return np.exp(both), np.where(twice, photos.dogs[:, 2], photos.dogs[:, 1])


def without_dog(
    not_dogs: Sequence[Path], validation: list[Example], frames: Path | None
) -> list[Path | bytes]:
    """Photos that show no dog: these and, where there are some, parts of whole pictures beside their dog."""
    return [
        *not_dogs,
        *(without_dogs(with_whole_pictures(validation), frames) if frames and not_dogs else ()),
    ]


def calibrate(folder: Path, photos: Photos, ranks: Path, work: Path, report: Report) -> dict:
    """Write scores.json, int8_ranges.json and class_statistics.npz into `folder` with the weights, labels and recipe; return the
    scores. With photos of further breeds, write taught.json, too.

    `ranks`: see `popularity`. `work`: folder for what is computed, to go on from where the same call was interrupted; it is
    removed in the end. Raises ExportError, DatasetError, MergeError, FreezingError, TeachingError, IncompatibleNetwork, OSError.
    """
    breeds = teaching.breeds_in(photos.taught, {}) if photos.taught else []
    lost = "of which --taught gives no photos; give their folder, or remove the file"
    teaching.check_kept(folder / TAUGHT, {breed.id for breed in breeds}, lost)
    keras.config.set_dtype_policy("float32")
    labels, recipe = (read_json(folder / f"{name}.json") for name in ("labels", "recipe"))
    weights = checksums.digest(folder / STORED_WEIGHTS)
    training, validation = (
        with_whole_pictures(part) for part in (photos.training, photos.validation)
    )
    work = work / _key(weights, training, validation, photos.others)
    work.mkdir(parents=True, exist_ok=True)
    plain = cache(partial(_plain_version, folder, work, weights, report))
    ranges = _ranges(plain, training, weights, work / RANGES, report)
    said, precision = _answered(plain, ranges, validation, photos.others, work, report)
    report(f"choosing and fitting on {len(validation)} photos, {len(photos.others)} without a dog")
    scores = {
        "weights": weights,
        "made_by": MADE_BY,
        **_fitted(said, precision, labels, ranks, folds(validation)),
    }
    report(f"class statistics of {len(training) // 2} training photos")
    trained = Recipe(recipe["architecture"], tuple(recipe["size"]), stages=())
    computed = partial(
        artefacts.statistics_features, folder, trained, training, validation, len(labels)
    )
    features = _kept(work / "features.npz", computed)
    ClassStatistics.of(**features).save(folder / STATISTICS_FILE, weights, MADE_BY)
    ranges.write(folder / RANGES)
    write_json(scores, folder / "scores.json")
    if breeds:
        teacher = teaching.Teacher(plain(), folder)
        known = np.concatenate(
            [features["features"], teacher.features_of_known(photos.taught, breeds, report)]
        )
        taught = teacher.teach(breeds, False, report, known, folds(validation)[::2])
        said, precision, parts = _left_out(
            folder, teacher, taught, validation, photos.others, ranges, work, report
        )
        fitted = _fitted(said, precision, teacher.head.labels, ranks, parts, len(labels))
        write_json(
            {"made_by": MADE_BY, **teacher.kept(teacher.head), "scores": fitted}, folder / TAUGHT
        )
    shutil.rmtree(work)
    return scores


def _left_out(
    folder: Path,
    teacher: teaching.Teacher,
    taught: teaching.Taught,
    validation: list[Example],
    others: Sequence[Path | bytes],
    ranges: Ranges,
    work: Path,
    report: Report,
) -> tuple[Answers, str, np.ndarray]:
    """As `_answered`, of validation photos and those that taught, by versions taught without their part; and these parts."""
    parts, examples = np.append(folds(validation), taught.folds), [*validation, *taught.photos]
    said, filled = [], np.unique(parts)
    for place, fold in enumerate(filled):
        kept = teacher.kept(taught.parts[fold])
        part = (
            work / f"taught-{hashlib.sha256(json.dumps(kept['taught']).encode()).hexdigest()[:16]}"
        )
        part.mkdir(exist_ok=True)
        version = cache(partial(_plain_version, folder, part, kept["weights"], report, kept))
        inside = [example for example, own in zip(examples, parts, strict=True) if own == fold]
        said.append(_answered(version, ranges, inside, others[place :: len(filled)], part, report))
    found, precisions = zip(*said, strict=True)
    return Answers.joined(found), precisions[0], np.sort(parts)


def _key(
    weights: str, training: list[Example], validation: list[Example], others: Sequence[Path | bytes]
) -> str:
    paths = [str(each.path) for each in (*training, *validation)]
    return hashlib.sha256(
        "\n".join([MADE_BY, weights, *paths, *map(str, others)]).encode()
    ).hexdigest()[:16]


def _plain_version(
    folder: Path, work: Path, weights: str, report: Report, taught: dict | None = None
) -> Path:
    """A version whose answers are the softmax of its logits; `taught`: with these breeds, see `Teacher.kept`."""
    stage, models = work / "artefacts" / folder.resolve().name, work / "models"
    shutil.rmtree(models, ignore_errors=True)
    stage.mkdir(parents=True, exist_ok=True)
    for name in ("labels.json", "recipe.json"):
        shutil.copy(folder / name, stage)
    if not (stage / STORED_WEIGHTS).exists():
        (stage / STORED_WEIGHTS).symlink_to((folder / STORED_WEIGHTS).resolve())
    write_json({"weights": weights, "calibration": PLAIN}, stage / "scores.json")
    if taught:
        write_json({**taught, "scores": {"calibration": PLAIN}}, stage / TAUGHT)
        return export_taught(stage.name, stage, models).folder
    return export_stored(stage.name, stage, models, report).folder


def _ranges(
    plain: Plain, training: list[Example], weights: str, file: Path, report: Report
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


def _answered(
    plain: Plain,
    ranges: Ranges,
    validation: list[Example],
    others: Sequence[Path | bytes],
    work: Path,
    report: Report,
) -> tuple[Answers, str]:
    """What the networks say of these, kept in `work`, and the precision of the fast version. What is kept needs no version."""
    # A version that never has a second pass, and one that always has one, which counts alone.
    passes = {
        "fast": second_pass_choice.NEVER,
        "after": SecondPass(second_pass_choice.MARGIN, 1.0, 2.0, 1.0, 1.0),
    }

    @cache
    def version(name: str) -> ExportedVersion:
        if name == "exact" or "box" not in version("exact").servable.signatures["scores"].outputs:
            return ExportedVersion.load(plain())
        scores = {"second_pass": {**passes[name].to_json(), "decision": PLAIN}}
        options = Options(
            fast=True, second_pass=True, description={INT8_RANGES: asdict(ranges), "scores": scores}
        )
        return ExportedVersion.load(merge(plain(), options, report))

    def answered(
        photos: Sequence[Path | bytes], breeds: np.ndarray, whole: np.ndarray, ending: str
    ) -> Answers:
        said: dict[str, dict] = {}
        for name in ("exact", *passes):
            if name != "after" or "box" in said["exact"]:
                said[name] = _kept(
                    work / f"{name}{ending}.npz", lambda name=name: answers(version(name), photos)
                )
        logits = {
            name: np.log(np.maximum(each["prediction"].astype(np.float64), LEAST))
            for name, each in said.items()
        }
        dogs = np.stack(
            [said.get(name, said["fast"])["dog"] for name in ("exact", "fast", "after")], axis=1
        )
        return Answers(breeds, whole, logits["exact"], logits["fast"], logits.get("after"), dogs)

    breeds, whole = (
        np.array([getattr(each, name) for each in validation]) for name in ("breed", "is_whole")
    )
    found = [answered([example.path for example in validation], breeds, whole, "")]
    if others:
        found.append(
            answered(others, np.full(len(others), -1), np.zeros(len(others), bool), "_others")
        )
    precision = work / "precision.json"
    if not precision.is_file():
        write_json(version("fast").servable.runtime.get("precision", "f32"), precision)
    return Answers.joined(found), read_json(precision)


def _kept(file: Path, computed: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    if not file.is_file():
        with replacing(file) as temporary:
            np.savez(temporary, **computed())
    with np.load(file) as arrays:
        return dict(arrays)


def _fitted(
    said: Answers,
    precision: str,
    labels: Sequence[Mapping],
    ranks: Path,
    parts: np.ndarray,
    first: int | None = None,
) -> dict:
    """What scores.json says of the choices, of the thresholds of one pass and of two, and how good both are.

    `parts` int (n,): in which of FOLDS a photo of a dog is. `first`: the place of the first class that was taught, if any.
    """
    photos, others = said.where(said.breeds >= 0), said.where(said.breeds < 0)
    log_prior = np.round(popularity.log_prior(labels, ranks), 4)
    choice = Choice.on(photos, log_prior)
    apart = [
        parts != fold for fold in range(FOLDS)
    ]  # nothing is left where each breed has one photo
    chosen = [
        choice if rest.all() or not rest.any() else Choice.on(photos.where(rest), log_prior)
        for rest in apart
    ]

    def decided(
        answer: Callable[[Choice, Answers], tuple[np.ndarray, np.ndarray]],
    ) -> tuple[np.ndarray, dict]:
        """Probabilities (n, classes) for photos that took no part in the choice, and the thresholds found on them."""
        probabilities, dogs = np.zeros_like(photos.exact), np.zeros(len(parts))
        shared, held = np.zeros(len(parts)), np.zeros(len(parts), bool)
        for fold, each in enumerate(chosen):
            inside = parts == fold
            probabilities[inside], dogs[inside] = answer(each, photos.where(inside))
            shared[inside], held[inside] = of_groups(
                probabilities[inside], photos.breeds[inside], each.groups
            )
        dog = thresholds.dog_threshold(dogs, photos.whole, answer(choice, others)[1])
        limits = thresholds.fit_decision(probabilities, photos.breeds, shared, held, photos.whole)
        return probabilities, {"dog_threshold": dog, **limits}

    probabilities, decision = decided(Choice.once)
    scores: dict = {
        "calibration": {
            "temperature": choice.calibration.temperature,
            "lapse": choice.calibration.lapse,
            "log_prior": [round(float(each), 4) for each in log_prior],
            **decision,
            "groups": [[labels[place]["id"] for place in group] for group in choice.groups],
        },
        "validation": scoring.report(
            probabilities, photos.breeds, labels, decision["confident_threshold"]
        ),
    }
    if choice.passing:
        both, decision = decided(Choice.twice)
        once, right = (each.argmax(-1) == photos.breeds for each in (probabilities, both))
        before = choice.calibration.logarithms(photos.fast)
        validation = {
            "photos": len(parts),
            "top1_one_pass": share(once),
            "top1": share(right),
            "top1_whole_one_pass": share(once[photos.whole]),
            "top1_whole": share(right[photos.whole]),
            "second_passes": share(second_pass_choice.mixed(choice.passing, before, before)[1]),
        }
        if first is not None:
            shown = right[photos.breeds >= first]
            recall = {
                labels[each]["id"]: share(right[photos.breeds == each])
                for each in range(first, len(labels))
            }
            validation["taught"] = {"photos": len(shown), "top1": share(shown), "recall": recall}
        stated = {"precision": precision, "decision": decision, "validation": validation}
        scores["second_pass"] = {**choice.passing.to_json(), **stated}
    return scores
