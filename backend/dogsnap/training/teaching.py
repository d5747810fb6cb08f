"""Teaches a trained network new breeds from a few photos each, and writes the
versions that know them.
"""

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from dogsnap.errors import DogsnapError
from dogsnap.exporting import TAUGHT, Report
from dogsnap.exporting.export import (
    STATISTICS_FILE,
    breed_weights,
    prior_of,
    read_json,
    read_looks,
    read_stored,
    with_classes,
)
from dogsnap.files import write_json
from dogsnap.networks.groups import look_alikes, named_groups
from dogsnap.networks.halves import write_halves
from dogsnap.networks.second_pass import SecondPass, second_images
from dogsnap.networks.temperature import softmax
from dogsnap.photo_endings import READ_ENDINGS
from dogsnap.schemas import check_schema, read_schema
from dogsnap.serving.answers.levels import Decision
from dogsnap.serving.photos import photo
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.serving.versions.description import Description
from dogsnap.serving.versions.servable import kernel_sentence
from dogsnap.training import dataset
from dogsnap.training.class_statistics import ClassStatistics
from dogsnap.training.dataset import FOLDS, Example, class_ids

FEWEST_PHOTOS = 8
BREEDS_FILE = "breeds.json"
# Share of the bits of two fingerprints that may differ where the photos are one, scaled
# or compressed anew. Measured on 521 photos of dogs: half the width and JPEG at quality
# 60 change at most 0.08 of them in 99 of 100 photos; of 5,725 pairs of different photos
# of a breed the nearest two differ in 0.125.
SAME_PHOTO = 0.09
NAMED = 3  # breeds that are named in a report
KNOWN_STEP = 4  # of Stanford Dogs' photos, one of so many is enough
OTHERS = 3  # how often the others count, which come from the same places as photos of new breeds
# What facts may say of a breed: the fields of models/breeds.json but those that teaching sets.
FACTS_SCHEMA = Path(__file__).with_name("facts.schema.json")


class TeachingError(ValueError):
    """The breed cannot be taught as asked; the message says what to do."""


