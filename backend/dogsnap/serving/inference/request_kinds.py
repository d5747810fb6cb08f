"""The kinds of work that a request asks for.

Each is one run of one signature; its methods are called in their order.
"""

import copy
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from dogsnap.errors import DogsnapError, InvalidArgument, TooLarge, Unavailable, UnsupportedPhoto
from dogsnap.serving.answers.classification import (
    Classification,
    check_top_k,
    name_breeds,
)
from dogsnap.serving.answers.levels import Level
from dogsnap.serving.answers.several_photos import JoinedAnswer, join_answers, map_photos
from dogsnap.serving.execution.executor import remaining
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.photos import photo, photo_values, preprocessing
from dogsnap.serving.tensors.examples import check_signature, classify_rows, regress_rows
from dogsnap.serving.tensors.json_tensors import OtherInputs
from dogsnap.serving.tensors.signatures import (
    BYTES_SUFFIX,
    DEFAULT_SIGNATURE,
    Arrays,
    ServableId,
    Signature,
)
from dogsnap.serving.tensors.tensor_protos import tensor_bytes
from dogsnap.serving.versions.servable import ONE_BY_ONE, Answer, BaseServable, Switched

PAIR_BYTES = 100  # of a label or score in the results of classification and regression
BOXES = ("box", "dogs_box")  # outputs (n, 4) and (n, dogs, 4), in fractions of the sides
# Turns are run only while so many times the time of the first run is left: three times
# for the turns, as much to be safe.
LEAST_TIMES_LEFT = 6
# Levels of answers that are tried in all turns, by versions that do not tell the orientation:
# of sets, which upright dogs have as well, turns change too many.
LITTLE = (Level.NO_DOG, Level.UNKNOWN, Level.UNSURE)
# Levels of which a turn's answer has to be one, the less sure first: turned, other
# animals get sets as well.
SURE = (Level.GROUP, Level.BREED)
# Of the dog's probability in a turn: below, one photo of other animals in forty would
# be called a dog by a turn.
LEAST_DOG_TURNED = 0.99


@dataclass(frozen=True)
class Prediction:
    """Outputs by alias, and which version and signature gave them."""

    outputs: Arrays
    servable: ServableId
    signature: Signature


@dataclass(frozen=True)
class Run:
    """What a run gave: every output by alias, and the version that answered,
    which may be another one behind a gateway.

    `named`: the answer to each photo, where breeds were asked for. `is_one_row`:
    the inputs were lists of one that became values.
    """

    outputs: Arrays
    servable: BaseServable
    named: tuple[Classification, ...] = ()
    is_one_row: bool = False


def run_where_it_answers(
    servable: BaseServable,
    signature: Signature,
    answer: Callable[[BaseServable, Signature], Answer],
) -> Run:
    """Have a version `answer`; where that has become another one, have that answer.

    Behind a gateway, a label or default can move to another version while a
    request is under way. That may take pictures of another size, so that what
    it is shown is made anew: hence the loop. Raises Unavailable where it does
    not give the outputs of `signature`.
    """
    asked = signature
    while True:
        try:
            outputs, answering = answer(servable, signature)
            break
        except Switched as switched:
            servable = switched.servable
            signature = servable.signatures.get(signature.name, signature)
    if not set(asked.outputs) <= set(outputs):
        raise Unavailable(
            f"the engine has just switched to {answering.id}, which gives other outputs; try again"
        )
    return Run(outputs, answering)


@dataclass(frozen=True)
class Task:
    """A signature to run on tf.Examples; `method` is "classify" or "regress"."""

    method: str
    signature_name: str = DEFAULT_SIGNATURE


