"""Teaches a trained network new breeds from a few photos each, and writes the
versions that know them.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from dogsnap.errors import DogsnapError
from dogsnap.exporting import TAUGHT
from dogsnap.exporting.export import (
    STATISTICS_FILE,
    breed_weights,
    export_classifier,
    prior_of,
    read_json,
    read_looks,
    read_stored,
    with_classes,
)
from dogsnap.exporting.merging.merge import read_description
from dogsnap.files import READ_ENDINGS, write_json
from dogsnap.networks.groups import look_alikes, named_groups
from dogsnap.networks.looks import write_mean
from dogsnap.networks.second_pass import SecondPass, second_images
from dogsnap.networks.temperature import softmax
from dogsnap.serving.answers.levels import Decision
from dogsnap.serving.photos import photo
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.training import dataset
from dogsnap.training.class_statistics import ClassStatistics
from dogsnap.training.dataset import FOLDS, Example, Report

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
FACTS = {
    "other_names": list,
    "other_names_zh": list,
    "wild": bool,
    "origin": dict,
    "size": str,
    "weight_kg": list,
    "height_cm": list,
    "life_span_years": list,
    "temperament": dict,
    "coat": dict,
    "care": dict,
    "description": dict,
    "look_alikes": list,
}


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
    facts: Mapping = field(default_factory=dict)
    sources: Mapping[Path, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name in lower case with `_` for what is neither letter nor digit."""
        return re.sub(r"\W+", "_", self.name.casefold()).strip("_")

    def folds(self, photos: Sequence[Path]) -> np.ndarray:
        """In which of FOLDS parts each of these is, int (n,): those of one
        source in one, by turns where that is not known.
        """
        places = [
            dataset.fold_of(self.sources[path]) if self.sources.get(path) else place % FOLDS
            for place, path in enumerate(photos)
        ]
        return np.array(places) if len(set(places)) > 1 else np.arange(len(photos)) % FOLDS


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
        kept = [place for place, label in enumerate(self.labels) if label["id"] not in ids]
        return Head(
            self.kernel[:, kept], self.bias[kept], tuple(self.labels[place] for place in kept)
        )


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
        self.stored = read_stored(source.resolve().parent.name, artefacts)
        self._artefacts = artefacts
        described = read_description(source)
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
        features = self.stored.model.get_layer("features").output
        told = {
            name: output
            for name, output in self.stored.model.output.items()
            if name in ("dog", "box")
        }
        self._network = keras.Model(self.stored.model.input, {"features": features, **told})

    def _prior(self, labels: Sequence[Mapping[str, str]]) -> np.ndarray:
        """What the prior adds to the logits of these classes, (n,)."""
        return self.stored.calibration.temperature * prior_of(self.stored, labels, self._artefacts)

    def _check_source(self, described: Mapping) -> None:
        labels = described.get("labels")
        if not labels:
            raise TeachingError(
                f"{self.source} is no version that names breeds; expected one like "
                "models/inception_v3/2"
            )
        known = [label["id"] for label in self.stored.description["labels"]]
        if [label["id"] for label in labels] != [*known, *self.taught]:
            raise TeachingError(
                f"{self.source} has other breeds than the weights beside it; give the "
                "folder of its weights with --from"
            )
        weights, own = self.stored.description["scores"].get("weights"), described.get("scores", {})
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
        labels = [self._label(breed) for breed in breeds]
        for place, breed in enumerate(breeds):
            self._check_name(breed, replace, labels[:place])
        shown = [self._features_of(breed, report) for breed in breeds]
        features = [each for _, each in shown]
        folds = [breed.folds(paths) for breed, (paths, _) in zip(breeds, shown, strict=True)]
        before = self.head.without({breed.id for breed in breeds})
        added = self.statistics.fit_new_classes(
            features, before.kernel, before.bias, known, folds, checked_folds
        )
        for breed in breeds:  # taught anew, it leaves its group; one breed alone is no group
            left = [[member for member in members if member != breed.id] for members in self.groups]
            self.groups = [members for members in left if len(members) > 1]
            self._named_groups = [
                group for group in self._named_groups if breed.id not in group["members"]
            ]
        self.head = before.with_classes(labels, added.weights, added.bias)
        # Logits (n, classes) of the stored validation photos and of those of each new
        # breed, by heads that did not see them.
        checked = np.column_stack([before.logits(self.statistics.checked), added.checked])
        first = [before.logits(each[:, 0]) for each in features]
        left_out = [np.column_stack(each) for each in zip(first, added.left_out, strict=True)]
        expected = []
        for breed, seen, each in zip(breeds, features, left_out, strict=True):
            self.taught.pop(breed.id, None)
            facts = {"id": breed.id, "photos": len(each), "facts": dict(breed.facts)}
            mean = {"mean": write_mean(seen[:, 0])}
            self.taught[breed.id] = facts | self._row(self.head, breed.id) | mean
            expected.append(
                self._expect(breed, each, checked, self._join_group(breed.id, checked, left_out))
            )
        return Taught(
            expected,
            [before.with_classes(labels, *part) for part in added.parts],
            [
                Example(path, len(before.labels) + place)
                for place, (paths, _) in enumerate(shown)
                for path in paths
            ],
            np.concatenate(folds),
        )

    def _row(self, head: Head, breed: str) -> dict:
        """What is stored of a class of `head`: its weights as base64 of
        float16, and its bias without the prior.
        """
        place = [label["id"] for label in head.labels].index(breed)
        return {
            "weights": base64.b64encode(
                head.kernel[:, place].astype(np.float16).tobytes()
            ).decode(),
            "bias": float(head.bias[place] - self._prior(head.labels)[place]),
        }

    def _label(self, breed: NewBreed) -> dict[str, str]:
        own = {"id": breed.id, "name": breed.name, "name_zh": breed.name_zh or breed.name}
        return own | {
            key: value for key, value in self._facts.get(breed.id, {}).items() if key in own
        }

    def _join_group(
        self, breed: str, checked: np.ndarray, left_out: Sequence[np.ndarray]
    ) -> list[str]:
        """Add a new class to the group of breeds that it is confused with, and
        return their ids; `left_out` as in `teach`.
        """
        ids = [label["id"] for label in self.head.labels]
        first = len(ids) - len(left_out)
        classes = np.repeat(np.arange(first, len(ids)), [len(each) for each in left_out])
        logits, classes = (
            np.concatenate([checked, *left_out]),
            np.append(self.statistics.checked_classes, classes),
        )
        places = [[ids.index(member) for member in members] for members in self.groups]
        found = look_alikes(
            softmax(logits / self.stored.calibration.temperature), classes, places, ids.index(breed)
        )
        others = [ids[place] for place in found]
        if grouped := next((members for members in self.groups if breed in members), None):
            return [
                member for member in grouped if member != breed
            ]  # by one that was taught with it
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
        given = {each.casefold() for each in (breed.id, *self._label(breed).values(), breed.name)}
        for label in (*self.head.labels, *further):
            facts = self._facts.get(label["id"], {})
            names = [label["id"], label["name"], label.get("name_zh", "")]
            others = [
                name for key in ("other_names", "other_names_zh") for name in facts.get(key, ())
            ]
            if same := given & {each.casefold() for each in (*names, *others) if each}:
                advice = (
                    "--replace teaches it anew"
                    if label["id"] in self.taught
                    else "give another name"
                )
                also = (
                    ""
                    if same & {each.casefold() for each in names}
                    else f" ({breed.name} is another name of it)"
                )
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
        unknown = [path for path in dict.fromkeys(photos) if path not in self._looks]
        found = {path: self._looks[path][0] for path in photos if path in self._looks}
        for path, _, image in self._images(unknown, report):
            found[path] = self._network(image, training=False)["features"].numpy()[0]
        rows = [found[path] for path in photos if path in found]
        return np.stack([np.zeros(len(self.head.kernel), np.float32), *rows])[1:]

    def _features_of(self, breed: NewBreed, report: Report) -> tuple[list[Path], np.ndarray]:
        """The photos that can teach, and their pooled features float32 (photos,
        views, f).
        """
        seen: dict[Path, np.ndarray] = {}
        paths, kept = [], []
        for path, contents, image in self._images(breed.photos, report):
            bits = fingerprint(image)
            if same := next(
                (other for other, known in seen.items() if (known != bits).mean() <= SAME_PHOTO),
                None,
            ):
                report(f"skipped {path}: the same photo as {same}")
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
                report(f"skipped {path}: {str(getattr(error, 'message', error)).splitlines()[0]}")

    def _expect(
        self, breed: NewBreed, left_out: np.ndarray, checked: np.ndarray, group: Sequence[str]
    ) -> str:
        """How often a head taught without its photos is right, and what the
        other breeds lose; `group`: ids.
        """
        labels, classes = self.head.labels, self.statistics.checked_classes
        own = [label["id"] for label in labels].index(breed.id)
        answers = left_out.argmax(axis=1)
        taken_for = Counter(
            labels[answer]["name"] for answer in answers if answer != own
        ).most_common(NAMED)
        lost = (np.delete(checked, own, axis=1).argmax(axis=1) == classes) & (
            checked.argmax(axis=1) == own
        )
        losing = Counter(labels[place]["name"] for place in classes[lost]).most_common(NAMED)
        share = f"{(answers == own).sum()} of {len(answers)} photos ({(answers == own).mean():.0%})"
        confused = "".join(f"; {times} as {name}" for name, times in taken_for)
        most = (
            f", most: {', '.join(f'{name} ({times})' for name, times in losing)}" if losing else ""
        )
        names = ", ".join(label["name"] for label in labels if label["id"] in group)
        return (
            f"{share} are recognised by a head taught without them{confused}. "
            f"The other breeds lose {100 * lost.mean():.2f} points{most}"
            + (f". It is in one group of look-alikes with {names}" if names else "")
        )

    def keep(self, artefacts: Path) -> Path:
        """Write what was taught beside the weights, for `dogsnap export`.

        Raises TeachingError where that would lose breeds.
        """
        file = artefacts / TAUGHT
        check_kept(
            file, {label["id"] for label in self.head.labels}, f"which {self.source} does not know"
        )
        write_json(self.describe_taught(self.head), file)
        return file

    def describe_taught(self, head: Head) -> dict:
        """What is stored of the classes that were taught, with the weights that
        they have in `head`; ready for JSON.
        """
        labels = {label["id"]: label for label in head.labels}
        taught = [
            {**labels[each["id"]], **each, **self._row(head, each["id"])}
            for each in self.taught.values()
        ]
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
        description = {**stored.description, "groups": [asdict(group) for group in groups]}
        description["taught"] = list(self.taught.values())
        model, calibration = stored.model, stored.calibration
        taught = description["taught"]
        looks = read_looks(calibration, self._artefacts, description, taught)
        return export_classifier(
            model, calibration, description, model_folder, report, stored.dogs, looks
        ).folder


