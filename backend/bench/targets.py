"""The performance targets of this server and how each is measured, as ratios within one run where possible."""

import base64
import importlib.util
import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests
from PIL import Image

from backend.bench import photos, processes, servers
from backend.bench.machine import multiplies_int8
from backend.bench.pareto_front import ParetoPoint, sample, top1
from backend.bench.remote import CannotMeasure, Target, base64_text, find
from backend.bench.rounds import Load, Point, interleaved, load, point
from backend.bench.sweep import Shape, sweep

if TYPE_CHECKING:
    from backend.training.dataset import Example

PLAIN, FAST = 2, 3  # the versions that take base64 text: the merged one, and the fast one if it exists
CLIENTS = 16
CLIENTS_GROWTH = (1, 4, 16, 64)
BATCHES = (1, 4, 8, 32)
RAW_CALLERS = (1, 8)  # one, and as many as the server's run threads; the better one counts
OVERLOAD = 8  # times the capacity
ENDURED_REQUESTS = 10_000
ENDURED_SECONDS = 330  # a slow version completes fewer requests; the table gives the number
SETTLED = 1_000  # requests after which memory is stable
BIG_PHOTOS = 12
FAST_WITH_INT8, FAST_WITHOUT_INT8 = 3.5, 1.9  # version 3 over version 2
FAST_THROUGHPUT = f"version 3 in one pass / version 2, {CLIENTS} clients"
ONE_PASS = 4  # the number of version 3 without its second pass, where both are measured
SECOND_PASS = 1.7  # time with the second pass over that without
TIMED_PHOTOS = 100  # at most, of the test list, for the cost of the second pass
NO_PHOTOS = "photos are missing: --data stanford_dogs (make bench DATA=...)"
TOP1_LOSS = 0.7  # points of version 3 below version 2
STARTS = 2.5  # imports of TensorFlow from the command to a server that answers
DECODED_SIDE = 374  # pixels at least, down to which a photo may be scaled while decoding: 1.25 times the network's
BIG_TO_DECODING = 1.6  # the cost of a photo of 12 megapixels over that of decoding it
JUDGED_PHOTOS = 1_000  # of the test list, for the Pareto front