class _OneSignature:
    """A run of a signature, of whose outputs a client may want some.

    `size`: rows in the run.
    """

    _signature: Signature
    size = 1

    def __init__(self, signature_name: str, output_filter: Sequence[str]):
        self._signature_name = signature_name
        self._filter = output_filter

    def answer(self, run: Run) -> Any:
        """The result for the client."""
        wanted = {alias: run.outputs[alias] for alias in self._filter or run.outputs}
        if run.is_one_row:
            wanted = {alias: _as_row(output) for alias, output in wanted.items()}
        return Prediction(wanted, run.servable.id, self._signature)


class Values(_OneSignature):
    """A signature on arrays (alias -> array of the declared dtype; strings as
    object arrays of bytes).
    """

    def __init__(
        self,
        inputs: Callable[[Signature], Arrays],
        signature_name: str = DEFAULT_SIGNATURE,
        output_filter: Sequence[str] = (),
    ):
        """`inputs` makes the arrays when the signature is known.

        Where none is named (""), one whose inputs are exactly those of the
        request answers instead of the default.
        """
        super().__init__(signature_name, output_filter)
        self._inputs = inputs

    def prepare(self, servable: BaseServable, max_pixels: int, metrics: Metrics) -> Signature:
        """Check the values for this version, and return the signature to run."""
        signature = servable.signature(self._signature_name)
        try:
            arrays = self._inputs(signature)
        except OtherInputs as error:
            names = _signatures_of(servable, error.received)
            if self._signature_name or len(names) != 1:
                inputs = ", ".join(sorted(error.received))
                quoted = " or ".join(f'"{name}"' for name in names)
                hint = f"; for {inputs} set signature_name to {quoted}" if names else ""
                raise InvalidArgument(error.message + hint) from None
            signature = servable.signature(names[0])
            arrays = self._inputs(signature)
        self._signature = signature
        arrays = {**signature.defaults, **arrays}
        arrays, self._is_one_row = _fit_inputs(signature, arrays, servable.holds_shapes)
        signature.check_outputs(self._filter)
        _check_count(servable, signature, arrays)
        self._runs, self._arrays, self._pixels = _checked_photos(
            servable, signature, arrays, max_pixels
        )
        shape = np.shape(next(iter(self._arrays.values()), 0))
        self.size = shape[0] if shape else 1
        return self._runs

    def run(self, servable: BaseServable, signature: Signature, metrics: Metrics) -> Run:
        with photo.place_to_decode(self._pixels):
            return self._run(servable, signature)

    def _run(self, servable: BaseServable, signature: Signature) -> Run:
        try:
            run = self._run_on(servable, signature, self._arrays)
            return replace(run, is_one_row=self._is_one_row)
        except InvalidArgument as error:
            if preprocessing.NO_BASE64 in error.message:
                photo_values.check_base64(_texts_of_photos(servable, self._runs, self._arrays))
            # A placeholder of shape [] may take a list of one as it is, or only its value.
            values = _without_lists_of_one(self._runs, self._arrays)
            if not values:
                raise
            run = self._run_on(servable, signature, {**self._arrays, **values})
            return replace(run, is_one_row=True)

    def _run_on(self, servable: BaseServable, signature: Signature, arrays: Arrays) -> Run:
        def answer(version: BaseServable, signature: Signature) -> Answer:
            if signature.inputs != self._runs.inputs:
                raise Unavailable(
                    f"the engine has just switched to {version.id}, which takes other "
                    "inputs; try again"
                )
            return version.answer(signature, arrays)

        return run_where_it_answers(servable, signature, answer)

    def repeat(self, other: BaseServable) -> Arrays | None:
        """Run the same on a shadow version; None if it has no such signature."""
        same = other.signatures.get(self._runs.name)
        if same is None or same.inputs != self._runs.inputs:
            return None
        return self._run(other, same).outputs


def _signatures_of(servable: BaseServable, inputs: frozenset[str]) -> list[str]:
    """The signatures with exactly these inputs; of several the one that is
    named like its only input, if there is one.
    """
    names = []
    for name, signature in servable.signatures.items():
        if inputs == set(signature.inputs):
            names.append(name)
    alike = [name for name in names if inputs == {name}]
    return alike or names


