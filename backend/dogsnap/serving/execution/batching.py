"""Runs waiting requests as one batch, by TensorFlow Serving's
--batching_parameters_file.

Off by default: on two CPU cores, requests side by side were as fast as requests
that shared runs.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from dogsnap.errors import InvalidArgument, Unavailable
from dogsnap.message_files import add_messages
from dogsnap.serving.tensors.signatures import Arrays

log = logging.getLogger("dogsnap.batching")

Run = Callable[[Arrays], Arrays]

USED = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
MESSAGES = Path(__file__).with_name("batching.binpb")


@dataclass(frozen=True)
class BatchingParameters:
    """How requests share runs; the defaults are TensorFlow Serving's.

    `max_batch_size`: rows of a run; a request of more runs alone.
    `batch_timeout_micros`: how long the first request of a run waits for
    others. `max_enqueued_batches`: full batches that may wait.
    `num_batch_threads`: runs at the same time. `allowed_batch_sizes`: a run has
    one of these sizes, filled up with copies of its last row; empty: any size.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    allowed_batch_sizes: Sequence[int] = ()

    @classmethod
    def read(cls, file: Path) -> "BatchingParameters":
        """The parameters in `file`, in protobuf's text format.

        Raises InvalidArgument naming what does not work.
        """
        pool = DescriptorPool()
        pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
        described = add_messages(MESSAGES, pool).FindMessageTypeByName("dogsnap.BatchingParameters")
        message: Any = GetMessageClass(described)()
        try:
            text_format.Parse(file.read_text(encoding="utf-8"), message)
        except (text_format.ParseError, OSError, UnicodeDecodeError) as error:
            expected = "expected TensorFlow Serving's BatchingParameters as text"
            raise InvalidArgument(f"{file}: {expected}: {error}") from error
        if message.pad_variable_length_inputs:
            raise InvalidArgument(
                f"{file}: pad_variable_length_inputs is not supported; leave it out: "
                "requests of other shapes run by themselves"
            )
        given = {name: getattr(message, name).value for name in USED if message.HasField(name)}
        if message.HasField("max_execution_batch_size"):
            given["max_batch_size"] = message.max_execution_batch_size.value
        sizes = list(message.allowed_batch_sizes)
        parameters = cls(**given, allowed_batch_sizes=tuple(sizes))
        most = parameters.max_batch_size
        timeout = parameters.batch_timeout_micros
        if (
            min(most, parameters.max_enqueued_batches, parameters.num_batch_threads) < 1
            or timeout < 0
        ):
            raise InvalidArgument(
                f"{file}: expected numbers of at least 1, and a batch_timeout_micros of at least 0"
            )
        if sizes and (sizes != sorted(set(sizes)) or sizes[0] < 1 or sizes[-1] != most):
            raise InvalidArgument(
                f"{file}: allowed_batch_sizes are {sizes}; expected rising numbers that "
                f"end with max_batch_size, {most}"
            )
        return parameters


@dataclass(eq=False)
class _Task:
    """One request.

    `shapes`: of a row of each input; only equal ones share a run. `outputs`:
    None where the run has failed.
    """

    inputs: Arrays
    rows: int
    shapes: tuple[Any, ...]
    arrived: float
    outputs: Future[Arrays | None] = field(default_factory=Future)


