"""The path of a request: choose the version, check the values, run the network, name the result.

Requests come as arrays or photo bytes: protocols are parsed in `protocols/`.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import tensorflow as tf

from backend.errors import FailedPrecondition, InvalidArgument, NotFound, UnsupportedPhoto
from backend.serving.feedback.level_shares import LevelShares
from backend.serving.inference.executor import BoundedExecutor, OnDisconnect, within
from backend.serving.inference.shadow import Shadow
from backend.serving.metrics import Metrics, RequestRecord
from backend.serving.photos import photo, photo_values, preprocessing
from backend.serving.photos.photo import PhotoLimits
from backend.serving.repository.model import ModelSpec
from backend.serving.repository.repository import Repository
from backend.serving.tensors.examples import (
    ClassifyResult,
    RegressResult,
    check_signature,
    classify_result,
    regress_result,
)
from backend.serving.tensors.signatures import DEFAULT_SIGNATURE, ServableId, Signature
from backend.serving.versions.labels import Classification, checked_top_k, name_breeds
from backend.serving.versions.servable import BaseServable

Arrays = Mapping[str, np.ndarray]
Outputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Prediction:
    """Outputs by alias, and which version and signature gave them."""

    outputs: dict[str, np.ndarray]
    servable: ServableId
    signature: Signature


@dataclass(frozen=True)
class Task:
    """A signature to run on tf.Examples; `method` is "classify" or "regress"."""

    method: str
    signature_name: str = DEFAULT_SIGNATURE


class Predictor:
    """Every door's way to the models of one repository. Thread-safe."""

    def __init__(
        self,
        repository: Repository,
        executor: BoundedExecutor,
        metrics: Metrics,
        photo_limits: PhotoLimits = PhotoLimits(),  # noqa: B008 (frozen)
        deadline_seconds: float = 30.0,
        default_model: str = "",
    ):
        self.repository = repository
        self.metrics = metrics
        self.photo_limits = photo_limits
        self.deadline_seconds = deadline_seconds
        self._default_model = default_model
        self._executor = executor
        # What tells that the client of the calling thread's request is gone; for a door that does not say so itself.
        self.disconnect_callback: Callable[[], OnDisconnect | None] = lambda: None
        self.level_shares = LevelShares()
        self._shadow = Shadow(repository, metrics, executor.is_busy)

    def default_model(self) -> str:
        """The model that answers when none is named: the configured one, or the only one there is."""
        names = self.repository.models()
        return names[0] if len(names) == 1 else self._default_model

    def predict(
        self,
        spec: ModelSpec,
        inputs: Arrays | Callable[[Signature], Arrays],
        signature_name: str = DEFAULT_SIGNATURE,
        output_filter: Sequence[str] = (),
        protocol: str = "",
        timeout: float | None = None,
        on_disconnect: OnDisconnect | None = None,
    ) -> Prediction:
        """Run a signature on arrays (alias -> array of the declared dtype; strings as object arrays of bytes).

        `inputs` may be a function that makes the arrays once the signature is known, for doors whose text has no types.
        `timeout` in seconds, at most the server's own deadline. Raises the types of `backend.errors`.
        """
        deadline = self._deadline(timeout)
        with self.metrics.request(protocol) as request, self._acquire(spec, request, deadline) as servable:
            return self._run(servable, inputs, signature_name, output_filter, deadline, on_disconnect)

    def infer(
        self,
        spec: ModelSpec,
        tasks: Sequence[Task],
        examples: Sequence[bytes],
        protocol: str = "",
        timeout: float | None = None,
        on_disconnect: OnDisconnect | None = None,
    ) -> list[ClassifyResult | RegressResult]:
        """Run each task on the same serialized tf.Examples, all by one version. Raises the types of `backend.errors`."""
        deadline = self._deadline(timeout)
        with self.metrics.request(protocol) as request, self._acquire(spec, request, deadline) as servable:
            return [self._infer(servable, task, examples, deadline, on_disconnect) for task in tasks]

    def _infer(
        self,
        servable: BaseServable,
        task: Task,
        examples: Sequence[bytes],
        deadline: float,
        on_disconnect: OnDisconnect | None,
    ) -> ClassifyResult | RegressResult:
        def inputs(signature: Signature) -> Arrays:
            return {check_signature(signature, task.method): np.array(examples, dtype=object)}

        prediction = self._run(servable, inputs, task.signature_name, (), deadline, on_disconnect)
        shape = classify_result if task.method == "classify" else regress_result
        return shape(servable.id, prediction.outputs, len(examples))

    def _run(
        self,
        servable: BaseServable,
        inputs: Arrays | Callable[[Signature], Arrays],
        signature_name: str,
        output_filter: Sequence[str],
        deadline: float,
        on_disconnect: OnDisconnect | None,
    ) -> Prediction:
        signature = servable.signature(signature_name)
        arrays = inputs(signature) if callable(inputs) else inputs
        check_inputs(signature, arrays, servable.holds_shapes)
        check_output_filter(signature, output_filter)
        runs, arrays = self._checked_photos(servable, signature, arrays)
        outputs = self._execute(servable, partial(servable.run, runs, arrays), _rows(arrays), deadline, on_disconnect)
        self._shadow.offer(servable, outputs, lambda other: _run_again(other, runs, arrays))
        wanted = output_filter or outputs
        return Prediction({alias: outputs[alias] for alias in wanted}, servable.id, signature)

    def classify(
        self,
        contents: bytes,
        spec: ModelSpec,
        top_k: int | None = None,
        protocol: str = "",
        timeout: float | None = None,
        on_shadow: Callable[[Classification], None] | None = None,
    ) -> Classification:
        """Name the breed in a photo (the bytes of its file). Raises the types of `backend.errors`.

        `on_shadow` is told what a version in the shadow, if there is one, says of it, some time after this has returned.
        """
        deadline = self._deadline(timeout)
        with self.metrics.request(protocol) as request:
            with self.metrics.step("check"):
                checked = photo.check(contents, self.photo_limits)
            with self._acquire(spec, request, deadline) as servable:
                checked_top_k(servable, top_k)
                signature = servable.photo_signature()
                outputs = self._execute(servable, lambda: _run_photos(servable, signature, [checked]), 1, deadline)
                self._shadow.offer(
                    servable,
                    outputs,
                    lambda other: _run_photos(other, other.photo_signature(), [checked]),
                    on_shadow and (lambda other, seen: on_shadow(name_breeds(other, seen, row=0, top_k=1))),
                )
                with self.metrics.step("name", servable.id):
                    # What runs elsewhere may have been answered by another version than was looked up, with other labels.
                    result = name_breeds(servable, outputs, row=0, top_k=checked_top_k(servable, top_k))
            self._count_level(result)
            return result

    def _count_level(self, result: Classification) -> None:
        self.metrics.answered(result.servable, result.level.value)
        self.level_shares.count(result.servable, result.level.value)

    def predict_photos(
        self,
        contents: Sequence[bytes],
        spec: ModelSpec,
        signature_name: str = DEFAULT_SIGNATURE,
        protocol: str = "",
        timeout: float | None = None,
    ) -> Prediction:
        """Run a signature on photos (the bytes of their files), whatever form it takes them in: one row for each."""
        deadline = self._deadline(timeout)
        with self.metrics.request(protocol) as request:
            with self.metrics.step("check"):
                photo.check_count(contents, self.photo_limits)
                checked = [photo.check(each, self.photo_limits) for each in contents]
                photo.check_together(checked, self.photo_limits)
            with self._acquire(spec, request, deadline) as servable:
                signature = servable.signature(signature_name)
                work = partial(_run_photos, servable, signature, checked)
                outputs = self._execute(servable, work, len(checked), deadline)
                self._shadow.offer(
                    servable, outputs, lambda other: _run_photos(other, other.photo_signature(), checked)
                )
                return Prediction(outputs, servable.id, signature)

    def taking(self, spec: ModelSpec, signature_name: str, takes: Callable[[Signature], bool]) -> ModelSpec:
        """`spec`, or the largest version whose signature `takes` what the version that `spec` means does not take.

        For doors whose clients name no version because theirs knew only one at a time.
        """
        others = [ModelSpec(spec.name, number) for number in self.repository.available(spec.name)]
        return next((each for each in [spec, *others] if self._takes(each, signature_name, takes)), spec)

    def _takes(self, spec: ModelSpec, signature_name: str, takes: Callable[[Signature], bool]) -> bool:
        try:
            with self.repository.acquire(spec) as servable:
                return takes(servable.signature(signature_name))
        except (FailedPrecondition, NotFound):
            return False

    def is_full(self) -> bool:
        """Whether a request that came now would find no place."""
        return self._executor.is_full()

    def refuse_if_full(self, protocol: str) -> None:
        """Count and refuse a request of `door` that would find no place. Raises Full."""
        if self.is_full():
            self.metrics.turned_away(protocol)
            raise self._executor.full()

    def _execute(
        self,
        servable: BaseServable,
        work: Callable[[], Outputs],
        size: int,
        deadline: float,
        on_disconnect: OnDisconnect | None = None,
    ) -> Outputs:
        """Wait for a place and run `work` on `size` photos or rows; both are timed."""
        queued = time.perf_counter()

        def timed() -> Outputs:
            self.metrics.took("queue", time.perf_counter() - queued, servable.id)
            self.metrics.ran(servable.id, size)
            with self.metrics.step("run", servable.id):
                return work()

        return self._executor.run(timed, deadline, on_disconnect or self.disconnect_callback())

    def _checked_photos(self, servable: BaseServable, signature: Signature, arrays: Arrays) -> tuple[Signature, Arrays]:
        """The limits of the photo room hold, too, for photos that come as tensors to a graph that decodes them.

        Returns what is to be run: base64 text has to be decoded for the check, so the graph need not decode it again.
        """
        if not servable.decoding.pictures:
            return signature, arrays
        of_bytes = servable.of_bytes(signature)
        pictures = photo_values.decoded(arrays[next(iter(arrays))]) if of_bytes else None
        if pictures is not None:
            signature, arrays = of_bytes, {of_bytes.name: pictures}
        texts = {alias: arrays[alias] for alias, spec in signature.inputs.items() if spec.dtype == tf.string}
        return signature, {**arrays, **photo_values.checked(texts, servable.decoding, self.photo_limits)}

    def close(self) -> None:
        """Let running requests end, then let go of every model."""
        self._executor.close()
        self._shadow.close()
        self.repository.close()

    @contextmanager
    def _acquire(self, spec: ModelSpec, request: RequestRecord, deadline: float) -> Iterator[BaseServable]:
        with within(deadline), self.repository.acquire(spec) as servable:
            try:
                yield servable
            finally:  # where it runs elsewhere, only the answer says which version a label meant
                request.answered_by(servable.id)
                if spec.version is None:
                    self.metrics.routed(servable.id, spec.label or "")

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + min(self.deadline_seconds, self.deadline_seconds if timeout is None else timeout)


