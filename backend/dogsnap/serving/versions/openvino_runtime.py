"""Runs a version's network in OpenVINO, if the version has a copy for it;
TensorFlow runs everything else.
"""

import heapq
import itertools
import json
import logging
import math
import mmap
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import tensorflow as tf

from dogsnap import processor
from dogsnap.serving.execution.executor import DEADLINE
from dogsnap.serving.photos.preprocessing import ROWS
from dogsnap.serving.tensors.signatures import Arrays
from dogsnap.serving.versions import checksums, low_priority
from dogsnap.serving.versions.graph_functions import GraphFunction, GraphFunctions

log = logging.getLogger("dogsnap.runtimes")

FOLDER = Path("assets.extra") / "runtime"  # ignored by TensorFlow Serving
MANIFEST, NETWORK, AROUND = "runtime.json", "network.xml", "around"
BEFORE, AGAIN, AFTER = "before_", "again_", "after_"
PLAN, COMBINED, SECOND = "plan", "combined", "second_"
PICTURE = "picture"  # the decoded photo
TENSORFLOW, OPENVINO = "tensorflow", "openvino"
EXACT, BFLOAT16, INT8 = "f32", "bf16", "int8"  # OpenVINO's names of the precisions
MOST_STREAMS = 8  # images in the network at the same time, each of which needs memory
THREADS_A_STREAM = 4
# Of a constant's values, in a description in OpenVINO's format.
PLACE = re.compile(rb'offset="(\d+)" size="(\d+)"')
ALIGNMENT = 64  # bytes, as OpenVINO aligns what it allocates

Run = Callable[..., Mapping[str, Any]]  # inputs by alias, as keyword arguments; outputs by alias


class IncompatibleNetwork(ValueError):
    """OpenVINO cannot run this version here; the message says why."""