class Batcher:
    """Runs one signature for requests that come at the same time.

    Thread-safe, and without threads of its own.

    The first waiting request that gets a place runs for all; where that fails,
    each runs again, so that a bad one fails alone.
    """

    def __init__(
        self,
        run: Run,
        parameters: BatchingParameters,
        on_run: Callable[[int], None] = lambda rows: None,
    ):
        """`on_run` is called before each run with its rows, without those that
        fill it up to an allowed size.
        """
        self._on_run = on_run
        self._parameters = parameters
        self._run_network = run
        self._places = threading.Semaphore(parameters.num_batch_threads)
        self._changed = threading.Condition()
        self._waiting: list[_Task] = []

    def run(self, inputs: Arrays) -> Arrays:
        """The outputs, each with a first dimension of rows.

        Raises what running them raises, Unavailable if too many wait.
        """
        arrays = {alias: np.asarray(value) for alias, value in inputs.items()}
        rows = {array.shape[0] if array.ndim else 0 for array in arrays.values()}
        if len(rows) != 1 or not 0 < max(rows) <= self._parameters.max_batch_size:
            return self._run(inputs, max(rows))
        shapes = tuple((alias, array.shape[1:]) for alias, array in sorted(arrays.items()))
        task = _Task(arrays, rows.pop(), shapes, time.monotonic())
        most = self._parameters.max_enqueued_batches * self._parameters.max_batch_size
        with self._changed:
            if _rows(self._waiting) + task.rows > most:
                raise Unavailable(
                    f"{most} rows wait for a run already (max_enqueued_batches); try again"
                )
            self._waiting.append(task)
            self._changed.notify_all()
        with self._places:
            batch = self._batch_of(task)
            if len(batch) == 1 and not self._parameters.allowed_batch_sizes:
                return self._run(inputs, task.rows)
            if batch:
                self._share(batch)
        outputs = task.outputs.result()
        return self._run(inputs, task.rows) if outputs is None else outputs

    def _run(self, inputs: Arrays, rows: int) -> Arrays:
        self._on_run(rows)
        return self._run_network(inputs)

    def _batch_of(self, task: _Task) -> list[_Task]:
        """The waiting requests that share a run with `task`; none if another
        run has taken it.
        """
        with self._changed:
            left = task.arrived + self._parameters.batch_timeout_micros / 1e6 - time.monotonic()
            if left > 0:
                most = self._parameters.max_batch_size
                self._changed.wait_for(
                    lambda: task not in self._waiting or _rows(self._fitting(task)) >= most, left
                )
            if task not in self._waiting:
                return []
            batch = self._fitting(task)
            self._waiting = [waiting for waiting in self._waiting if waiting not in batch]
            self._changed.notify_all()
            return batch

    def _fitting(self, task: _Task) -> list[_Task]:
        batch = [task]
        rows = task.rows
        for other in self._waiting:
            together = rows + other.rows
            if (
                other is not task
                and other.shapes == task.shapes
                and together <= self._parameters.max_batch_size
            ):
                batch.append(other)
                rows = together
        return batch

    def _share(self, batch: Sequence[_Task]) -> None:
        """Run once and give each request its rows, or None where that fails.

        Wakes all of them, whatever happens.
        """
        try:
            inputs, size = self._together(batch)
            outputs = self._run(inputs, _rows(batch))
            # An output without a row for each row of the inputs can only be told for
            # each request by itself.
            if all(np.shape(value)[:1] == (size,) for value in outputs.values()) and outputs:
                ends = np.cumsum([task.rows for task in batch])
                for task, end in zip(batch, ends, strict=True):
                    task.outputs.set_result(
                        {alias: value[end - task.rows : end] for alias, value in outputs.items()}
                    )
        # A runtime can raise anything; each request gets its own error when it runs alone.
        except Exception as error:
            log.info(
                "a run of %d requests failed, so that each runs by itself: %s", len(batch), error
            )
        finally:
            for task in batch:
                if not task.outputs.done():
                    task.outputs.set_result(None)

    def _together(self, batch: Sequence[_Task]) -> tuple[Arrays, int]:
        """The inputs of all, one after the other, and copies of the last row up
        to an allowed size; and that size.
        """
        rows = _rows(batch)
        allowed = self._parameters.allowed_batch_sizes
        size = next((size for size in allowed if size >= rows), rows)
        inputs = {}
        for alias, values in batch[-1].inputs.items():
            parts = [task.inputs[alias] for task in batch]
            padding = [values[-1:]] * (size - rows)
            inputs[alias] = np.concatenate(parts + padding)
        return inputs, size


def _rows(tasks: Sequence[_Task]) -> int:
    return sum(task.rows for task in tasks)