def _run_photos(servable: BaseServable, signature: Signature, checked: Sequence[photo.Photo]) -> dict[str, np.ndarray]:
    """The only values here are the photos, so whatever the graph refuses is a photo."""
    try:
        size = servable.description.input_size
        least = max(preprocessing.least_sides(size)) if size else photo.REDUCED_SIDE
        return servable.run_photos(signature, [each.upright(least) for each in checked])
    except UnsupportedPhoto:
        raise
    except InvalidArgument as error:
        raise UnsupportedPhoto(f"the photo is damaged or cut off: {photo.EXPECTED}; decoding says: {error}") from error


def _run_again(other: BaseServable, signature: Signature, arrays: Arrays) -> dict[str, np.ndarray] | None:
    """The same values through the same signature of another version; None if it has no such signature."""
    same = other.signatures.get(signature.name)
    return other.run(same, arrays) if same and same.inputs == signature.inputs else None


def _rows(arrays: Arrays) -> int:
    """How many rows a request has, by its first input; a scalar is one."""
    shape = next((np.shape(value) for value in arrays.values()), ())
    return shape[0] if shape else 1


def check_inputs(signature: Signature, inputs: Arrays, shapes: bool = True) -> None:
    """Raises InvalidArgument, naming the alias, unless every input is there with its declared dtype and, with `shapes`, shape."""
    _check_names(signature, inputs)
    for alias, spec in signature.inputs.items():
        received = np.asarray(inputs[alias])
        dtype = tf.string if received.dtype.kind in "OSU" else tf.as_dtype(received.dtype)
        if dtype != spec.dtype:
            raise InvalidArgument(f'input "{alias}": expected {spec.dtype.name} values, received {dtype.name}')
        if shapes and not spec.shape.is_compatible_with(received.shape):
            raise InvalidArgument(f'input "{alias}": expected shape {spec.shape}, received {received.shape}')


def _check_names(signature: Signature, inputs: Arrays) -> None:
    expected, received = set(signature.inputs), set(inputs)
    if expected != received:
        raise InvalidArgument(
            f"input size does not match signature: {len(received)}!={len(expected)} "
            f"len({_names(received)}) != len({_names(expected)}). "
            f"Sent extra: {_names(received - expected)}. Missing but required: {_names(expected - received)}."
        )


def check_output_filter(signature: Signature, output_filter: Sequence[str]) -> None:
    """Raises InvalidArgument for an output that the signature does not have, or that is asked for twice."""
    for alias in output_filter:
        if alias not in signature.outputs:
            raise InvalidArgument(
                f"output tensor alias not found in signature: {alias} "
                f"Outputs expected to be in the set {_names(signature.outputs)}."
            )
    repeated = {alias for alias in output_filter if list(output_filter).count(alias) > 1}
    if repeated:
        raise InvalidArgument(f"duplicate output tensor alias: {min(repeated)}")


def _names(aliases) -> str:
    return "{" + ",".join(sorted(aliases)) + "}"