@dataclass(frozen=True)
class NetworkManifest:
    """What an export measured and wrote into runtime.json.

    `precision`: EXACT, BFLOAT16 or INT8. `speedup`: over TensorFlow;
    `compared`: that of each precision that was measured. `largest_difference`:
    between their answers, at most `tolerance`. `measured_by`: programs and
    processor. `outputs`: of the network, in its order. `signatures`: the
    outputs of each. `grey`: the outputs for a grey image. `weight_bits`: of the
    weights of an int8 network; a manifest of earlier releases does not say, and
    may mean 8.
    """

    precision: str
    speedup: float
    largest_difference: float
    tolerance: float
    measured_by: str
    outputs: Sequence[str]
    signatures: Mapping[str, Sequence[str]]
    grey: Mapping[str, Any]
    compared: Mapping[str, float] = field(default_factory=dict)
    weight_bits: int = 8

    @classmethod
    def read(cls, folder: Path) -> "NetworkManifest":
        """Raises IncompatibleNetwork for a file that `write` has not written."""
        try:
            return cls(**json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
        except (OSError, TypeError, ValueError) as error:
            raise IncompatibleNetwork(f"{folder / MANIFEST} cannot be read: {error}") from error

    def check_processor(self) -> None:
        """Raises IncompatibleNetwork for an int8 network whose sums overflow
        here: the self-test on one image may not show it.
        """
        most = processor.int8_weight_bits()
        if self.precision == INT8 and self.weight_bits > most:
            raise IncompatibleNetwork(
                f"its int8 weights have {self.weight_bits} bits, expected at most "
                f"{most} on this processor "
                f"({processor.name()}), which has no VNNI; build the version here to "
                "have it in int8"
            )

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def summary(self) -> dict[str, Any]:
        reason = f"{self.precision} is {self.speedup:g} times as fast as TensorFlow"
        others = []
        for name, speedup in self.compared.items():
            if name != self.precision:
                others.append(f"{name} {speedup:g}")
        if others:
            reason += f"; measured too: {', '.join(others)}"
        return {
            "name": OPENVINO,
            "precision": self.precision,
            "speedup": self.speedup,
            "largest_difference": self.largest_difference,
            "measured_by": self.measured_by,
            "reason": reason,
        }


def load(version: Path, identity: object) -> "tuple[Accelerated | None, dict[str, Any]]":
    """The version's signatures in OpenVINO, None if TensorFlow has to run them;
    and the runtime for `/api/models`.
    """
    if not (version / FOLDER).is_dir():
        return None, {"name": TENSORFLOW}
    try:
        if tf.config.list_physical_devices("GPU"):
            raise IncompatibleNetwork("TensorFlow has a GPU here")
        accelerated = Accelerated(version / FOLDER)
    # E.g. exported by another OpenVINO or for another processor: TensorFlow can run it.
    except Exception as error:
        reason, *_ = (str(error).strip() or type(error).__name__).splitlines()
        log.warning("%s runs in TensorFlow, not in OpenVINO: %s", identity, reason)
        return None, {"name": TENSORFLOW, "in_place_of": OPENVINO, "reason": reason}
    return accelerated, accelerated.manifest.summary()


class Accelerated:
    """The signatures of a version, each in three steps: TensorFlow, the network
    in OpenVINO, TensorFlow.
    """

    def __init__(self, folder: Path):
        """Raises IncompatibleNetwork, or what OpenVINO raises, if it cannot run
        the network or fails the self-test.
        """
        self.manifest = NetworkManifest.read(folder)
        self.manifest.check_processor()
        self._network = shared_network(folder, self.manifest)
        self._steps = GraphFunctions(folder / AROUND)
        self.signatures: dict[str, Run] = {}
        for name, outputs in self.manifest.signatures.items():
            self.signatures[name] = partial(self._run, name, outputs)

    def _run(self, name: str, outputs: Sequence[str], /, **inputs: tf.Tensor) -> Mapping[str, Any]:
        (alias,) = inputs
        before, again = self._steps.get(BEFORE + alias), self._steps.get(AGAIN + alias)
        decoded = before(inputs) if before else dict(inputs)
        picture = {PICTURE: decoded.pop(PICTURE)} if PICTURE in decoded else {}
        (images,) = decoded.values()
        answers = self._network.run(images.numpy())
        if again:
            answers = self._after_second_pass(again, {**inputs, **picture}, answers)
        after = self._steps.get(AFTER + name)
        if after:
            return after(answers)
        return {output: answers[output] for output in outputs}

    def _after_second_pass(
        self, again: GraphFunction, photos: Mapping[str, tf.Tensor], first: Arrays
    ) -> Arrays:
        """Run the network on the windows that `again` cuts out of the photos,
        perhaps none, and combine both answers.
        """
        planned = _run_step(self._steps[PLAN], first)
        second: Arrays = {name: value[:0] for name, value in first.items()}
        if len(planned[ROWS]):
            (images,) = _run_step(again, {**planned, **photos}).values()
            second = self._network.run(images)
        seen = {**planned, **first}
        for name, value in second.items():
            seen[SECOND + name] = value
        return _run_step(self._steps[COMBINED], seen)


def _run_step(step: GraphFunction, known: Mapping[str, Any]) -> Arrays:
    return {name: value.numpy() for name, value in step(known).items()}


class InferRequests:
    """OpenVINO's inference requests of compiled networks, each for one image at a
    time. Of several that are idle the first is taken.

    The one that becomes idle goes to the waiting image whose deadline comes
    first: a photo's second pass does not wait behind photos that came later, so
    that the slowest answers take less time.
    """

    def __init__(self, requests: Sequence[Any]):
        self._requests = requests
        self._idle = list(range(len(requests)))  # a heap
        self._waiting: list[tuple[float, int, Future[Any]]] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @contextmanager
    def idle(self, deadline: float) -> Iterator[Any]:
        """Wait for an idle request; `deadline`: a time of time.monotonic(),
        math.inf for none.
        """
        place = self._take(deadline)
        try:
            yield self._requests[place]
        finally:
            self._give_back(place)

    def _take(self, deadline: float) -> int:
        with self._lock:
            if self._idle:
                return heapq.heappop(self._idle)
            turn: Future[int] = Future()
            heapq.heappush(self._waiting, (deadline, next(self._numbers), turn))
        return turn.result()

    def _give_back(self, place: int) -> None:
        with self._lock:
            if self._waiting:
                *_, turn = heapq.heappop(self._waiting)
                turn.set_result(place)
            else:
                heapq.heappush(self._idle, place)


class Network:
    """A network compiled for this processor: one copy for all threads and for
    all versions with the same network.

    Lab note, Inception v3 on two cores, ms per photo with base64 and decoding,
    the best of seven alternating rounds; int8 is the network of version 3
    alone, on a processor with VNNI:

                               float32, 1 caller   8   bfloat16, 1   8      int8, 1   8
    one stream of two threads  46.6              48.9  17.5          15.9   20        20
    two streams of one thread  85.5              44.3  22.1          10.9   36        18

    So concurrent images get one core each, and a single image gets all cores by
    a second compiled network. Where there are two cores, that is one of two
    streams: OpenVINO copies the weights once more for a network of several
    streams (33 MB in int8), and eight callers wait no longer for one of two
    threads and one of one. With pinned threads (OpenVINO's default) it took 1.6
    times as long beside another program.

    `one_caller`: images of concurrent callers, or of a batch, run one after the
    other; compiles in half the time.
    """

    def __init__(
        self, file: Path, precision: str, outputs: Sequence[str], one_caller: bool = False
    ):
        """`file`: the network in OpenVINO's format, with its weights beside it."""
        openvino = import_openvino()
        description, mapped = read_network(file)
        tensor = openvino.Tensor(np.frombuffer(mapped, np.uint8), shared_memory=True)
        core = openvino.Core()
        model = core.read_model(description, tensor)
        self.shape = tuple(model.input(0).get_shape())[1:]
        self.precision, self._outputs = precision, outputs
        streams = 1 if one_caller else min(processor.cores(), MOST_STREAMS)
        on_all_cores = _requests(core, model, precision, 1, processor.cores())
        self._alone = self._together = InferRequests(on_all_cores)
        if streams == 2:
            others = _requests(core, model, precision, 1, 1)
            self._alone = self._together = InferRequests([*on_all_cores, *others])
        elif streams > 2:
            others = _requests(core, model, precision, streams, processor.cores())
            self._together = InferRequests(others)
        self._streams = streams
        # What was compiled has the weights in an order of its own; it refers to these all the same.
        mapped.madvise(mmap.MADV_DONTNEED)
        self._mapped = mapped
        # Of the images of batches: with more than one for each stream, the earliest
        # deadline goes first.
        count = THREADS_A_STREAM * streams
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="network")
        started = threading.Barrier(count + 1)  # now: a warm-up would give them its low priority
        for _ in range(count):
            self._threads.submit(started.wait)
        started.wait()
        self._running, self._lock = 0, threading.Lock()

    def run(self, images: np.ndarray) -> Arrays:
        """Images float32 (n, height, width, channels) -> each output (n, ...).

        Images run one at a time, so that one costs the same in a batch of any size.
        """
        seen = images if len(images) else np.zeros((1, *self.shape), np.float32)
        parts = list(seen[:, np.newaxis])
        deadline = DEADLINE.get(math.inf)
        with self._lock:
            self._running += 1
            is_only_caller = self._running == 1
        try:
            rows = self._rows(parts, deadline, is_only_caller)
        finally:
            with self._lock:
                self._running -= 1
        outputs = {}
        for index, name in enumerate(self._outputs):
            values = [row[index] for row in rows]
            outputs[name] = np.stack(values)[: len(images)]
        return outputs

    def run_grey(self) -> Arrays:
        """The outputs for one grey image, which an export records."""
        return self.run(np.full((1, *self.shape), 0.5, np.float32))

    def _rows(
        self, parts: Sequence[np.ndarray], deadline: float, is_only_caller: bool
    ) -> list[list[np.ndarray]]:
        """Side by side as far as there are streams; a last one that is left
        over takes all cores, if nobody else needs them.
        """
        *others, last = parts
        run = partial(self._row, self._together, deadline)
        futures = [self._threads.submit(run, image) for image in others]
        if is_only_caller and len(others) % self._streams == 0:
            wait(futures)
            run = partial(self._row, self._alone, deadline)
        row = run(last)
        rows = [future.result() for future in futures]
        return [*rows, row]

    def _row(self, requests: InferRequests, deadline: float, image: np.ndarray) -> list[np.ndarray]:
        with requests.idle(deadline) as request:
            return [output[0] for output in request.infer([image], share_inputs=True).to_tuple()]