def check_kept(file: Path, breeds: Collection[str], reason: str) -> None:
    """Raises TeachingError where `file`, of `Teacher.keep`, holds a breed that
    is not among the ids `breeds`.
    """
    lost = (
        [each["name"] for each in read_json(file)["taught"] if each["id"] not in breeds]
        if file.is_file()
        else ()
    )
    if lost:
        raise TeachingError(f"{file} holds {lost[0]}, {reason}")


def fingerprint(image: tf.Tensor) -> np.ndarray:
    """256 bits of an image (1, h, w, 3): where brightness rises from left to
    right at 16 by 16 places (difference hash).
    """
    small = tf.image.resize(tf.image.rgb_to_grayscale(image), (16, 17), antialias=True)[
        0, :, :, 0
    ].numpy()
    return (small[:, 1:] > small[:, :-1]).ravel()


def photos_in(places: Iterable[Path]) -> list[Path]:
    """The photo files among `places` and directly in the folders among them.

    Raises TeachingError for one that is missing.
    """
    found: list[Path] = []
    for each in places:
        if not each.exists():
            raise TeachingError(f"{each} does not exist; expected a photo or a folder of photos")
        if each.is_dir():
            found += sorted(path for path in each.iterdir() if path.suffix.lower() in READ_ENDINGS)
        else:
            found.append(each)
    return found


