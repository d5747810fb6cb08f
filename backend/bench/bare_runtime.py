"""Photos per second and median milliseconds of a version without a server, for
each job, a line of standard input: `{"version", "runtime", "texts", "callers",
"seconds"}`.

The runtime "tensorflow" calls the default signature, "serving" makes the call
of the server.
"""

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from dogsnap.allocator import share_arenas
from dogsnap.tensorflow_import import import_tensorflow

share_arenas()  # as in the server, before TensorFlow starts its threads
import_tensorflow()

import tensorflow as tf  # noqa: E402

Run = Callable[[str], object]


@cache
def load(version: str, runtime: str) -> Run:
    """A function that runs the network on a photo, as base64 text."""
    folder = Path(version)
    if runtime == "tensorflow":
        loaded = tf.saved_model.load(version)
        signature = loaded.signatures["serving_default"]

        def run_signature(text: str) -> object:
            assert loaded  # owns the variables of its signatures
            return signature(image=tf.constant([text]))["prediction"].numpy()

        return run_signature
    from dogsnap.serving.tensors.signatures import ServableId
    from dogsnap.serving.versions.servable import LocalServable

    servable = LocalServable(ServableId(folder.parent.name, int(folder.name)), folder)
    default = servable.signature()
    return lambda text: servable.run(default, {"image": [text]})


def measure(run: Run, texts: list[str], callers: int, seconds: float) -> dict[str, float]:
    """Photos per second and median milliseconds, with so many callers at once."""
    times: list[float] = []
    turn = itertools.cycle(texts)
    begun = time.perf_counter()

    def call_until_the_end(_: int) -> None:
        while time.perf_counter() < begun + seconds:
            started = time.perf_counter()
            run(next(turn))
            times.append(time.perf_counter() - started)

    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(call_until_the_end, range(callers)))
    rate = len(times) / (time.perf_counter() - begun)
    return {"rate": rate, "p50_ms": 1000 * statistics.median(times)}


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        run = load(job["version"], job["runtime"])
        measure(run, job["texts"], job["callers"], min(1.0, job["seconds"]))
        print(json.dumps(measure(run, job["texts"], job["callers"], job["seconds"])), flush=True)


if __name__ == "__main__":
    main()