@dataclass(frozen=True)
class NewBreed:
    """A breed to teach: its names, its photo files, and facts for the app in
    the form of an entry of models/breeds.json.

    `sources`: where photos come from, as far as it is known.
    """

    name: str
    photos: Sequence[Path]
    name_zh: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[Path, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name in lower case with `_` for what is neither letter nor digit."""
        return re.sub(r"\W+", "_", self.name.casefold()).strip("_")

    def folds(self, photos: Sequence[Path]) -> np.ndarray:
        """In which of FOLDS parts each of these is, int (n,): those of one
        source in one, by turns where that is not known.
        """
        by_turns = np.arange(len(photos)) % FOLDS
        folds = by_turns.copy()
        for index, path in enumerate(photos):
            if source := self.sources.get(path):
                folds[index] = dataset.fold_of(source)
        return folds if len(set(folds)) > 1 else by_turns


@dataclass(frozen=True)
class Head:
    """The layer that scores the breeds: `kernel` float32 (f, classes), `bias`
    float32 (classes,), `labels` of the classes.
    """

    kernel: np.ndarray
    bias: np.ndarray
    labels: tuple[Mapping[str, str], ...]

    def logits(self, features: np.ndarray) -> np.ndarray:
        return features @ self.kernel + self.bias

    def with_classes(
        self, labels: Sequence[Mapping[str, str]], weights: np.ndarray, bias: np.ndarray
    ) -> "Head":
        """The same with more classes behind the others: `weights` (f, k), `bias` (k,)."""
        kernel = np.column_stack([self.kernel, weights])
        return Head(kernel, np.append(self.bias, np.float32(bias)), (*self.labels, *labels))

    def without(self, ids: set[str]) -> "Head":
        kept = [label["id"] not in ids for label in self.labels]
        labels = tuple(compress(self.labels, kept))
        return Head(self.kernel[:, kept], self.bias[kept], labels)


@dataclass(frozen=True)
class Taught:
    """What was taught: for each breed what to expect, in sentences.

    `parts`: the head taught without the photos of each of FOLDS parts;
    `photos`: those that taught, of breeds as places in the head's labels;
    `folds` int (n,): their parts.
    """

    expected: list[str]
    parts: list[Head]
    photos: list[Example]
    folds: np.ndarray


class Teacher:
    """A trained network and what it takes to teach it.

    `artefacts`: the folder with its float16 weights, labels, recipe, scores and
    class statistics. `source`: the version that is taught; breeds that it was
    taught before are kept. Raises ExportError, StatisticsError or TeachingError
    in one sentence.
    """

    def __init__(
        self, source: Path, artefacts: Path, looks: Mapping[Path, np.ndarray] | None = None
    ) -> None:
        """`looks`: what the network sees in photos, where that is known:
        features (views, f); it sees a dog in these.
        """
        self._looks = looks or {}
        self.source = source
        self.stored = read_stored(Path(os.path.abspath(source)).parent.name, artefacts)
        self._artefacts = artefacts
        described = Description.read(source).raw
        self.taught = {each["id"]: each for each in described.get("taught", ())}
        self._check_source(described)
        known = self.stored.description["labels"]
        labels = (*known, *described["labels"][len(known) :])
        # Those of the weights, as breeds taught before have extended them.
        groups = described.get("groups", ()) if self.taught else self.stored.description["groups"]
        self.groups = [list(group["members"]) for group in groups]
        self._named_groups = [*self.stored.description["groups"], *groups]
        kernel, bias = breed_weights(self.stored.model, list(self.taught.values()))
        weights = self.stored.description["scores"].get("weights", "")
        self.statistics = ClassStatistics.load(
            artefacts / STATISTICS_FILE, len(known), len(kernel), weights
        )
        # Logits with the prior in them: breeds are taught so that they take little from
        # the others' answers, which have it.
        self.head = Head(kernel, bias + self._prior(labels), labels)
        file = artefacts.parent / BREEDS_FILE
        self._facts = {each["id"]: each for each in (read_json(file) if file.is_file() else ())}
        outputs = {"features": self.stored.model.get_layer("features").output}
        for name in ("dog", "box"):
            if name in self.stored.model.output:
                outputs[name] = self.stored.model.output[name]
        self._network = keras.Model(self.stored.model.input, outputs)

    def _prior(self, labels: Sequence[Mapping[str, str]]) -> np.ndarray:
        """What the prior adds to the logits of these classes, (n,)."""
        return self.stored.calibration.temperature * prior_of(self.stored, labels, self._artefacts)

    def _check_source(self, described: Mapping[str, Any]) -> None:
        labels = described.get("labels")
        if not labels:
            raise TeachingError(
                f"{self.source} is no version that names breeds; expected one like "
                "models/inception_v3/2"
            )
        known = class_ids(self.stored.description["labels"])
        if class_ids(labels) != [*known, *self.taught]:
            raise TeachingError(
                f"{self.source} has other breeds than the weights beside it; give the "
                "folder of its weights with --from"
            )
        weights = self.stored.description["scores"].get("weights")
        own = described.get("scores", {})
        if self.taught and own.get("weights", weights) != weights:
            raise TeachingError(
                f"{self.source} was taught with other weights than those beside it; "
                "give the folder of its weights with --from, "
                "or teach an untaught version"
            )

    def teach(
        self,
        breeds: Sequence[NewBreed],
        replace: bool,
        report: Report,
        known: np.ndarray | None = None,
        checked_folds: np.ndarray | None = None,
    ) -> Taught:
        """Add `breeds`; photos that are left out go to `report`.

        `replace`: they were taught before, and what they learnt is dropped.
        `known` (n, f): features of more photos of known breeds, see
        `features_of_known`. `checked_folds`: see `ClassStatistics.fit_new_classes`.
        Raises TeachingError.
        """
        labels: list[dict[str, str]] = []
        for breed in breeds:
            self._check_name(breed, replace, labels)
            labels.append(self._label(breed))
        before = self.head.without({breed.id for breed in breeds})
        photos = []
        features = []
        folds = []
        for place, breed in enumerate(breeds, len(before.labels)):
            paths, shown = self._features_of(breed, report)
            self._report_others(before, paths, shown, report)
            photos += [Example(path, place) for path in paths]
            features.append(shown)
            folds.append(breed.folds(paths))
        added = self.statistics.fit_new_classes(
            features, before.kernel, before.bias, known, folds, checked_folds
        )
        self._leave_groups(class_ids(labels))
        self.head = before.with_classes(labels, added.weights, added.bias)
        # Logits (n, classes) of the stored validation photos and of those of each new
        # breed, by heads that did not see them.
        checked = np.column_stack([before.logits(self.statistics.checked), added.checked])
        left_out = []
        for shown, logits in zip(features, added.left_out, strict=True):
            left_out.append(np.column_stack([before.logits(shown[:, 0]), logits]))
        expected = []
        for breed, shown, logits in zip(breeds, features, left_out, strict=True):
            self.taught.pop(breed.id, None)
            self.taught[breed.id] = {
                "id": breed.id,
                "photos": len(logits),
                "facts": dict(breed.facts),
                **self._row(self.head, breed.id),
                "mean": write_halves(shown[:, 0].mean(axis=0)),
            }
            group = self._join_group(breed.id, checked, left_out)
            expected.append(self._expect(breed, logits, checked, group))
        parts = [before.with_classes(labels, *part) for part in added.parts]
        return Taught(expected, parts, photos, np.concatenate(folds))

    def _report_others(
        self, before: Head, paths: Sequence[Path], features: np.ndarray, report: Report
    ) -> None:
        """Report photos that, before the breed is known, surely show another one."""
        decision = Decision.read(self.stored.description["decision"])
        logits = before.logits(features[:, 0]) / self.stored.calibration.temperature
        for path, probabilities in zip(paths, softmax(logits), strict=True):
            best = int(probabilities.argmax())
            if decision.confident is not None and probabilities[best] >= decision.confident:
                name = before.labels[best]["name"]
                report(
                    f"{path} surely shows the {name} ({probabilities[best]:.0%}), by what "
                    f"{self.source} knows: if it does, leave it out"
                )

    def _leave_groups(self, breeds: Sequence[str]) -> None:
        """Breeds taught anew leave their groups; one breed alone is no group."""
        left = []
        for members in self.groups:
            others = [member for member in members if member not in breeds]
            if len(others) > 1:
                left.append(others)
        self.groups = left
        named = []
        for group in self._named_groups:
            if not set(breeds) & set(group["members"]):
                named.append(group)
        self._named_groups = named

    def _row(self, head: Head, breed: str) -> dict[str, Any]:
        """What is stored of a class of `head`: its weights as base64 of
        float16, and its bias without the prior.
        """
        place = class_ids(head.labels).index(breed)
        bias = head.bias[place] - self._prior(head.labels)[place]
        return {"weights": write_halves(head.kernel[:, place]), "bias": float(bias)}

    def _label(self, breed: NewBreed) -> dict[str, str]:
        facts = self._facts.get(breed.id, {})
        name_zh = breed.name_zh or breed.name
        return {
            "id": breed.id,
            "name": facts.get("name", breed.name),
            "name_zh": facts.get("name_zh", name_zh),
        }

    def _join_group(
        self, breed: str, checked: np.ndarray, left_out: Sequence[np.ndarray]
    ) -> list[str]:
        """Add a new class to the group of breeds that it is confused with, and
        return their ids; `left_out` as in `teach`.
        """
        ids = class_ids(self.head.labels)
        classes = [self.statistics.checked_classes]
        for place, logits in enumerate(left_out, len(ids) - len(left_out)):
            classes.append(np.full(len(logits), place))
        logits = np.concatenate([checked, *left_out])
        probabilities = softmax(logits / self.stored.calibration.temperature)
        places = [list(map(ids.index, members)) for members in self.groups]
        found = look_alikes(probabilities, np.concatenate(classes), places, ids.index(breed))
        for members in self.groups:
            if breed in members:  # by one that was taught with it
                return [member for member in members if member != breed]
        others = [ids[place] for place in found]
        if found in places:
            self.groups[places.index(found)].append(breed)
        elif found:
            self.groups.append([*others, breed])
        return others

    def _check_name(
        self, breed: NewBreed, replace: bool, further: Sequence[Mapping[str, str]]
    ) -> None:
        if not breed.id:
            raise TeachingError(f"the name {breed.name!r} has no letter; give the breed's name")
        if replace and breed.id in self.taught:
            return
        given = _fold([breed.name, *self._label(breed).values()])
        for label in (*self.head.labels, *further):
            facts = self._facts.get(label["id"], {})
            names = _fold([label["id"], label["name"], label.get("name_zh", "")])
            others = _fold([*facts.get("other_names", ()), *facts.get("other_names_zh", ())])
            if given & (names | others):
                is_taught = label["id"] in self.taught
                advice = "--replace teaches it anew" if is_taught else "give another name"
                also = "" if given & names else f" ({breed.name} is another name of it)"
                raise TeachingError(
                    f"{self.source} knows the breed {label['name']} already{also}; {advice}"
                )
        if replace:
            raise TeachingError(
                f"--replace: {self.source} was not taught {breed.name}; it was taught: "
                f"{', '.join(self.taught) or 'nothing'}"
            )

    def features_of_known(self, photos: Sequence[Path], report: Report) -> np.ndarray:
        """Pooled features float32 (n, f) of `known_photos`."""
        found = {}
        for path, _, image in self._images(dict.fromkeys(photos), report):
            found[path] = self._network(image, training=False)["features"].numpy()[0]
        rows = [found[path] for path in photos if path in found]
        return np.array(rows, np.float32).reshape(-1, len(self.head.kernel))

    def _features_of(self, breed: NewBreed, report: Report) -> tuple[list[Path], np.ndarray]:
        """The photos that can teach, and their pooled features float32 (photos,
        views, f).
        """
        seen: dict[Path, np.ndarray] = {}
        paths = []
        kept = []
        for path, contents, image in self._images(breed.photos, report):
            bits = fingerprint(image)
            mirrored = fingerprint(image[:, :, ::-1])
            same = [other for other in seen if (seen[other] != bits).mean() <= SAME_PHOTO]
            turned = [other for other in seen if (seen[other] != mirrored).mean() <= SAME_PHOTO]
            if same or turned:
                other = same[0] if same else f"{turned[0]}, mirrored"
                report(f"skipped {path}: the same photo as {other}")
                continue
            seen[path] = bits
            look = self._looks.get(path)
            if look is None:
                look = self._look(contents, image)
            if look is None:
                report(f"skipped {path}: the network sees no dog in it")
                continue
            paths.append(path)
            kept.append(look)
        if len(kept) < FEWEST_PHOTOS:
            raise TeachingError(
                f"{breed.name}: expected at least {FEWEST_PHOTOS} different photos that "
                f"show the dog, received {len(kept)}"
            )
        return paths, np.stack(kept)

    def _look(self, contents: bytes, image: tf.Tensor) -> np.ndarray | None:
        """Features (views, f) of a photo; None where the network sees no dog."""
        answer = self._network(image, training=False)
        decision = Decision.read(self.stored.description["decision"])
        if not decision.sees_dog(float(tf.sigmoid(tf.reduce_max(answer["dog"])))):
            return None
        nearer = self._network(self._nearer(contents, image, answer), training=False)
        return np.concatenate([answer["features"], nearer["features"]])

    def _nearer(
        self, contents: bytes, image: tf.Tensor, answer: Mapping[str, tf.Tensor]
    ) -> tf.Tensor:
        """What a second pass would see, (1, h, w, 3); without one, the image mirrored."""
        stated = self.stored.description["scores"].get("second_pass")
        if not stated:
            return image[:, :, ::-1]
        windows = SecondPass.of(stated).windows(answer["box"])
        return second_images(
            tf.constant([contents]), windows, tuple(self.stored.description["input_size"])
        )

    def _images(
        self, paths: Iterable[Path], report: Report
    ) -> Iterable[tuple[Path, bytes, tf.Tensor]]:
        """The photos, upright, and as the network sees them, (1, h, w, 3) in
        [0, 1]; one that cannot be read goes to `report`.
        """
        size = tuple(self.stored.description["input_size"])
        for path in paths:
            try:
                upright = photo.check(path.read_bytes()).upright()
                yield path, upright, photos_to_images(tf.constant([upright]), size)
            except (OSError, DogsnapError, tf.errors.InvalidArgumentError) as error:
                reason = kernel_sentence(str(getattr(error, "message", error)))
                of_graph = isinstance(error, tf.errors.InvalidArgumentError)
                report(
                    f"skipped {path}: {'it is damaged or cut off: ' if of_graph else ''}{reason}"
                )

    def _expect(
        self, breed: NewBreed, left_out: np.ndarray, checked: np.ndarray, group: Sequence[str]
    ) -> str:
        """How often a head taught without its photos is right, and what the
        other breeds lose; `group`: ids.
        """
        labels = self.head.labels
        classes = self.statistics.checked_classes
        own = class_ids(labels).index(breed.id)
        answers = left_out.argmax(axis=1)
        is_right = answers == own
        text = (
            f"{is_right.sum()} of {len(answers)} photos ({is_right.mean():.0%}) are "
            "recognised by a head taught without them"
        )
        for place, times in Counter(answers[~is_right].tolist()).most_common(NAMED):
            text += f"; {times} as {labels[place]['name']}"
        was_right = np.delete(checked, own, axis=1).argmax(axis=1) == classes
        lost = was_right & (checked.argmax(axis=1) == own)
        text += f". The other breeds lose {100 * lost.mean():.2f} points"
        losing = []
        for place, times in Counter(classes[lost].tolist()).most_common(NAMED):
            losing.append(f"{labels[place]['name']} ({times})")
        if losing:
            text += f", most: {', '.join(losing)}"
        names = ", ".join(label["name"] for label in labels if label["id"] in group)
        return text + (f". It is in one group of look-alikes with {names}" if names else "")

    def keep(self, artefacts: Path) -> Path:
        """Write what was taught beside the weights, for `dogsnap export`.

        Raises TeachingError where that would lose breeds.
        """
        file = artefacts / TAUGHT
        check_kept(file, class_ids(self.head.labels), f"which {self.source} does not know")
        write_json(self.describe_taught(self.head), file)
        return file

    def describe_taught(self, head: Head) -> dict[str, Any]:
        """What is stored of the classes that were taught, with the weights that
        they have in `head`; ready for JSON.
        """
        labels = {label["id"]: label for label in head.labels}
        taught = []
        for breed, stated in self.taught.items():
            taught.append({**labels[breed], **stated, **self._row(head, breed)})
        weights = self.stored.description["scores"].get("weights", "")
        return {"weights": weights, "taught": taught, "groups": self.groups}

    def write(self, model_folder: Path, report: Report) -> Path:
        """Write the next version to `model_folder`, which `merge_all` makes the
        other kinds of, and return its folder.
        """
        prior = self._prior(self.head.labels)
        log_prior = prior / self.stored.calibration.temperature
        stored = with_classes(
            self.stored, self.head.labels, self.head.kernel, self.head.bias - prior, log_prior
        )
        groups = named_groups(self.groups, self._named_groups, self.head.labels)
        taught = list(self.taught.values())
        description = {
            **stored.description,
            "groups": [asdict(group) for group in groups],
            "taught": taught,
        }
        looks = read_looks(stored.calibration, self._artefacts, description, taught)
        stored = dataclasses.replace(stored, description=description, looks=looks)
        return stored.export(model_folder, report).folder


def check_kept(file: Path, breeds: Collection[str], reason: str) -> None:
    """Raises TeachingError where `file`, of `Teacher.keep`, holds a breed that
    is not among the ids `breeds`.
    """
    for breed in read_json(file)["taught"] if file.is_file() else ():
        if breed["id"] not in breeds:
            raise TeachingError(f"{file} holds {breed['name']}, {reason}")


def _fold(names: Iterable[str]) -> set[str]:
    return {name.casefold() for name in names if name}


def fingerprint(image: tf.Tensor) -> np.ndarray:
    """256 bits of an image (1, h, w, 3): where brightness rises from left to
    right at 16 by 16 places (difference hash).
    """
    grey = tf.image.rgb_to_grayscale(image)
    small = tf.image.resize(grey, (16, 17), antialias=True).numpy()[0, :, :, 0]
    return (small[:, 1:] > small[:, :-1]).ravel()


def photos_in(places: Iterable[Path], report: Report = lambda _: None) -> list[Path]:
    """The photo files among `places` and directly in the folders among them;
    what else lies there goes to `report`.

    Raises TeachingError for one that is missing.
    """
    found: list[Path] = []
    for each in places:
        if not each.exists():
            raise TeachingError(f"{each} does not exist; expected a photo or a folder of photos")
        if each.is_dir():
            for path in sorted(each.iterdir()):
                if path.name.startswith("."):
                    continue
                if os.path.isdir(path):
                    if any(within.suffix.lower() in READ_ENDINGS for within in path.rglob("*")):
                        report(
                            f"skipped {path}: a folder within; its photos are read if it is given"
                        )
                elif dataset.is_read(path, report):
                    found.append(path)
        else:
            found.append(each)
    return found


def known_photos(
    folders: Iterable[Path], breeds: Sequence[NewBreed], recipe: Mapping[str, Any]
) -> list[Path]:
    """Photos of other breeds than `breeds`: of Stanford Dogs' training photos
    but those for validation, which `recipe` says, and those of an `index.tsv`,
    each OTHERS times. Raises DatasetError.
    """
    ids = {breed.id for breed in breeds}
    found: list[Path] = []
    for data in folders:
        if (data / dataset.INDEX).is_file():
            for row in dataset.rows_of_index(data) * OTHERS:
                if row["breed"] not in ids:
                    found.append(data / row["photo"])
            continue
        listed = dataset.read_list(data, "train_list")
        # None of them validated a network of own classes.
        per_breed = recipe.get("validation_per_breed", 0)
        taught, _ = dataset.split_validation(listed, per_breed, recipe["seed"])
        found += dataset.paths_of(taught[::KNOWN_STEP])
    return found


def breeds_in(
    folders: Sequence[Path],
    facts: Mapping[str, Mapping[str, Any]],
    report: Report = lambda _: None,
) -> list[NewBreed]:
    """One breed for each folder in the first of `folders`, named as the folder
    with spaces for `_`; `facts` by name.

    Photos in the others' folders of the same names are added. A folder with an
    `index.tsv` has the photos that this lists, of the sources in its column
    `source`. `report`: see `photos_in`.
    """
    photos = [_photos_by_breed(folder, report) for folder in folders]
    names = {}
    for breed in sorted(photos[0]):
        names[breed] = breed.replace("_", " ")
    if strange := sorted(set(facts) - set(names.values())):
        raise TeachingError(
            f"there are facts for {strange[0]}, but no folder of that name in {folders[0]}"
        )
    breeds = []
    for breed, name in names.items():
        own = facts.get(name, {})
        sources: dict[Path, str] = {}
        for of_folder in photos:
            sources |= of_folder.get(breed, {})
        breeds.append(
            NewBreed(name, list(sources), own.get("name_zh", ""), without_names(own), sources)
        )
    return breeds


def holds_breeds(folder: Path) -> bool:
    """Whether the photos of `folder` are sorted by breed: listed in an
    `index.tsv`, or in a folder for each.
    """
    return (folder / dataset.INDEX).is_file() or bool(_breed_folders(folder))


def _breed_folders(folder: Path) -> list[Path]:
    return [
        path for path in folder.iterdir() if os.path.isdir(path) and not path.name.startswith(".")
    ]


def _photos_by_breed(folder: Path, report: Report) -> dict[str, dict[Path, str]]:
    """The photos of each breed and their sources, "" where that is not known."""
    found: dict[str, dict[Path, str]] = {}
    if not (folder / dataset.INDEX).is_file():
        for path in _breed_folders(folder):
            found[path.name] = dict.fromkeys(photos_in([path], report), "")
        return found
    for row in dataset.rows_of_index(folder):
        found.setdefault(row["breed"], {})[folder / row["photo"]] = row.get("source") or ""
    return found


def without_names(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts but the names and the id, which the label holds."""
    return {key: value for key, value in facts.items() if key not in ("id", "name", "name_zh")}


def read_facts(file: Path) -> list[dict[str, Any]]:
    """Facts of one breed, or a list of them, in the form of models/breeds.json.

    Raises ValueError naming what is wrong.
    """
    read = read_json(file)
    entries = read if isinstance(read, list) else [read]
    check_schema(entries, read_schema(FACTS_SCHEMA), str(file), FACTS_SCHEMA)
    return entries
