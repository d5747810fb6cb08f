"""Teaches a trained network new breeds from a few photos each, and writes the versions that know them."""

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from backend.building.merging.merge import read_description
from backend.building.saved_model import Stored, export_classifier, read_stored
from backend.errors import DogsnapError
from backend.files import READ_ENDINGS
from backend.fitting.class_statistics import STATISTICS_FILE, ClassStatistics, NewClass
from backend.fitting.scoring import softmax
from backend.fitting.thresholds import look_alikes, named_groups
from backend.serving.answers.levels import Group
from backend.serving.photos import photo
from backend.serving.photos.preprocessing import photos_to_images

Report = Callable[[str], None]

FEWEST_PHOTOS = 5
# Share of the bits of two fingerprints that may differ where the photos are one, scaled or compressed anew. Measured on 521
# photos of dogs: half the width and JPEG at quality 60 change at most 0.08 of them in 99 of 100 photos; of 5,725 pairs of
# different photos of a breed the nearest two differ in 0.125.
SAME_PHOTO = 0.09
NAMED = 3  # breeds that are named in a report
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
    """A breed to teach: its names, its photo files, and facts for the app in the form of an entry of models/breeds.json."""

    name: str
    photos: Sequence[Path]
    name_zh: str = ""
    facts: Mapping = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name in lower case with `_` for what is neither letter nor digit."""
        return re.sub(r"\W+", "_", self.name.casefold()).strip("_")

    @property
    def label(self) -> dict[str, str]:
        return {"id": self.id, "name": self.name, "name_zh": self.name_zh or self.name}


@dataclass(frozen=True)
class Expectation:
    """What teaching a breed is expected to bring and to cost.

    `right` of `photos`: those that a head taught without them still answers with the breed. `taken_for`: what it answers for the
    others. `cost`: share of the stored validation photos that were answered right before and are not any more; `losing`:
    the breeds of these. `group`: the names of the breeds that it forms a group of look-alikes with.
    """

    right: int
    photos: int
    taken_for: Counter
    cost: float
    losing: Counter
    group: Sequence[str]

    def __str__(self) -> str:
        confused = "".join(f"; {times} as {name}" for name, times in self.taken_for.most_common(NAMED))
        losing = ", ".join(f"{name} ({times})" for name, times in self.losing.most_common(NAMED))
        share = f"{self.right} of {self.photos} photos ({self.right / self.photos:.0%})"
        return (
            f"{share} are recognised by a head taught without them{confused}. "
            f"The other breeds lose {100 * self.cost:.2f} points"
            + (f", most: {losing}" if losing else "")
            + (f". It is in one group of look-alikes with {', '.join(self.group)}" if self.group else "")
        )


@dataclass(frozen=True)
class Head:
    """The layer that scores the breeds: `kernel` float32 (f, classes), `bias` float32 (classes,), `labels` of the classes."""

    kernel: np.ndarray
    bias: np.ndarray
    labels: tuple[Mapping[str, str], ...]

    def logits(self, features: np.ndarray) -> np.ndarray:
        """Features (n, f) -> (n, classes)."""
        return features @ self.kernel + self.bias

    def with_class(self, label: Mapping[str, str], weights: np.ndarray, bias: float) -> "Head":
        """The same with one class more, behind the others."""
        kernel = np.concatenate([self.kernel, weights[:, np.newaxis]], axis=1)
        return Head(kernel, np.append(self.bias, np.float32(bias)), (*self.labels, label))

    def without(self, ids: set[str]) -> "Head":
        """The same without the classes of these ids."""
        kept = [place for place, label in enumerate(self.labels) if label["id"] not in ids]
        return Head(self.kernel[:, kept], self.bias[kept], tuple(self.labels[place] for place in kept))


class Teacher:
    """A trained network and what it takes to teach it.

    `artefacts`: the folder with its float16 weights, labels, recipe, scores and class statistics. `source`: the version that is
    taught; breeds that it was taught before are kept. Raises ExportError, StatisticsError or TeachingError in one sentence.
    """

    def __init__(self, source: Path, artefacts: Path) -> None:
        self.source = source
        self.stored: Stored = read_stored(source.resolve().parent.name, artefacts)
        self.taught = {each["id"]: each for each in read_description(source).get("taught", ())}
        self._check_source()
        kernel, bias = self.stored.model.get_layer("breeds").get_weights()
        known = self.stored.description["labels"]
        # Those of the weights, as breeds taught before have extended them.
        groups = read_description(source).get("groups", ()) if self.taught else self.stored.description["groups"]
        self.groups = [Group(**{**each, "members": tuple(each["members"])}) for each in groups]
        weights = self.stored.description["scores"].get("weights", "")
        self.statistics = ClassStatistics.load(artefacts / STATISTICS_FILE, len(known), len(kernel), weights)
        # Logits with the prior in them: breeds are taught so that they take little from the others' answers, which have it.
        self._prior = self.stored.calibration.temperature * self.stored.calibration.log_prior
        self.head = Head(kernel, bias + self._prior, tuple(known))
        for label in read_description(self.source)["labels"][len(known) :]:
            each = self.taught[label["id"]]
            self.head = self.head.with_class(label, _array(each["weights"]), each["bias"])
        features = self.stored.model.get_layer("features").output
        self._network = keras.Model(
            self.stored.model.input, {"features": features, "dog": self.stored.model.output["dog"]}
        )

    def _check_source(self) -> None:
        labels = read_description(self.source).get("labels")
        if not labels:
            raise TeachingError(
                f"{self.source} is no version that names breeds; expected one like models/inception_v3/2"
            )
        known = [label["id"] for label in self.stored.description["labels"]]
        if [label["id"] for label in labels] != [*known, *self.taught]:
            raise TeachingError(
                f"{self.source} has other breeds than the weights beside it; give the folder of its weights with --from"
            )
        scores = self.stored.description["scores"]
        # The scores of earlier versions carry no digest of the weights.
        digest = {name: value for name, value in scores.items() if name == "weights"}
        if self.taught and {**digest, **read_description(self.source).get("scores", {})} != scores:
            raise TeachingError(
                f"{self.source} was taught with other weights than those beside it; give the folder of its weights with --from, "
                "or teach an untaught version"
            )

    def teach(self, breed: NewBreed, replace: bool, report: Report) -> Expectation:
        """Add `breed` and return what to expect of it; photos that are left out go to `report`.

        `replace`: the breed was taught before, and what it learnt is dropped. Raises TeachingError.
        """
        self._check_name(breed, replace)
        features = self._features_of(breed, report)
        head = self.head.without({breed.id})
        added = self.statistics.taught(features, head.kernel, head.bias)
        self._leave_group(breed.id)  # while the labels are those that the group's name may list
        self.head = head.with_class(breed.label, added.weights, added.bias)
        left_out = np.column_stack([head.logits(features[:, 0]), added.left_out])
        expected = self._expect(head, added, left_out, self._join_group(breed.id, left_out))
        self.taught.pop(breed.id, None)
        self.taught[breed.id] = {
            "id": breed.id,
            "photos": len(features),
            "facts": dict(breed.facts),
            "weights": base64.b64encode(added.weights.tobytes()).decode(),
            "bias": float(added.bias),
        }
        return expected

    def _leave_group(self, breed: str) -> None:
        """Take a breed that is taught anew out of its group; one breed alone is no group."""
        left = [(group, [member for member in group.members if member != breed]) for group in self.groups]
        self.groups = [
            group if len(kept) == len(group.members) else self._group_of(kept) for group, kept in left if len(kept) > 1
        ]

    def _group_of(self, members: Sequence[str]) -> Group:
        """A group under the name that was written for exactly these members, if any."""
        (group,) = named_groups([members], self.stored.description["groups"], self.head.labels)
        return group

    def _join_group(self, breed: str, left_out: np.ndarray) -> list[str]:
        """Add the last class to the group of breeds that it is confused with, and return their ids.

        `left_out` (n, classes): logits of its photos. The others' are those of the stored validation photos.
        """
        ids = [label["id"] for label in self.head.labels]
        logits = np.concatenate([self.head.logits(self.statistics.checked), left_out])
        classes = np.append(self.statistics.checked_classes, np.full(len(left_out), len(ids) - 1))
        places = [[ids.index(member) for member in group.members] for group in self.groups]
        found = look_alikes(softmax(logits / self.stored.calibration.temperature), classes, places, len(ids) - 1)
        others = [ids[place] for place in found]
        if found in places:
            number = places.index(found)
            self.groups[number] = self._group_of([*others, breed])
        elif found:
            self.groups.append(self._group_of([*others, breed]))
        return others

    def _check_name(self, breed: NewBreed, replace: bool) -> None:
        if not breed.id:
            raise TeachingError(f"the name {breed.name!r} has no letter; give the breed's name")
        if replace and breed.id in self.taught:
            return
        for label in self.head.labels:
            if {breed.name.casefold(), breed.name_zh.casefold(), breed.id} & {
                each.casefold() for each in (label["id"], label["name"], label.get("name_zh", "")) if each
            }:
                advice = "--replace teaches it anew" if label["id"] in self.taught else "give another name"
                raise TeachingError(f"{self.source} knows the breed {label['name']} already; {advice}")
        if replace:
            raise TeachingError(
                f"--replace: {self.source} was not taught {breed.name}; it was taught: {', '.join(self.taught) or 'nothing'}"
            )

    def _features_of(self, breed: NewBreed, report: Report) -> np.ndarray:
        """Pooled features float32 (photos, views, f) of the photos that can teach."""
        kept = []
        for path, image in _different(self._images(breed.photos, report), report):
            answer = self._network(tf.concat([image, image[:, :, ::-1]], axis=0), training=False)
            dog = float(tf.sigmoid(tf.reduce_max(answer["dog"])))
            if dog < self.stored.description["decision"]["dog_threshold"]:
                report(f"skipped {path}: the network sees no dog in it")
            else:
                kept.append(np.asarray(answer["features"], np.float32))
        if len(kept) < FEWEST_PHOTOS:
            raise TeachingError(
                f"{breed.name}: expected at least {FEWEST_PHOTOS} different photos that show the dog, received {len(kept)}"
            )
        return np.stack(kept)

    def _images(self, paths: Iterable[Path], report: Report) -> Iterable[tuple[Path, tf.Tensor]]:
        """The photos as the network sees them, (1, h, w, 3) in [0, 1]; one that cannot be read goes to `report`."""
        size = tuple(self.stored.description["input_size"])
        for path in paths:
            try:
                upright = photo.check(path.read_bytes(), photo.PhotoLimits()).upright()
                yield path, photos_to_images(tf.constant([upright]), size)
            except (OSError, DogsnapError, tf.errors.InvalidArgumentError) as error:
                report(f"skipped {path}: {str(getattr(error, 'message', error)).splitlines()[0]}")

    def _expect(self, head: Head, added: NewClass, left_out: np.ndarray, group: Sequence[str]) -> Expectation:
        """Of the class `added` behind those of `head`; `left_out` (n, classes + 1): logits of its photos; `group`: ids."""
        answers = left_out.argmax(axis=1)
        taken_for = Counter(head.labels[answer]["name"] for answer in answers if answer < len(head.labels))
        checked, classes = self.statistics.checked, self.statistics.checked_classes
        before = head.logits(checked)
        was_right = before.argmax(axis=1) == classes
        lost = was_right & (checked @ added.weights + added.bias > before.max(axis=1))
        losing = Counter(head.labels[place]["name"] for place in classes[lost])
        names = [label["name"] for label in head.labels if label["id"] in group]
        right = int((answers == len(head.labels)).sum())
        return Expectation(right, len(left_out), taken_for, float(lost.mean()), losing, names)

    def write(self, model_folder: Path, report: Report) -> Path:
        """Write the next version to `model_folder`, which `merge_all` makes the other kinds of, and return its folder."""
        description = {**self.stored.description}
        description["labels"] = [dict(label) for label in self.head.labels]
        description["groups"] = [asdict(group) for group in self.groups]
        description["taught"] = list(self.taught.values())
        # A taught breed is as common as breeds are on average.
        log_prior = np.pad(self.stored.calibration.log_prior, (0, len(self.taught)))
        calibration = replace(self.stored.calibration, log_prior=log_prior)
        model, dogs = self._taught_model(), self.stored.dogs
        return export_classifier(model, calibration, description, model_folder, report, dogs).folder

    def _taught_model(self) -> keras.Model:
        """The network with all classes, by its own architecture."""
        model = self.stored.build(len(self.head.labels))
        for layer, known in zip(model.layers, self.stored.model.layers, strict=True):
            if layer.name != "breeds":
                layer.set_weights(known.get_weights())
        bias = self.head.bias - np.pad(self._prior, (0, len(self.taught)))
        model.get_layer("breeds").set_weights([self.head.kernel, bias])
        return model


def _array(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.float32)


def _different(photos: Iterable[tuple[Path, tf.Tensor]], report: Report) -> Iterable[tuple[Path, tf.Tensor]]:
    """The photos without those that are another one again, scaled or compressed anew."""
    seen: dict[Path, np.ndarray] = {}
    for path, image in photos:
        bits = fingerprint(image)
        same = next((other for other, known in seen.items() if (known != bits).mean() <= SAME_PHOTO), None)
        if same:
            report(f"skipped {path}: the same photo as {same}")
            continue
        seen[path] = bits
        yield path, image


def fingerprint(image: tf.Tensor) -> np.ndarray:
    """256 bits of an image (1, h, w, 3): where brightness rises from left to right at 16 by 16 places (difference hash)."""
    small = tf.image.resize(tf.image.rgb_to_grayscale(image), (16, 17), antialias=True)[0, :, :, 0].numpy()
    return (small[:, 1:] > small[:, :-1]).ravel()


def photos_in(places: Iterable[Path]) -> list[Path]:
    """The photo files among `places` and directly in the folders among them. Raises TeachingError for one that is missing."""
    found: list[Path] = []
    for each in places:
        if not each.exists():
            raise TeachingError(f"{each} does not exist; expected a photo or a folder of photos")
        if each.is_dir():
            found += sorted(path for path in each.iterdir() if path.suffix.lower() in READ_ENDINGS)
        else:
            found.append(each)
    return found


def breeds_in(folder: Path, facts: Mapping[str, Mapping]) -> list[NewBreed]:
    """One breed for each folder in `folder`, named as the folder with spaces for `_`; `facts` by name."""
    folders = sorted(path for path in folder.iterdir() if path.is_dir())
    names = [path.name.replace("_", " ") for path in folders]
    if strange := sorted(set(facts) - set(names)):
        raise TeachingError(f"there are facts for {strange[0]}, but no folder of that name in {folder}")
    return [
        NewBreed(name, photos_in([path]), facts.get(name, {}).get("name_zh", ""), without_names(facts.get(name, {})))
        for name, path in zip(names, folders, strict=True)
    ]


def without_names(facts: Mapping) -> dict:
    """The facts but the names and the id, which the label holds."""
    return {key: value for key, value in facts.items() if key not in ("id", "name", "name_zh")}


def read_facts(file: Path) -> list[dict]:
    """Facts of one breed, or a list of them, in the form of models/breeds.json. Raises TeachingError naming what is wrong."""
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TeachingError(f"{file} cannot be read as JSON: {error}") from error
    entries = read if isinstance(read, list) else [read]
    for entry in entries:
        if not isinstance(entry, dict):
            raise TeachingError(f"{file}: expected an entry like those of models/breeds.json, received {entry!r:.60}")
        for key, value in without_names(entry).items():
            if key not in FACTS:
                raise TeachingError(f"{file} has the field {key}; known are: name, name_zh, {', '.join(FACTS)}")
            if not isinstance(value, FACTS[key]):
                raise TeachingError(
                    f"{file}: expected {key} as a {FACTS[key].__name__}, as in models/breeds.json; received {value!r:.60}"
                )
    return entries
