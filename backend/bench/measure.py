"""Measures the server against its targets, most of them ratios within one run;
`make bench`.
"""

import argparse
import base64
import http.client
import io
import itertools
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import requests
from dogsnap import processor
from PIL import Image

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MODEL = ROOT / "models" / "inception_v3"
# In this order: the first two measure a server that has answered nothing yet, the last
# one takes cores away from it.
PARTS = ("start", "memory", "mix", "throughput", "latency", "overload")
SIDE = 640  # pixels: the longest side that the app sends
JSON = {"Content-Type": "application/json"}


class Server:
    """`dogsnap serve` with versions 1 and 2 of a model, or another command with {port} in it."""

    def __init__(self, model: Path, command: tuple[object, ...] = (), ready: str = "/readyz"):
        self.model = model
        self.folder = tempfile.TemporaryDirectory()
        self.port, grpc_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.link(1)
        self.link(2)
        dogsnap = Path(sys.executable).with_name("dogsnap")
        serve: tuple[object, ...] = (dogsnap, "serve", "--models", self.folder.name)
        serve += ("--port", "{port}", "--grpc-port", grpc_port)
        words = [str(word).format(port=self.port) for word in command or serve]
        environ = {**os.environ, "XDG_STATE_HOME": self.folder.name}
        begun = time.monotonic()
        self.process = subprocess.Popen(
            words, env=environ, stderr=subprocess.DEVNULL, start_new_session=True
        )
        while not answers(self.url + ready):
            if self.process.poll() is not None or time.monotonic() > begun + 180:
                sys.exit(f"{' '.join(words)} did not start")
            time.sleep(0.02)
        self.start_seconds = time.monotonic() - begun

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(60)
        self.folder.cleanup()

    def link(self, version: int) -> None:
        """Offer a version; does nothing if it is offered."""
        folder = Path(self.folder.name) / "inception_v3"
        folder.mkdir(exist_ok=True)
        if not (folder / str(version)).exists():
            (folder / str(version)).symlink_to((self.model / str(version)).resolve())

    def add_version_3(self) -> None:
        """Offer it, and wait until it answers."""
        self.link(3)
        while not answers(self.predict_url(3).replace(":predict", "/metadata")):
            time.sleep(0.2)

    def predict_url(self, version: int) -> str:
        return f"{self.url}/v1/models/inception_v3/versions/{version}:predict"

    def keep_to(self, core: int) -> None:
        """Run all threads of the worker on one core from now on."""
        for thread in Path(f"/proc/{self.worker()}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})

    def worker(self) -> int:
        """The process of the worker, the first child of the master process."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def processor_seconds(self) -> float:
        """What the worker has used; other programs on the machine change it little."""
        clock = ~self.worker() << 3 | 2  # as clock_getcpuclockid(3) makes it on Linux
        return time.clock_gettime(clock)

    def resident_mb(self) -> float:
        """Memory of the worker."""
        status = Path(f"/proc/{self.worker()}/status").read_text()
        kibibytes = status.partition("VmRSS:")[2].split()[0]
        return int(kibibytes) * 1024 / 1e6


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).status_code == 200
    except requests.RequestException:
        return False


def ask(connection: http.client.HTTPConnection, url: str, body: bytes) -> tuple[float, int]:
    begun = time.perf_counter()
    connection.request("POST", urlsplit(url).path, body, JSON)
    response = connection.getresponse()
    response.read()
    return time.perf_counter() - begun, response.status


def load(url: str, bodies: list[bytes], clients: int, seconds: float = 0.0) -> list[float]:
    """The seconds of each answer, in a closed loop of `clients`; without
    `seconds`, of each body.
    """
    end = time.perf_counter() + seconds
    turn = iter(bodies) if not seconds else itertools.cycle(bodies)

    def ask_until_the_end(_: int) -> list[float]:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        times = []
        while not seconds or time.perf_counter() < end:
            body = next(turn, None)
            if body is None:
                break
            taken, status = ask(connection, url, body)
            if status != 200:
                sys.exit(f"{url} answered {status}")
            times.append(taken)
        return times

    with ThreadPoolExecutor(clients) as pool:
        return list(itertools.chain(*pool.map(ask_until_the_end, range(clients))))


def flood(url: str, bodies: list[bytes], rate: float, seconds: float) -> float:
    """Answers with 200 a second in the last three quarters of an open loop of
    `rate` requests.
    """
    begun = time.perf_counter()

    def ask_once(number: int) -> bool:
        time.sleep(max(0.0, begun + number / rate - time.perf_counter()))
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        _, status = ask(connection, url, bodies[number % len(bodies)])
        connection.close()
        return status == 200 and begun + seconds / 4 < time.perf_counter() < begun + seconds

    with ThreadPoolExecutor(256) as pool:
        return sum(pool.map(ask_once, range(int(rate * seconds)))) / (0.75 * seconds)


def draw_photos() -> list[Image.Image]:
    """Ten pictures: six of the drawn dog, which need one pass, and four of
    noise, which need more.
    """
    dog = Image.open(ROOT / "docs" / "dog.jpg").convert("RGB")
    pictures = []
    for number in range(10):
        generator = np.random.default_rng(number)
        if number % 5 in (1, 3):
            blocks = generator.normal(128, 50, (38, 50, 3)).clip(0, 255).astype(np.uint8)
            picture = Image.fromarray(blocks).resize((SIDE, 480))
        else:
            picture = dog.crop((10 * number, 0, dog.width, dog.height)).resize((SIDE, 480))
        noisy = np.asarray(picture) + generator.normal(0, 3, (480, SIDE, 1))
        pictures.append(Image.fromarray(noisy.clip(0, 255).astype(np.uint8)))
    return pictures


def encode(picture: Image.Image) -> str:
    """Base64 of the JPEG that the app would send."""
    picture = picture.convert("RGB")
    picture.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=85)
    return base64.urlsafe_b64encode(buffer.getvalue()).decode()


class Bench:
    """What is measured, as rows (part, what, figure, target, note)."""

    def __init__(self, model: Path, pictures: list[Image.Image], seconds: float, rounds: int):
        self.model, self.seconds, self.rounds = model, seconds, rounds
        self.rows: list[tuple[str, float, str, str]] = []
        self.texts = [encode(picture) for picture in pictures]
        self.instances = [json.dumps({"instances": [text]}).encode() for text in self.texts]

    def run(self, parts: Collection[str]) -> None:
        """Measure these parts on one server, in the order of PARTS."""
        with ExitStack() as self.processes:
            self.server = self.processes.enter_context(Server(self.model))
            for part in PARTS:
                if part in parts:
                    getattr(self, f"measure_{part}")()

    @cached_property
    def bare_process(self) -> subprocess.Popen[str]:
        """Started when it is first asked: a start that is measured needs both cores."""
        command = [sys.executable, str(HERE / "bare_runtime.py")]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        return self.processes.enter_context(process)

    def add(self, what: str, figure: float, target: str, note: str = "") -> None:
        self.rows.append((what, round(figure, 3), target, note))
        print(f"{what}: {figure:.3g} (asked: {target}) {note}", flush=True)

    def take_turns(
        self, first: Callable[[], float], second: Callable[[], float]
    ) -> tuple[float, float]:
        """The medians of both over alternating rounds, so that the machine's
        speed affects both.
        """
        figures = [(first(), second()) for _ in range(self.rounds)]
        return tuple(np.median(figures, axis=0).tolist())

    def add_ratio(
        self,
        what: str,
        target: str,
        first: Callable[[], float],
        second: Callable[[], float],
    ) -> None:
        one, other = self.take_turns(first, second)
        self.add(what, one / other, target, f"{one:.3g} and {other:.3g}")

    def rate(self, url: str, clients: int = 16) -> float:
        times = load(url, self.instances, clients, self.seconds)
        return clients / statistics.mean(times)

    def bare(self, version: int, runtime: str, callers: int) -> dict[str, float]:
        """The figures of `bare_runtime.py`."""
        job: dict[str, Any] = {
            "version": str(self.model / str(version)),
            "runtime": runtime,
            "texts": self.texts,
        }
        job |= {"callers": callers, "seconds": self.seconds}
        process = self.bare_process
        assert process.stdout is not None  # a pipe
        print(json.dumps(job), file=process.stdin, flush=True)
        found: dict[str, float] = json.loads(process.stdout.readline())
        return found

    def measure_mix(self) -> None:
        """Photos as the app sends them, to version 2 and to version 3 in turns."""
        bodies = {}
        for version in (2, 3):
            fields = [{"image": text, "version": version} for text in self.texts]
            bodies[version] = [json.dumps(each).encode() for each in fields]
        self.server.add_version_3()
        url = f"{self.server.url}/api/classify"
        times: dict[tuple[int, int], list[float]] = {}
        used = {2: 0.0, 3: 0.0}
        for clients in (1, 8):
            for _ in range(self.rounds):
                order = random.sample(range(len(self.texts)), len(self.texts))
                for version in (2, 3):
                    shuffled = [bodies[version][index] for index in order]
                    before = self.server.processor_seconds()
                    found = load(url, shuffled, clients)
                    used[version] += self.server.processor_seconds() - before
                    times.setdefault((clients, version), []).extend(found)
        kinds: dict[str, list[float]] = {"one pass": [], "several dogs": []}
        for body in bodies[3]:
            begun = time.perf_counter()
            answer = requests.post(url, body, headers=JSON, timeout=60).json()
            taken = time.perf_counter() - begun
            if len(answer["dogs"]) > 1:
                kinds["several dogs"].append(taken)
            elif answer["breeds"] and answer["breeds"][0]["probability"] > 0.95:
                kinds["one pass"].append(taken)
        eight = {version: statistics.mean(times[8, version]) for version in (2, 3)}
        one = {version: 1000 * statistics.mean(times[1, version]) for version in (2, 3)}
        note = f"{8 / eight[3]:.3g} and {8 / eight[2]:.3g} photos/s"
        self.add("mix, 8 clients: version 3 / 2", eight[2] / eight[3], ">= 2.7", note)
        note = f"{one[3]:.3g} and {one[2]:.3g} ms"
        self.add("mix, 1 client: time of version 3 / 2", one[3] / one[2], "<= 0.42", note)
        photos = len(times[1, 3]) + len(times[8, 3])
        note = f"{1000 * used[2] / photos:.3g} and {1000 * used[3] / photos:.3g} ms a photo"
        self.add("mix: processor time of version 2 / 3", used[2] / used[3], ">= 2.7", note)
        median, slow = np.percentile(times[8, 3], (50, 95)) * 1000
        note = f"{slow:.3g} and {median:.3g} ms"
        self.add("mix, 8 clients: p95 / p50 of version 3", slow / median, "<= 2", note)
        if all(kinds.values()):
            quick, several = (1000 * statistics.mean(kinds[name]) for name in kinds)
            note = f"{several:.3g} and {quick:.3g} ms"
            self.add("several dogs / one pass: time", several / quick, "<= 2", note)

    def measure_throughput(self) -> None:
        self.server.add_version_3()
        url, fast = self.server.predict_url(2), self.server.predict_url(3)
        command = (sys.executable, HERE / "litserve_app.py", self.model / "2", "{port}")
        with Server(self.model, command, ready="/health") as lit_serve:
            other = f"{lit_serve.url}/predict"
            self.add_ratio(
                "version 2, 16 clients / TensorFlow's own call",
                ">= 0.97",
                lambda: self.rate(url),
                lambda: self.bare(2, "tensorflow", 8)["rate"],
            )
            self.add_ratio(
                "version 2 / LitServe", ">= 1.25", lambda: self.rate(url), lambda: self.rate(other)
            )
            self.add_ratio(
                "version 3, 16 clients / the bare network",
                ">= 0.85",
                lambda: self.rate(fast),
                lambda: self.bare(3, "serving", 8)["rate"],
            )

    def measure_latency(self) -> None:
        url = self.server.predict_url(2)
        self.add_ratio(
            "p50 of one client / the bare call",
            "<= 1.1",
            lambda: 1000 * statistics.median(load(url, self.instances, 1, self.seconds)),
            lambda: self.bare(2, "serving", 1)["p50_ms"],
        )

    def measure_memory(self) -> None:
        load(self.server.predict_url(2), self.instances, 16, self.seconds)
        before = self.server.resident_mb()
        self.add("MB with versions 1 and 2", before, "<= 1200")
        self.server.add_version_3()
        load(self.server.predict_url(3), self.instances, 16, self.seconds)
        self.add("MB added by version 3", self.server.resident_mb() - before, "<= 150")

    def measure_start(self) -> None:
        begun = time.monotonic()
        subprocess.check_call(
            [sys.executable, "-c", "import tensorflow"], stderr=subprocess.DEVNULL
        )
        imported = time.monotonic() - begun
        first, *later = load(self.server.predict_url(2), self.instances * 3, 1)
        self.add("start / TensorFlow's import", self.server.start_seconds / imported, "<= 2.5")
        self.add("first request / median", first / statistics.median(later), "<= 1.2")

    def measure_overload(self) -> None:
        """Of two cores the server gets one and the sender the other: what sends
        eight times as much takes no time from what answers.
        """
        url = self.server.predict_url(2)
        first, *others = sorted(os.sched_getaffinity(0))
        if others:
            self.server.keep_to(first)
            os.sched_setaffinity(0, set(others))
        capacity = self.rate(url)
        good = flood(url, self.instances, 8 * capacity, 4 * self.seconds)
        note = f"{good:.3g} and {capacity:.3g} photos/s"
        self.add("goodput at 8 times the capacity / capacity", good / capacity, ">= 0.95", note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=MODEL, help="a folder with versions 1 to 3")
    parser.add_argument("--photos", type=Path, help="a folder of photos, instead of drawn ones")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=200, help="photos of the folder")
    parser.add_argument("--save", type=Path, help="a file for the figures, as JSON")
    options = parser.parse_args()
    pictures = draw_photos()
    if options.photos:
        kinds = Image.registered_extensions()
        files = sorted(file for file in options.photos.rglob("*.*") if file.suffix.lower() in kinds)
        step = max(1, len(files) // options.most)
        pictures = [Image.open(file) for file in files[::step]]
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--only: expected some of {', '.join(PARTS)}; received {min(unknown)!r}")
    bench = Bench(options.model.resolve(), pictures, options.seconds, options.rounds)
    print(f"{processor.name()}, {processor.cores()} cores, {len(pictures)} photos")
    bench.run(parts)
    if options.save:
        options.save.parent.mkdir(parents=True, exist_ok=True)
        options.save.write_text(json.dumps(bench.rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