class Examples(Values):
    """A signature for classification or regression on serialized tf.Examples."""

    def __init__(
        self, task: Task, read: Callable[[], Sequence[bytes]], hold: Callable[[int], None]
    ):
        """`read` makes the examples, when their turn has come; `hold` counts the bytes of
        the answer before it is made.
        """

        def inputs(signature: Signature) -> Arrays:
            examples = read()
            self._count = len(examples)
            alias = check_signature(signature, task.method)
            return {alias: np.array(examples, dtype=object)}

        super().__init__(inputs, task.signature_name)
        self._method = task.method
        self._hold = hold

    def answer(self, run: Run) -> tuple[ServableId, list[Any]]:
        """The version that answered, and the rows that `examples` gives for the method."""
        outputs = run.outputs
        texts = sum(tensor_bytes(value) for value in outputs.values() if value.dtype == object)
        size = PAIR_BYTES * sum(np.size(value) for value in outputs.values()) + texts
        run.servable.check_answer_size(size)
        self._hold(size)
        rows = classify_rows if self._method == "classify" else regress_rows
        return run.servable.id, rows(outputs, self._count)


class Photos(_OneSignature):
    """A signature on photos, in whatever form it takes them: one row for each."""

    def __init__(
        self,
        contents: Sequence[bytes | photo.Photo],
        signature_name: str = DEFAULT_SIGNATURE,
        output_filter: Sequence[str] = (),
    ):
        """`contents`: the bytes of files, or photos that were checked already."""
        super().__init__(signature_name, output_filter)
        self._contents = contents
        self._ready: dict[tuple[int, int], bytes] = {}  # by place and least side
        self.size = len(contents)

    def prepare(self, servable: BaseServable, max_pixels: int, metrics: Metrics) -> Signature:
        with metrics.step("check"):
            photo.check_count(self.size)
            check = partial(photo.check, max_pixels=max_pixels)
            self._photos = map_photos(check, self._contents)
            photo.check_together(self._photos, max_pixels)
        return self._choose_signature(servable)

    def _choose_signature(self, servable: BaseServable) -> Signature:
        self._signature = servable.signature(self._signature_name)
        self._signature.check_outputs(self._filter)
        return self._signature

    def _upright(self, servable: BaseServable, places: Sequence[int]) -> list[bytes]:
        """Photos as `Photo.upright` makes them for the size that a version takes."""
        size = servable.description.input_size
        least = max(preprocessing.least_sides(size)) if size else photo.REDUCED_SIDE
        missing = [place for place in places if (place, least) not in self._ready]
        with photo.place_to_decode(sum(self._photos[place].whole_pixels() for place in missing)):
            for place in missing:
                self._ready[place, least] = self._photos[place].upright(least)
        return [self._ready[place, least] for place in places]

    def _pictures(self, servable: BaseServable) -> list[bytes]:
        return self._upright(servable, range(self.size))

    def _picture(self, servable: BaseServable, place: int) -> bytes:
        return self._upright(servable, [place])[0]

    def run(self, servable: BaseServable, signature: Signature, metrics: Metrics) -> Run:
        return self._run(servable, signature, self._pictures)

    def _run(
        self,
        servable: BaseServable,
        signature: Signature,
        pictures: Callable[[BaseServable], list[bytes]],
    ) -> Run:
        """`pictures` makes what a version is shown."""

        def answer(version: BaseServable, signature: Signature) -> Answer:
            return version.answer_photos(signature, pictures(version))

        try:
            return run_where_it_answers(servable, signature, answer)
        except (UnsupportedPhoto, TooLarge):
            raise
        except InvalidArgument as error:  # of the graph, to which photos are the only values
            sentence = f"the photo is damaged or cut off: {photo.EXPECTED}; decoding says: {error}"
            raise UnsupportedPhoto(sentence) from error

    def repeat(self, other: BaseServable) -> Arrays:
        return self._run(other, other.photo_signature(), self._pictures).outputs


