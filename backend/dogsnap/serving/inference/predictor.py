"""The path of a request: choose the version, check the values, run the network,
name the result.
"""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import tensorflow as tf

from dogsnap.errors import DogsnapError, InvalidArgument
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.answers.classification import IMAGES_RANK
from dogsnap.serving.answers.several_photos import JoinedAnswer
from dogsnap.serving.execution.executor import Executor, IsGone, within
from dogsnap.serving.inference.guard import Guard
from dogsnap.serving.inference.request_kinds import Breeds, Run, Work
from dogsnap.serving.inference.shadow import Shadow
from dogsnap.serving.metrics import Metrics, RequestRecord
from dogsnap.serving.photos.photo import Photo, check
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.repository.switcher import Switcher
from dogsnap.serving.series import Series
from dogsnap.serving.tensors.json_tensors import BASE64_SHOWN
from dogsnap.serving.tensors.signatures import DEFAULT_SIGNATURE, Signature
from dogsnap.serving.versions.servable import BaseServable
from dogsnap.settings import Settings

# Of a copy that a phone shows and cuts a dog out of: sides in pixels and JPEG quality
# that make about 250 kB.
COPY_SIDE = 1280
COPY_QUALITY = 85
# By the kind of values that came, how messages say that another kind was expected.
OTHER_KIND = {
    "text": re.compile(
        f"(Type: String|{re.escape(BASE64_SHOWN)} Type: Object) is not of expected type"
        "|received string$"
    ),
    "numbers": re.compile("Type: Number is not of expected type: string|expected string values"),
}