def read_network(file: Path) -> tuple[bytes, mmap.mmap]:
    """A network's description, and its weights in a copy that nobody can cut short:
    reading on would end the process.

    In the copy small constants come first. Each run reads some of them, and Linux maps
    64 KiB around what is read: of version 3's weights 0.4 MB, where it was 7.5 in the
    file's order. Raises IncompatibleNetwork.
    """
    description = file.read_bytes()
    found = {(int(size), int(offset)) for offset, size in PLACE.findall(description)}
    offsets = {}
    with file.with_suffix(".bin").open("rb") as weights, TemporaryFile() as copy:
        for size, offset in sorted(found):
            weights.seek(offset)
            values = weights.read(size)
            if len(values) != size:
                raise IncompatibleNetwork(f"{weights.name} is too short; export the version again")
            copy.write(bytes(-copy.tell() % ALIGNMENT))
            offsets[offset, size] = copy.tell()
            copy.write(values)
        copy.flush()
        mapped = mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_COPY)

    def moved(place: re.Match[bytes]) -> bytes:
        offset, size = map(int, place.groups())
        return b'offset="%d" size="%d"' % (offsets[offset, size], size)

    return PLACE.sub(moved, description), mapped


def _requests(core: Any, model: Any, precision: str, streams: int, threads: int) -> list[Any]:
    """The network compiled for `streams` concurrent images on `threads` in all, and
    an inference request for each, run once as warm-up.

    `openvino.AsyncInferQueue` (2026.4) is no substitute: several threads that
    feed one wait for ever, and after an error in a callback it ends the
    process.
    """
    of_the_rest = EXACT if precision == INT8 else precision  # of what is not quantised
    settings = {
        "INFERENCE_PRECISION_HINT": of_the_rest,
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": streams,
        "ENABLE_CPU_PINNING": False,
    }
    if precision == INT8:
        # Small operations that OpenVINO compiles together, its subgraphs, take 0.2 MB
        # each, 8 in each copy of version 3, and save no time there. In transformers, in
        # other precisions, they may. OpenVINO does not document the setting.
        settings["SNIPPETS_MODE"] = "DISABLE"
        # Else what dense layers with int8 weights take would be rounded to 8 bits.
        settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
    # The threads of streams begin with a network that is compiled in no time, and are
    # taken over from it: the priority of the next call is not for them.
    core.compile_model(_smallest_model(), "CPU", settings)
    compiled = low_priority.run(core.compile_model, model, "CPU", settings)
    requests = [compiled.create_infer_request() for _ in range(streams)]
    for request in requests:
        request.infer([np.zeros(tuple(model.input(0).get_shape()), np.float32)])
    return requests


