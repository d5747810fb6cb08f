"""Compares a version with the one that it replaces: what clients would feel,
and what they may.
"""

from dataclasses import dataclass

import tensorflow as tf

from dogsnap.errors import FailedPrecondition
from dogsnap.serving.tensors.signatures import Signature
from dogsnap.serving.versions.servable import BaseServable

# Without them, answers never say "no dog", or are sure of no breed.
NEEDED_THRESHOLDS = ("dog_threshold", "confident_threshold")


@dataclass(frozen=True)
class Differences:
    """Sentences.

    `felt`: requests would fail or be answered wrongly; `noted`: all the others.
    """

    felt: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()

    def __add__(self, more: "Differences") -> "Differences":
        return Differences(self.felt + more.felt, self.noted + more.noted)


def compare(before: BaseServable, after: BaseServable, /) -> Differences:
    """How `after` differs from `before`, whose requests it would take over.

    More classes, signatures, inputs' shapes and outputs are no difference. A
    version that decodes photos itself may replace one that takes them as
    numbers: that is noted.
    """
    comparison = _Comparison(before, after)
    comparison.compare_signatures()
    comparison.compare_naming()
    return Differences(tuple(comparison.felt), tuple(comparison.noted))


def never_copied(answering: BaseServable, shadow: BaseServable, /) -> Differences:
    """Notes if no request to `answering` can be repeated by its `shadow`."""
    for name, signature in answering.signatures.items():
        same = shadow.signatures.get(name)
        if same is not None and same.inputs == signature.inputs:
            return Differences()
    if _names_breeds(answering) and _names_breeds(shadow):
        return Differences()
    sentence = (
        f"version {shadow.id.version} gets no copies of what version {answering.id.version} "
        "answers: no signature of both has the same inputs"
    )
    return Differences(noted=(sentence,))


class _Comparison:
    def __init__(self, before: BaseServable, after: BaseServable):
        self.before, self.after = before, after
        self.felt: list[str] = []
        self.noted: list[str] = []
        self._new, self._old = f"version {after.id.version}", f"version {before.id.version}"

    def compare_signatures(self) -> None:
        for name, old in self.before.signatures.items():
            new = self.after.signatures.get(name)
            if new is None:
                self._feel(f"lacks the signature {name} of {self._old}")
                continue
            if self._decodes_instead(old, new):
                ((alias, spec),) = new.inputs.items()
                self.noted.append(
                    f"{self._new} takes {_describe(alias, spec)} in {name} and decodes photos "
                    f"itself, {self._old} takes them as numbers"
                )
                continue
            if new.method != old.method:
                self._feel(f"has the method {new.method} in {name}, {self._old} has {old.method}")
            for alias in sorted({*old.inputs, *new.inputs}):
                had, has = old.inputs.get(alias), new.inputs.get(alias)
                if had and has and self._takes_one_of_many(new, alias, had, has):
                    self.noted.append(f"{self._new} takes several of {alias} in {name} as well")
                elif not (had and has and _takes(had, has)):
                    before = f"{self._old} {_describe(alias, had)}"
                    self._feel(f"takes {_describe(alias, has)} in {name}, {before}")
            for alias, had in old.outputs.items():
                has = new.outputs.get(alias)
                if not (has and _gives(had, has)):
                    before = f"{self._old} {_describe(alias, had)}"
                    self._feel(f"gives {_describe(alias, has)} in {name}, {before}")

    def _takes_one_of_many(
        self, new: Signature, alias: str, had: tf.TensorSpec, has: tf.TensorSpec
    ) -> bool:
        """Whether one text, which clients send to an input that takes one or does
        not say how many, is taken as a batch of one; a photo where it does not say.
        """
        is_open = has.shape.rank == 1 and has.shape[0] is None
        if not is_open or (had.dtype, has.dtype) != (tf.string, tf.string):
            return False
        if had.shape.rank is None:
            return alias in self.after.picture_inputs(new)
        return bool(had.shape.rank == 0)

    def _decodes_instead(self, old: Signature, new: Signature) -> bool:
        """Whether the one input is a photo as numbers before, and one as a file
        or text after.
        """
        if len(old.inputs) != 1 or len(new.inputs) != 1:
            return False
        (had,), (has,) = old.inputs.values(), new.inputs.values()
        are_pictures = self.before.picture_inputs(old) and self.after.picture_inputs(new)
        return bool(are_pictures) and had.dtype != tf.string and has.dtype == tf.string

    def compare_naming(self) -> None:
        """What /api/classify says: breeds, and with which thresholds."""
        old, new = self.before.description, self.after.description
        if _names_breeds(self.before) and not _names_breeds(self.after):
            self._feel(
                "cannot name breeds (no labels, or no signature for photos), which the app needs"
            )
            return
        self._compare_classes()
        if (old.levels.thresholds is None) != (new.levels.thresholds is None):
            kinds = ("one class a photo", "several labels a photo")
            has, had = [kinds[each.levels.thresholds is not None] for each in (new, old)]
            self._feel(f"tells {has}, {self._old} {had}")
        thresholds, others = old.raw.get("decision", {}), new.raw.get("decision", {})
        for name, value in thresholds.items():
            if name not in others and name in NEEDED_THRESHOLDS:
                self._feel(f"lacks the {name} of {self._old}")
            elif others.get(name) != value:
                self.noted.append(
                    f"{self._new} has the {name} {others.get(name, 'none')}, {self._old} {value}"
                )

    def _compare_classes(self) -> None:
        """Classes that come behind the others disturb nobody."""
        had = [label["id"] for label in self.before.description.labels]
        has = [label["id"] for label in self.after.description.labels]
        if missing := [name for name in had if name not in has]:
            self._feel(f"lacks {len(missing)} classes of {self._old}: {_join(missing)}")
        elif had != has[: len(had)]:
            moved = [name for index, name in enumerate(had) if has[index] != name]
            self._feel(f"has other places for {len(moved)} classes: {_join(moved)}")
        elif len(has) > len(had):
            self.noted.append(f"{self._new} has {len(has) - len(had)} more classes")

    def _feel(self, what: str) -> None:
        self.felt.append(f"{self._new} {what}")


def _names_breeds(servable: BaseServable) -> bool:
    try:
        return bool(servable.description.labels and servable.photo_signature())
    except FailedPrecondition:
        return False


def _takes(had: tf.TensorSpec, has: tf.TensorSpec) -> bool:
    """Whether an input takes everything that another one takes."""
    return had.dtype == has.dtype and had.shape.is_subtype_of(has.shape)


def _gives(had: tf.TensorSpec, has: tf.TensorSpec) -> bool:
    """Whether an output has what another one has; more of it is fine."""
    if had.dtype != has.dtype:
        return False
    if None in (had.shape.rank, has.shape.rank):
        return True
    if had.shape.rank != has.shape.rank:
        return False
    pairs = zip(had.shape, has.shape, strict=True)
    return all(None in (old, new) or new >= old for old, new in pairs)


def _describe(alias: str, spec: tf.TensorSpec | None) -> str:
    """E.g. "image float32 (?, 299, 299, 3)"."""
    if spec is None:
        return f"no {alias}"
    if spec.shape.rank is None:
        return f"{alias} {spec.dtype.name}"
    sizes = ["?" if size is None else str(size) for size in spec.shape]
    return f"{alias} {spec.dtype.name} ({', '.join(sizes)})"


def _join(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