def known_photos(
    folders: Iterable[Path], breeds: Sequence[NewBreed], recipe: Mapping
) -> list[Path]:
    """Photos of other breeds than `breeds`: of Stanford Dogs' training photos
    but those for validation, which `recipe` says, and those of an `index.tsv`,
    each OTHERS times. Raises DatasetError.
    """
    ids, found = {breed.id for breed in breeds}, []
    for data in folders:
        if (data / dataset.INDEX).is_file():
            rows = dataset.rows_of_index(data)
            found += [data / row["photo"] for row in rows if row["breed"] not in ids] * OTHERS
            continue
        listed = dataset.read_list(data, "train_list")
        per_breed, seed = recipe["validation_per_breed"], recipe["seed"]
        taught, _ = dataset.split_validation(listed, per_breed, seed)
        found += [example.path for example in taught[::KNOWN_STEP]]
    return found


def breeds_in(
    folders: Sequence[Path],
    facts: Mapping[str, Mapping],
    one_source: Sequence[str] = (),
    left_out: Collection[str] = (),
) -> list[NewBreed]:
    """One breed for each folder in the first of `folders`, named as the folder
    with spaces for `_`; `facts` by name.

    Photos in the others' folders of the same names are added. A folder with an
    `index.tsv` has the photos that this lists, of the sources in its column
    `source`; `one_source`: see `dataset.sources_of`. `left_out`: folders of the
    first that are no breeds to teach.
    """
    photos = [_photos_by_breed(folder, one_source) for folder in folders]
    if strange := sorted(set(left_out) - set(photos[0])):
        raise TeachingError(f"there is no folder {strange[0]} in {folders[0]} to be left out")
    taught = sorted(set(photos[0]) - set(left_out))
    names = {breed: breed.replace("_", " ") for breed in taught}
    if strange := sorted(set(facts) - set(names.values())):
        raise TeachingError(
            f"there are facts for {strange[0]}, but no folder of that name in {folders[0]}"
        )
    breeds = []
    for breed, name in names.items():
        own = facts.get(name, {})
        sources = {path: source for each in photos for path, source in each.get(breed, {}).items()}
        breeds.append(
            NewBreed(name, list(sources), own.get("name_zh", ""), without_names(own), sources)
        )
    return breeds