def _smallest_model() -> Any:
    from openvino import Model, opset13

    image = opset13.parameter([1], np.float32)
    return Model([opset13.relu(image)], [image])


_NETWORKS: "weakref.WeakValueDictionary[tuple[str, str], Network]" = weakref.WeakValueDictionary()
_LOADING = threading.Lock()


def shared_network(folder: Path, manifest: NetworkManifest) -> Network:
    """The network of a version, shared with others that have the same files.

    Raises IncompatibleNetwork as the self-test.
    """
    file = folder / NETWORK
    files = (file, file.with_suffix(".bin"))
    content = "".join(low_priority.run(checksums.digest, each) for each in files)
    with _LOADING:
        network = _NETWORKS.get((content, manifest.precision))
        if network is None:
            network = Network(file, manifest.precision, manifest.outputs)
            self_test(network, manifest)
            _NETWORKS[content, manifest.precision] = network
        return network


def self_test(network: Network, manifest: NetworkManifest) -> None:
    """Raises IncompatibleNetwork unless the outputs for a grey image equal
    those recorded at the export. Also a warm-up.
    """
    answers = network.run_grey()
    for name, expected in manifest.grey.items():
        difference = float(np.abs(answers[name] - np.asarray(expected)).max())
        if not difference <= manifest.tolerance:
            found = f"{name} differs from the output recorded at the export by {difference:.2g}"
            raise IncompatibleNetwork(
                f"the self-test failed: {found}, expected at most {manifest.tolerance:g}"
            )


def import_openvino() -> Any:
    """openvino without its model converter, which sends telemetry when
    imported. Raises IncompatibleNetwork if not installed.
    """
    converter = "openvino.tools.ovc"
    left_out = converter not in sys.modules
    if left_out:
        sys.modules[converter] = None  # type: ignore[assignment]
    try:
        import openvino
    except ImportError as error:
        raise IncompatibleNetwork(f"OpenVINO is not installed ({error})") from error
    finally:
        if left_out:
            del sys.modules[converter]
    return openvino