class Predictor:
    """Runs requests of all protocols on the models of a repository. Thread-safe."""

    def __init__(
        self, repository: ModelRepository, executor: Executor, metrics: Metrics, settings: Settings
    ):
        self.repository = repository
        self.metrics = metrics
        self._default_model = settings.default_model
        self._max_pixels = settings.max_photo_pixels
        self._deadline_seconds = settings.deadline_ms / 1000
        self._executor = executor
        self.switcher = Switcher(repository)
        self.guard = Guard(repository, self.switcher, metrics)
        self.shadow = Shadow(repository, metrics, executor.is_busy)
        self.series = Series(metrics)

    def start(self, poll_seconds: float, on_ready: Callable[[], None] = lambda: None) -> None:
        """Load versions, follow switches and watch both, in threads; `on_ready` is
        called once.
        """
        self.repository.start(poll_seconds, on_ready, self.guard.follow)
        self.series.start()

    def default_model(self) -> str:
        """The model for requests that name none: the configured one, or the only one."""
        names = self.repository.models()
        return names[0] if len(names) == 1 else self._default_model

    def answer(
        self,
        spec: ModelSpec,
        works: Sequence[Work],
        protocol: str = "",
        timeout: float | None = None,
        is_gone: IsGone | None = None,
    ) -> list[Any]:
        """The path of a request: choose the version, wait for a place, check,
        run, offer it to the shadow, answer.

        All of `works` are answered by one version. `timeout` in seconds; None:
        `deadline_ms`; `is_gone` says whether the client has disconnected.
        Raises the types of `dogsnap.errors`.
        """
        seconds = self._deadline_seconds if timeout is None else timeout
        deadline = time.monotonic() + seconds
        label = (spec.label or "") if spec.version is None else None
        on_end = partial(self.guard.record, spec)
        answers = []
        with (
            self.metrics.request(protocol, label, on_end) as record,
            within(deadline),
            self.repository.acquire(spec) as chosen,
        ):
            servable: BaseServable = chosen
            record.servable = servable.id
            for work in works:
                run = partial(self._run, servable, work, record, time.perf_counter())
                found = self._executor.run(run, deadline, is_gone)
                servable = found.servable  # the engine may have switched versions
                record.servable = servable.id
                self.shadow.offer(servable, found.outputs, work.repeat)
                answers.append(work.answer(found))
        return answers

    def _run(self, servable: BaseServable, work: Work, record: RequestRecord, queued: float) -> Run:
        """Check the values and run, in a run thread; `queued`: when it was
        queued, by time.perf_counter().
        """
        self.metrics.took("queue", time.perf_counter() - queued, servable.id)
        try:
            signature = work.prepare(servable, self._max_pixels, self.metrics)
        except InvalidArgument as error:
            raise self._with_version_of_kind(servable, error) from error
        if not servable.shares_runs(signature):  # runs that requests share count themselves
            self.metrics.ran(servable.id, work.size)
        started = time.perf_counter()
        with self.metrics.step("run", servable.id):
            run = work.run(servable, signature, self.metrics)
        record.run_seconds += time.perf_counter() - started
        return run

    def _with_version_of_kind(
        self, servable: BaseServable, error: InvalidArgument
    ) -> InvalidArgument:
        """The error; where text came for numbers or numbers for text, with a
        version that takes it, the likest or largest.
        """
        kind = next((kind for kind, words in OTHER_KIND.items() if words.search(error.message)), "")
        own = servable.signatures.get(DEFAULT_SIGNATURE)
        fitting = []
        for number in self.repository.available(servable.id.name) if kind else []:
            signature = self._signature_of(ModelSpec(servable.id.name, number), DEFAULT_SIGNATURE)
            if signature is None:
                continue
            types = {spec.dtype == tf.string for spec in signature.inputs.values()}
            if types == {kind == "text"}:
                is_like = own is not None and signature.outputs == own.outputs
                fitting.append((is_like, number))
        if not fitting:
            inputs = own.inputs.values() if own and kind == "text" else ()
            if any(spec.shape.rank == IMAGES_RANK for spec in inputs):
                merge = f"`dogsnap merge {servable.id.name}/{servable.id.version}`"
                return InvalidArgument(f"{error.message}; {merge} makes a version that takes it")
            return error
        return InvalidArgument(f"{error.message}; version {max(fitting)[1]} takes {kind}")

    def classify(
        self,
        contents: Sequence[bytes | Photo],
        spec: ModelSpec,
        top_k: int | None,
        protocol: str,
        is_gone: IsGone | None = None,
    ) -> JoinedAnswer:
        """Name the breed of the dog in one photo or several: the bytes of their files, or
        photos that were checked.
        """
        joined: JoinedAnswer
        (joined,) = self.answer(spec, [Breeds(contents, top_k)], protocol, is_gone=is_gone)
        answer = joined.answer
        self.metrics.answered.labels(*answer.servable, answer.level.value).inc()
        return joined

    def upright_copy(self, contents: bytes, is_gone: IsGone | None) -> bytes:
        """A JPEG of a photo as `Photo.small_jpeg` makes it, at most COPY_SIDE
        pixels long; it takes a place as a photo does.
        """

        def copy() -> bytes:
            return check(contents, self._max_pixels).small_jpeg(COPY_SIDE, COPY_QUALITY)

        deadline = time.monotonic() + self._deadline_seconds
        return self._executor.run(copy, deadline, is_gone)

    def taking(
        self, spec: ModelSpec, signature_name: str, takes: Callable[[Signature], bool]
    ) -> ModelSpec:
        """`spec`, or the largest version whose signature `takes` what the
        version that `spec` means does not take.
        """
        others = [ModelSpec(spec.name, number) for number in self.repository.available(spec.name)]
        for candidate in [spec, *others]:
            signature = self._signature_of(candidate, signature_name)
            if signature is not None and takes(signature):
                return candidate
        return spec

    def _signature_of(self, spec: ModelSpec, name: str) -> Signature | None:
        """None where that version cannot answer, or has no such signature."""
        with (
            suppress(DogsnapError),
            self.repository.acquire(spec) as servable,
        ):
            return servable.signature(name)
        return None

    def refuse_if_full(self, protocol: str) -> None:
        """Raises Full, and counts the refusal, if the server is full."""
        if self._executor.is_full():
            with self.metrics.request(protocol):
                raise self._executor.full()

    def close(self) -> None:
        self.series.close()
        self._executor.close()
        self.shadow.close()
        self.repository.close()