def holds_breeds(folder: Path) -> bool:
    """Whether the photos of `folder` are sorted by breed: listed in an
    `index.tsv`, or in a folder for each.
    """
    return (folder / dataset.INDEX).is_file() or any(path.is_dir() for path in folder.iterdir())


def _photos_by_breed(folder: Path, one_source: Sequence[str]) -> dict[str, dict[Path, str]]:
    """The photos of each breed and their sources, "" where that is not known."""
    if not (folder / dataset.INDEX).is_file():
        return {
            path.name: dict.fromkeys(photos_in([path]), "")
            for path in folder.iterdir()
            if path.is_dir()
        }
    found: dict[str, dict[Path, str]] = {}
    for row in dataset.rows_of_index(folder):
        found.setdefault(row["breed"], {})[folder / row["photo"]] = dataset.source_of(
            row, one_source
        )
    return found


def without_names(facts: Mapping) -> dict:
    """The facts but the names and the id, which the label holds."""
    return {key: value for key, value in facts.items() if key not in ("id", "name", "name_zh")}


def read_facts(file: Path) -> list[dict]:
    """Facts of one breed, or a list of them, in the form of models/breeds.json.

    Raises TeachingError naming what is wrong.
    """
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TeachingError(f"{file} cannot be read as JSON: {error}") from error
    entries = read if isinstance(read, list) else [read]
    for entry in entries:
        if not isinstance(entry, dict):
            raise TeachingError(
                f"{file}: expected an entry like those of models/breeds.json, received "
                f"{entry!r:.60}"
            )
        for key, value in without_names(entry).items():
            if key not in FACTS:
                raise TeachingError(
                    f"{file} has the field {key}; known are: name, name_zh, {', '.join(FACTS)}"
                )
            if not isinstance(value, FACTS[key]):
                raise TeachingError(
                    f"{file}: expected {key} as a {FACTS[key].__name__}, as in "
                    f"models/breeds.json; received {value!r:.60}"
                )
    return entries