@dataclass(frozen=True)
class PerformanceTarget:
    """A target: `asked` is the minimum (`at_least`) or the maximum.

    `measured` is None if it could not be measured; `note` then says why.
    """

    part: str
    what: str
    asked: float
    at_least: bool
    measured: float | None
    unit: str = ""
    note: str = ""

    def met(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.asked if self.at_least else self.measured <= self.asked


@dataclass
class Bench:
    """The servers of a run, each started when it is first needed and stopped at the end.

    `data`: photos in the Stanford Dogs layout; without them no accuracy is measured. `points` and `places` are the results.
    """

    models: Path
    seconds: float
    rounds: int
    say: Callable[[str], None]
    data: Path | None = None
    points: dict[str, list[Point]] = field(default_factory=dict)
    places: list[ParetoPoint] = field(default_factory=list)

    def __enter__(self) -> "Bench":
        self._stack = ExitStack()
        self.folder = self._stack.enter_context(servers.Models(self.models, 1, PLAIN, FAST))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def photos(self) -> list[bytes]:
        return photos.made()

    @cached_property
    def examples(self) -> "list[Example]":
        """Photos with their breeds; none without `data`. Raises CannotMeasure."""
        return sample(self.data, JUDGED_PHOTOS) if self.data else []

    @cached_property
    def texts(self) -> list[str]:
        return [base64_text(photo) for photo in self.photos]

    @cached_property
    def bodies(self) -> list[str]:
        return [json.dumps({"instances": [text]}) for text in self.texts]

    def target(self, version: int) -> Target:
        return Target(servers.predict_url(self.server, version), "image", "DT_STRING")

    @cached_property
    def server(self) -> servers.Process:
        """The server for most parts, with all versions."""
        return self._stack.enter_context(servers.dogsnap(self.folder.path))

    @cached_property
    def lit_serve(self) -> servers.Process:
        return self._stack.enter_context(servers.lit_serve(self.folder.version(PLAIN)))

    @cached_property
    def session(self) -> servers.Process:
        return self._stack.enter_context(servers.session(self.folder.version(PLAIN)))

    @cached_property
    def raw_tensorflow(self) -> "Raw":
        return self._raw("tensorflow")

    @cached_property
    def raw_serving(self) -> "Raw":
        return self._raw("serving")

    def _raw(self, runtime: str) -> "Raw":
        raw = Raw(runtime, self.folder.version(PLAIN), self.texts)
        self._stack.callback(raw.close)
        return raw

    def load(self, version: int = PLAIN, clients: int = CLIENTS, **job: Any) -> Load:
        """Load on a version of the server for one round."""
        job = {"seconds": self.seconds, **job}
        return load(servers.predict_url(self.server, version), self.bodies, clients=clients, **job)

    def precision(self, version: int) -> str:
        """What the server says about how it runs a version."""
        models = requests.get(f"{self.server.url}/api/models", timeout=60).json()["models"]
        (runtime,) = [each["runtime"] for each in models[0]["versions"] if each["version"] == version]
        return f"{runtime['name']} {runtime.get('precision', '')}".strip()

    def keep(self, name: str, each: Point) -> Point:
        self.points.setdefault(name, []).append(each)
        return each


class Raw:
    """The bare runtime in a separate process, which computes only on request."""

    def __init__(self, runtime: str, saved_model: Path, texts: Sequence[str]):
        command = [sys.executable, "-m", "backend.bench.programs.bare_runtime", runtime, str(saved_model)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._send(list(texts))
        self.measure(1, 1.0)  # warm-up

    def measure(self, callers: int, seconds: float) -> dict[str, float]:
        self._send({"callers": callers, "seconds": seconds})
        return json.loads(self._process.stdout.readline())

    def best(self, seconds: float) -> float:
        """Photos per second with the best number of callers."""
        return max(self.measure(callers, seconds)["throughput"] for callers in RAW_CALLERS)

    def _send(self, value: Any) -> None:
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)


# -- the parts ---------------------------------------------------------------------------------------------------------


def start(bench: Bench) -> Iterator[PerformanceTarget]:
    """Time from the command to the first answer, and the memory of the versions."""
    imports, readies, firsts, residents, added = [], [], [], [], []
    for _ in range(2):
        imports.append(_import_seconds())
        with servers.Models(bench.models, 1, PLAIN) as folder, servers.dogsnap(folder.path) as server:
            readies.append(server.ready_seconds)
            firsts.append(_first_to_median(server, bench))
            residents.append(processes.resident_mb(server.worker()))
    if bench.folder.has(FAST):
        with servers.Models(bench.models, 1, PLAIN) as folder, servers.dogsnap(folder.path) as server:
            added.append(_added_by_fast(bench, server, folder))
    ready, imported = statistics.median(readies), statistics.median(imports)
    note = f"{ready:.1f} and {imported:.1f} s"
    what = "start to ready with versions 1 and 2 / TensorFlow's import"
    yield PerformanceTarget("start", what, STARTS, False, ready / imported, "", note)
    yield PerformanceTarget("start", "first request after ready / median", 1.2, False, statistics.median(firsts))
    yield PerformanceTarget("memory", "resident, versions 1 and 2 loaded", 1200.0, False, max(residents), "MB")
    yield PerformanceTarget(
        "memory", "added by version 3", 150.0, False, added[0] if added else None, "MB", _no_fast(bench)
    )


def _import_seconds() -> float:
    """The import of TensorFlow in a process of its own, in seconds."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", "import tensorflow"], stderr=subprocess.DEVNULL, check=True)
    return time.monotonic() - begun


def _first_to_median(server: servers.Process, bench: Bench) -> float:
    times = load(servers.predict_url(server, PLAIN), bench.bodies, clients=1, requests=31).good()
    return times[0] / statistics.median(times[1:])


def _added_by_fast(bench: Bench, server: servers.Process, folder: servers.Models) -> float:
    load(servers.predict_url(server, PLAIN), bench.bodies, clients=CLIENTS, seconds=bench.seconds)
    before = processes.resident_mb(server.worker())
    folder.add(FAST)
    _wait_for(server, FAST)
    load(servers.predict_url(server, FAST), bench.bodies, clients=CLIENTS, seconds=bench.seconds)
    return processes.resident_mb(server.worker()) - before


def _wait_for(server: servers.Process, version: int) -> None:
    end = time.monotonic() + servers.START_SECONDS
    while not servers.is_available(server, version) and time.monotonic() < end:
        time.sleep(0.2)


def throughput(bench: Bench) -> Iterator[PerformanceTarget]:
    """Version 2 with 16 clients against the bare runtime and other servers, alternating."""
    others: dict[str, Callable[..., Load]] = {"session": partial(_session_load, bench)}
    if importlib.util.find_spec("litserve"):
        others["litserve"] = partial(_litserve_load, bench)
    for each in (bench.load, *others.values()):
        each(seconds=2.0)  # warm
    bare = partial(bench.raw_tensorflow.best, bench.seconds)
    runs = interleaved({"ours": bench.load, "raw": bare, **others}, bench.rounds)
    ours, raw = bench.keep("version 2", point(runs["ours"], CLIENTS)).throughput, statistics.median(runs["raw"])
    bench.say(f"version 2: {ours:.1f} photos a second; TensorFlow's own call: {raw:.1f}")
    yield PerformanceTarget("throughput", "version 2, 16 clients / TensorFlow's own call", 0.97, True, ours / raw)
    session = bench.keep("Simple TensorFlow Serving's steps", point(runs["session"], CLIENTS))
    note = "a stand-in with its steps; the package itself starts with no Flask since 2.3"
    yield _against("Simple TensorFlow Serving", ours, session, note)
    if "litserve" not in runs:
        yield PerformanceTarget(
            "throughput", "version 2 / LitServe", 1.25, True, None, "", "LitServe is missing: `make bench` installs it"
        )
        return
    yield _against("LitServe", ours, bench.keep("LitServe", point(runs["litserve"], CLIENTS)))


def _against(name: str, ours: float, other: Point, note: str = "") -> PerformanceTarget:
    return PerformanceTarget(
        "throughput", f"version 2 / {name}, 16 clients", 1.25, True, ours / other.throughput, "", note
    )


def _session_load(bench: Bench, **job: Any) -> Load:
    bodies = [json.dumps({"data": {"image": [text]}}) for text in bench.texts]
    return load(bench.session.url + "/", bodies, clients=CLIENTS, **{"seconds": bench.seconds, **job})


def _litserve_load(bench: Bench, **job: Any) -> Load:
    url = bench.lit_serve.url + "/predict"
    return load(url, bench.bodies, clients=CLIENTS, **{"seconds": bench.seconds, **job})


def fast(bench: Bench) -> Iterator[PerformanceTarget]:
    """Version 3 against version 2, both in one pass; then what the second pass of version 3 costs."""
    least = FAST_WITH_INT8 if multiplies_int8() else FAST_WITHOUT_INT8
    if not bench.folder.has(FAST):
        yield PerformanceTarget("fast", FAST_THROUGHPUT, least, True, None, "", _no_fast(bench))
        return
    timed = bench.examples[:: -(-len(bench.examples) // TIMED_PHOTOS) or 1]
    with servers.Models(bench.models, PLAIN, FAST) as folder:
        try:
            folder.add_one_pass(ONE_PASS)
        except CannotMeasure as error:  # no precision is faster here: version 3 is float32 with a second pass
            yield PerformanceTarget("fast", FAST_THROUGHPUT, least, True, None, "", str(error))
            return
        with servers.dogsnap(folder.path) as server:
            found = _fast_points(server, bench)
            cost = _second_pass_cost(server, bench, timed) if timed else None
    for clients in (1, CLIENTS):
        bench.keep("version 3", found[FAST, clients])
    yield from _against_plain(bench, found, least)
    note = f"{len(timed)} photos" if timed else NO_PHOTOS
    always = found[FAST, 1].p50_ms / found[ONE_PASS, 1].p50_ms
    note += f"; the generated photos, which all get a second pass: {always:.2f}"
    yield PerformanceTarget(
        "fast", "mean time of version 3 / in one pass, one client", SECOND_PASS, False, cost, "", note
    )


def _against_plain(bench: Bench, found: dict[tuple[int, int], Point], least: float) -> Iterator[PerformanceTarget]:
    processor = "VNNI or AMX" if multiplies_int8() else "neither VNNI nor AMX"
    note = f"{bench.precision(FAST)}; the processor has {processor}"
    ratios = {
        FAST_THROUGHPUT: found[ONE_PASS, CLIENTS].throughput / found[PLAIN, CLIENTS].throughput,
        "median of one client, version 2 / version 3 in one pass": found[PLAIN, 1].p50_ms / found[ONE_PASS, 1].p50_ms,
    }
    for what, ratio in ratios.items():
        yield PerformanceTarget("fast", what, least, True, ratio, "", note)


def _fast_points(server: servers.Process, bench: Bench) -> dict[tuple[int, int], Point]:
    """Load by version and number of clients, in alternating rounds."""

    def one_round(version: int, clients: int, seconds: float = bench.seconds) -> Load:
        return load(servers.predict_url(server, version), bench.bodies, clients=clients, seconds=seconds)

    versions = PLAIN, ONE_PASS, FAST
    for version in versions:
        one_round(version, CLIENTS, 2.0)  # warm
    shapes = [(version, clients) for clients in (CLIENTS, 1) for version in versions]
    runs = interleaved({shape: partial(one_round, *shape) for shape in shapes}, bench.rounds)
    return {shape: point(runs[shape], shape[1]) for shape in shapes}


def _second_pass_cost(server: servers.Process, bench: Bench, examples: "Sequence[Example]") -> float:
    """The mean time of a photo with a second pass where version 3 is not certain, over that without."""
    bodies = [json.dumps({"instances": [base64_text(each.path.read_bytes())]}) for each in examples]

    def mean(version: int) -> float:
        url = servers.predict_url(server, version)
        return statistics.mean(load(url, bodies, clients=1, requests=len(bodies)).good())

    runs = interleaved({version: partial(mean, version) for version in (FAST, ONE_PASS)}, bench.rounds)
    return statistics.median(runs[FAST]) / statistics.median(runs[ONE_PASS])


def front(bench: Bench) -> Iterator[PerformanceTarget]:
    """Time and accuracy of every version that takes base64 text."""
    what = "top-1 of version 2 less that of version 3"
    if not bench.examples or not bench.folder.has(FAST):
        why = _no_fast(bench) or NO_PHOTOS
        yield PerformanceTarget("front", what, TOP1_LOSS, False, None, "points", why)
        return
    versions = bench.folder.numbers()
    with servers.Models(bench.models, *versions) as folder, servers.dogsnap(folder.path) as server:
        bench.places += _pareto_points(bench, dict(_text_targets(bench, server, versions)))
    right = {each.version: each.top1 for each in bench.places}
    note = f"{len(bench.examples)} photos of the test list"
    yield PerformanceTarget("front", what, TOP1_LOSS, False, 100 * (right[PLAIN] - right[FAST]), "points", note)


def _text_targets(bench: Bench, server: servers.Process, versions: Sequence[int]) -> Iterator[tuple[int, Target]]:
    for version in versions:
        try:
            target = find(server.url, servers.MODEL, version)
        except CannotMeasure as error:
            bench.say(f"version {version} is left out of the front: {error}")
            continue
        if target.dtype == "DT_STRING":
            yield version, target


def _pareto_points(bench: Bench, targets: dict[int, Target]) -> list[ParetoPoint]:
    """Time of each version in alternating rounds, then its accuracy."""

    def one_round(target: Target, seconds: float = bench.seconds) -> Load:
        return load(target.url, bench.bodies, clients=CLIENTS, seconds=seconds)

    for target in targets.values():
        one_round(target, 1.0)  # warm
    runs = interleaved({version: partial(one_round, target) for version, target in targets.items()}, bench.rounds)
    return [
        ParetoPoint(
            version, point(runs[version], CLIENTS).photo_ms(), top1(target, bench.examples), len(bench.examples)
        )
        for version, target in targets.items()
    ]


def latency(bench: Bench) -> Iterator[PerformanceTarget]:
    """Latency of one client against the bare call."""
    bench.load(clients=1, seconds=1.0)
    measures = {
        "ours": lambda: point([bench.load(clients=1)], 1).p50_ms,
        "raw": lambda: bench.raw_serving.measure(1, bench.seconds)["p50_ms"],
    }
    runs = {name: statistics.median(each) for name, each in interleaved(measures, bench.rounds).items()}
    bench.say(f"one client waits {runs['ours']:.1f} ms, the bare call takes {runs['raw']:.1f} ms")
    yield PerformanceTarget("latency", "p50 of one client / the bare call", 1.10, False, runs["ours"] / runs["raw"])


def photo(bench: Bench) -> Iterator[PerformanceTarget]:
    """The additional cost of a full-size phone photo, by the app's API and by TensorFlow Serving's REST API."""
    small, big = bench.photos[0], photos.from_phone()
    bench.say(f"the large photo has 12 megapixels and {len(big) / 1e6:.1f} MB")
    rest = bench.target(PLAIN)
    apis: dict[str, tuple[str, Callable[[bytes], str]]] = {
        "the app": (f"{bench.server.url}/api/classify", _app_body),
        "TensorFlow Serving REST": (rest.url, lambda each: rest.body([each])),
    }
    for name, (url, body) in apis.items():
        more, decoding, memory = _cost_of_big(bench, url, body(small), body(big), big)
        what = f"processor time of 12 megapixels more than of 299 x 299 / Pillow's for decoding them, {name}"
        note = f"{more:.0f} and {decoding:.0f} ms"
        yield PerformanceTarget("photo", what, BIG_TO_DECODING, False, more / decoding, "", note)
        yield PerformanceTarget("photo", f"memory for a request of 12 megapixels, {name}", 64.0, False, memory, "MB")


def _app_body(contents: bytes) -> str:
    return json.dumps({"image": base64.b64encode(contents).decode(), "version": PLAIN})


def _decoding_ms(photo: bytes) -> float:
    """Processor time in milliseconds that Pillow takes to decode a JPEG at the scale that the network needs."""
    begun = time.process_time()
    for _ in range(BIG_PHOTOS):
        image = Image.open(io.BytesIO(photo))
        image.draft("RGB", (DECODED_SIDE, DECODED_SIDE))
        image.load()
    return 1000 * (time.process_time() - begun) / BIG_PHOTOS


def _cost_of_big(bench: Bench, url: str, small: str, big: str, photo: bytes) -> tuple[float, float, float]:
    """Processor time of `big` over `small`, and of only decoding its photo, in milliseconds; peak memory over idle, in MB."""
    pid = bench.server.worker()

    def cost(body: str) -> float:
        before = processes.processor_seconds(pid)
        answers = load(url, [body], clients=1, requests=BIG_PHOTOS)
        if len(answers.good()) != BIG_PHOTOS:
            raise RuntimeError(f"{url} answered {answers.failed()} of {BIG_PHOTOS} photos with an error")
        return 1000 * (processes.processor_seconds(pid) - before) / BIG_PHOTOS

    cost(big)  # warm
    runs = interleaved(
        {"small": lambda: cost(small), "big": lambda: cost(big), "decoding": lambda: _decoding_ms(photo)}, bench.rounds
    )
    more = statistics.median(a - b for a, b in zip(runs["big"], runs["small"], strict=True))
    rest = processes.resident_mb(pid)
    processes.reset_peak(pid)
    cost(big)
    return more, statistics.median(runs["decoding"]), processes.peak_mb(pid) - rest


def growth(bench: Bench) -> Iterator[PerformanceTarget]:
    """Time per photo over numbers of clients and batch sizes."""
    clients = [(number, 1) for number in CLIENTS_GROWTH]
    batches = [(1, size) for size in BATCHES]
    calls = [1000 / bench.raw_serving.measure(callers, bench.seconds)["throughput"] for callers in RAW_CALLERS]
    bare = "the bare call, {} and {} callers: {:.1f} and {:.1f} ms".format(*RAW_CALLERS, *calls)
    yield _against_one(bench, "time a photo, 4 to 64 clients: worst / one client's", clients, bare)
    yield _against_one(bench, "time a photo, batches of 4 to 32: worst / one photo's", batches, bare)


def _against_one(bench: Bench, what: str, shapes: Sequence[Shape], bare: str) -> PerformanceTarget:
    """Load may make a photo cheaper, which then shares the cores better, but never more expensive."""
    found = sweep(bench.target(PLAIN), bench.photos, shapes, bench.seconds, bench.rounds)
    bench.points.setdefault("version 2", []).extend(found)
    one, *more = [each.photo_ms() for each in found]
    note = ", ".join(f"{max(each.clients, each.batch)}: {each.photo_ms():.1f} ms" for each in found)
    return PerformanceTarget("growth", what, 1.0, False, max(more) / one, "", f"{note}; {bare}")


def overload(bench: Bench) -> Iterator[PerformanceTarget]:
    """An open loop of more requests than can be answered, from a load generator on another core than the server's."""
    *servers_cores, senders_core = sorted(os.sched_getaffinity(0))
    with servers.Models(bench.models, PLAIN) as folder, ExitStack() as stack:
        with processes.on_cores(servers_cores or [senders_core]):
            server = stack.enter_context(servers.dogsnap(folder.path))
        stack.enter_context(processes.on_cores([senders_core]))
        rounds = [_flooded(servers.predict_url(server, PLAIN), bench) for _ in range(bench.rounds)]
    goodputs, floods = zip(*rounds, strict=True)
    answered, refused = sum(len(each.good()) for each in floods), sum(each.refused() for each in floods)
    failed = sum(each.failed() for each in floods)
    where = (
        f"the server has {len(servers_cores)} of {len(servers_cores) + 1} cores"
        if servers_cores
        else "one core for both"
    )
    note = f"{answered} answered, {refused} refused, {failed} failed; {where}"
    what = "goodput at 8 times the capacity / capacity, the sender on a core of its own"
    yield PerformanceTarget("overload", what, 0.95, True, statistics.median(goodputs), "", note)


def _flooded(url: str, bench: Bench) -> tuple[float, Load]:
    """Goodput / capacity (measured before and after), and the overload run."""

    def capacity() -> float:
        return point([load(url, bench.bodies, clients=CLIENTS, seconds=2 * bench.seconds)], CLIENTS).throughput

    before, seconds = capacity(), 4 * bench.seconds
    flood = load(url, bench.bodies, rate=OVERLOAD * before, seconds=seconds)
    return flood.good_between(seconds / 4, seconds) / ((before + capacity()) / 2), flood


def endurance(bench: Bench) -> Iterator[PerformanceTarget]:
    """Memory over many requests, with the fastest version."""
    version = FAST if bench.folder.has(FAST) else PLAIN
    pid = bench.server.worker()
    bench.load(version, requests=SETTLED, seconds=ENDURED_SECONDS)
    before = processes.resident_mb(pid)
    done = bench.load(version, requests=ENDURED_REQUESTS, seconds=ENDURED_SECONDS)
    note = f"version {version}; {done.failed()} failed, in {done.span():.0f} s"
    growth = processes.resident_mb(pid) / before
    yield PerformanceTarget(
        "endurance", f"memory after {len(done.good()):,} requests / before", 1.02, False, growth, "", note
    )


PARTS: dict[str, Callable[[Bench], Iterator[PerformanceTarget]]] = {
    part.__name__: part for part in (start, throughput, fast, front, latency, photo, growth, overload, endurance)
}


def _no_fast(bench: Bench) -> str:
    return "" if bench.folder.has(FAST) else "there is no version 3"


def check(bench: Bench) -> None:
    """Raises CannotMeasure if the versions or the photos are missing."""
    _ = bench.examples
    if not bench.folder.has(PLAIN):
        raise CannotMeasure(f"version {PLAIN} of {servers.MODEL} is not below {bench.models}; `make setup` builds it")


def measure(bench: Bench, parts: Sequence[str]) -> list[PerformanceTarget]:
    """Measure these parts in their order in PARTS. Raises CannotMeasure."""
    check(bench)
    found = []
    for name, part in PARTS.items():
        if name in parts:
            begun = time.monotonic()
            found += list(part(bench))
            bench.say(f"{name}: {time.monotonic() - begun:.0f} s")
    return found