class Breeds(Photos):
    """The breed of a dog in one photo, or in several, each of which is looked at alone.

    A long one in which no dog is seen is looked at again in overlapping
    squares.

    Any other one that lies on its side is turned, where the version's classes
    are the same whichever way is up: a phone held flat lays dogs on their side. A
    version may tell that as `photo.ORIENTATION`; else those are tried of which little is said.
    """

    def __init__(self, contents: Sequence[bytes | photo.Photo], top_k: int | None):
        super().__init__(contents)
        self._top_k = top_k

    def _choose_signature(self, servable: BaseServable) -> Signature:
        check_top_k(servable, self._top_k)
        return servable.photo_signature()

    def run(self, servable: BaseServable, signature: Signature, metrics: Metrics) -> Run:
        def look(place: int) -> Run:
            return self._name(self._look(place, servable, signature, metrics), metrics)

        runs = map_photos(look, range(self.size))
        named = tuple(answer for run in runs for answer in run.named)
        if len({answer.servable for answer in named}) > 1:
            raise Unavailable("the engine has just switched versions; try again")
        return Run(_rows_of(runs), runs[-1].servable, named)

    def repeat(self, other: BaseServable) -> Arrays:
        """What `other` would answer, which may look at other parts of the photos."""
        again = copy.copy(self)
        again._top_k = None  # it may have fewer classes
        signature = other.photo_signature()
        return _rows_of([again._look(place, other, signature) for place in range(self.size)])

    def answer(self, run: Run) -> JoinedAnswer:
        return join_answers(run.servable, run.named, self._top_k)

    def _look(
        self,
        place: int,
        servable: BaseServable,
        signature: Signature,
        metrics: Metrics | None = None,
    ) -> Run:
        """Run a photo, and what else of it may say more."""
        began = time.monotonic()
        whole = self._run(servable, signature, lambda version: self._upright(version, [place]))
        if not _sees_dog(whole):
            in_window = self._look_into_windows(place, whole.servable, signature)
            if in_window:
                return in_window
        needed = LEAST_TIMES_LEFT * (time.monotonic() - began)
        if not whole.servable.description.is_turned or remaining(math.inf) < needed:
            return whole
        named = self._name(whole, metrics)
        turns = _turns_to_try(named)
        if not turns:
            return named
        return self._look_at_turns(place, whole.servable, signature, turns) or named

    def _name(self, run: Run, metrics: Metrics | None) -> Run:
        """With its answer, which is named once; timed for the metrics of a request."""
        if run.named:
            return run
        with metrics.step("name", run.servable.id) if metrics else nullcontext():
            named = name_breeds(run.servable, run.outputs, 0, self._top_k)
        return replace(run, named=(named,))

    def _look_into_windows(
        self, place: int, servable: BaseServable, signature: Signature
    ) -> Run | None:
        """The run of the window that shows a dog the most; None if none does."""
        windows = photo.windows(self._picture(servable, place))
        if not windows:
            return None
        found = self._run(
            servable,
            signature,
            lambda version: photo.cut_windows(self._picture(version, place), windows),
        )
        best = int(np.argmax(found.outputs["dog"]))
        part = _row_of(found.outputs, best)
        in_whole = Run(_in_whole(part, windows[best]), found.servable)
        return in_whole if _sees_dog(in_whole) else None

    def _look_at_turns(
        self, place: int, servable: BaseServable, signature: Signature, degrees: Sequence[int]
    ) -> Run | None:
        """The run of the turn with the surest answer; None if none shows a dog upright."""
        turns = []
        try:
            turned = self._run(
                servable,
                signature,
                lambda version: photo.turn(self._picture(version, place), degrees),
            )
            for row, turn in enumerate(degrees):
                back = turned_back(_row_of(turned.outputs, row), turn)
                named = name_breeds(turned.servable, back, 0, self._top_k)
                turns.append(Run(back, turned.servable, (replace(named, turned=turn),)))
        except DogsnapError:  # there is an answer already
            return None
        best = max(turns, key=lambda turn: _sureness(turn.named[0]))
        return best if _is_upright(best) else None


def _rows_of(runs: Sequence[Run]) -> Arrays:
    """The outputs of runs of one photo each, a row for each; those of a single one as they are,
    which may be without rows.
    """
    parts = [run.outputs for run in runs]
    if len(parts) == 1:
        return parts[0]
    return {alias: np.concatenate([part[alias] for part in parts]) for alias in parts[0]}


def _turns_to_try(run: Run) -> Sequence[int]:
    """By which degrees clockwise a photo may be upright, if not as it is."""
    upright = _told_turn(run)
    if upright is None:
        return tuple(photo.TURN) if _says_little(run.named[0]) else ()
    return (upright,) if upright else ()


def _told_turn(run: Run) -> int | None:
    """The degrees clockwise that set a photo upright, as a version tells; None if it does not."""
    told = run.outputs.get(photo.ORIENTATION)
    if told is None or told.shape != (1, len(photo.DEGREES)):
        return None
    return photo.DEGREES[int(np.argmax(told[0]))]


def _is_upright(turned: Run) -> bool:
    """Whether the answer to a photo that was turned counts."""
    upright = _told_turn(turned)
    if upright is None:
        sees_surely = float(turned.outputs.get("dog", [1])[0]) >= LEAST_DOG_TURNED
        return _is_sure(turned.named[0]) and sees_surely
    return upright == 0 and _sees_dog(turned)


def _says_little(answer: Classification) -> bool:
    """Whether a turn may say more; one of a version without thresholds, which
    the note tells, is never sure.
    """
    return answer.level in LITTLE and len(answer.dogs) <= 1 and not answer.note


def _is_sure(answer: Classification) -> bool:
    return answer.level in SURE and len(answer.dogs) == 1


def _sureness(answer: Classification) -> tuple[int, float]:
    """What sorts answers: breeds before groups before the rest, and of equal
    ones the more probable.
    """
    if not _is_sure(answer):
        return -1, 0.0
    probability = answer.breeds[0].probability
    if answer.level is Level.GROUP and answer.group:
        probability = answer.group[1]
    return SURE.index(answer.level), probability


def _sees_dog(run: Run) -> bool:
    """Whether a version sees a dog in one photo; one that never says that there
    is none always does.
    """
    decision = run.servable.description.levels.decision
    return "dog" not in run.outputs or bool(decision.sees_dog(float(run.outputs["dog"][0])))


def _row_of(outputs: Arrays, row: int) -> Arrays:
    """The outputs for one picture of a run, with a first dimension of 1."""
    return {alias: values[row : row + 1] for alias, values in outputs.items()}


def _in_whole(outputs: Arrays, window: photo.Box) -> Arrays:
    """The outputs for a window of a photo, with boxes in fractions of the whole photo."""
    left, top, right, bottom = window
    start = np.array([left, top, left, top], np.float32)
    size = np.array([right - left, bottom - top] * 2, np.float32)
    boxes = {alias: start + size * outputs[alias] for alias in BOXES if alias in outputs}
    return {**outputs, **boxes}


def turned_back(outputs: Arrays, degrees: int) -> Arrays:
    """The outputs for a photo that was turned clockwise, with boxes in
    fractions of the photo before that.
    """
    boxes = {alias: outputs[alias] for alias in BOXES if alias in outputs}
    for _ in range(degrees // 90):
        for alias, box in boxes.items():
            left, top, right, bottom = np.moveaxis(box, -1, 0)
            boxes[alias] = np.stack([top, 1 - right, bottom, 1 - left], axis=-1)
    return {**outputs, **boxes}


Work = Values | Photos


def _fit_inputs(signature: Signature, arrays: Arrays, holds_shapes: bool) -> tuple[Arrays, bool]:
    """One string as the batch of one that an input takes, values as the rows of
    one value that an input takes, and a list of one as the value that a scalar
    input takes.

    Also returns whether there was such a list, whose answer is a list of one
    again. Raises InvalidArgument, naming the alias, unless all inputs have the
    declared dtype and, with `holds_shapes`, shape.
    """
    signature.check_inputs(arrays)
    fitted = {}
    is_one_row = False
    for alias, spec in signature.inputs.items():
        value = np.asarray(arrays[alias])
        try:
            dtype = tf.as_dtype(value.dtype)
        except TypeError:  # of NumPy alone, as dates
            dtype = None
        if dtype != spec.dtype:
            received = dtype.name if dtype else value.dtype
            raise InvalidArgument(
                f'input "{alias}": expected {spec.dtype.name} values, received {received}'
            )
        if dtype == tf.string and spec.shape.rank == 1 and value.ndim == 0:
            value = value.reshape(1)
        elif holds_shapes and spec.shape.rank == 2 and spec.shape[1] == 1 and value.ndim == 1:
            value = value.reshape(-1, 1)
        elif holds_shapes and spec.shape.rank == 0 and value.shape == (1,):
            value = value.reshape(())
            is_one_row = True
        if holds_shapes and not spec.shape.is_compatible_with(value.shape):
            advice = f"; {ONE_BY_ONE}" if spec.shape.rank == 0 else ""
            raise InvalidArgument(
                f'input "{alias}": expected shape {spec.shape}, received {value.shape}{advice}'
            )
        fitted[alias] = value
    return fitted, is_one_row


def _without_lists_of_one(signature: Signature, arrays: Arrays) -> Arrays:
    """The values of scalar inputs that came as lists of one."""
    values = {}
    for alias, spec in signature.inputs.items():
        if spec.shape.rank == 0 and np.shape(arrays[alias]) == (1,):
            values[alias] = np.asarray(arrays[alias]).reshape(())
    return values


def _as_row(output: np.ndarray) -> np.ndarray:
    """The answer to a list of one: with a first dimension of 1, which most
    graphs give by themselves.
    """
    return output if output.shape[:1] == (1,) else np.asarray(output)[np.newaxis]


def _texts_of_photos(servable: BaseServable, signature: Signature, arrays: Arrays) -> Arrays:
    """The inputs in which photos come as base64 text."""
    return {
        alias: arrays[alias]
        for alias in servable.picture_inputs(signature)
        if signature.inputs[alias].dtype == tf.string and not alias.endswith(BYTES_SUFFIX)
    }


def _check_count(servable: BaseServable, signature: Signature, arrays: Arrays) -> None:
    """Raises TooLarge for too many values in an input of pictures, without a
    look at them.
    """
    for alias in servable.picture_inputs(signature):
        values = arrays[alias]
        is_text = signature.inputs[alias].dtype == tf.string
        photo.check_count(values.size if is_text else len(np.atleast_1d(values)))


def _checked_photos(
    servable: BaseServable, signature: Signature, arrays: Arrays, max_pixels: int
) -> tuple[Signature, Arrays, int]:
    """Check photos in tensors that a graph decodes.

    Returns what to run, and how many pixels it decodes: text decoded for the check is
    not decoded again.
    """
    if not servable.decoding.pictures:
        return signature, arrays, 0
    if of_bytes := servable.of_bytes(signature):
        pictures = photo_values.decode_photos(arrays[next(iter(arrays))])
        if pictures is not None:
            signature = of_bytes
            arrays = {of_bytes.name: pictures}
    texts = {}
    for alias, spec in signature.inputs.items():
        if spec.dtype == tf.string:
            texts[alias] = arrays[alias]
            if servable.decoding.base64 and not alias.endswith(BYTES_SUFFIX):
                texts[alias] = photo_values.encode_photos(arrays[alias])
    checked, pixels = photo_values.check_and_cut_photos(texts, servable.decoding, max_pixels)
    return signature, {**arrays, **checked}, pixels
