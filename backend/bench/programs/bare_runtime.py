"""Runs a SavedModel without a server: `python -m bench.programs.bare_runtime < JOB`.

The runtime "tensorflow" calls the default signature with TensorFlow, "serving" makes the call that the server makes.
"""

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dogsnap.allocator import share_arenas
from dogsnap.tensorflow_import import import_tensorflow

WARM_UP_SECONDS = 1.0

Call = Callable[[list[str]], Any]


def by_tensorflow(path: Path) -> Call:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    run = loaded.signatures["serving_default"]
    # The function needs the loaded object, which owns its variables.
    return lambda texts, _held=loaded: run(image=tf.constant(texts))["prediction"].numpy()


def by_serving(path: Path) -> Call:
    from dogsnap.serving.tensors.signatures import ServableId
    from dogsnap.serving.versions.servable import Servable

    servable = Servable.load(ServableId(path.parent.name, int(path.name)), path)
    signature = servable.signature()
    return lambda texts: servable.run(signature, {"image": texts})


def measured(call: Call, texts: Sequence[str], callers: int, seconds: float) -> dict[str, float]:
    """Photos per second of `callers` threads in a closed loop, and the median time of a call in milliseconds."""
    times: list[float] = []
    turn = itertools.cycle(texts)
    begun = time.perf_counter()

    def call_on(_: int) -> None:
        while time.perf_counter() < begun + seconds:
            started = time.perf_counter()
            call([next(turn)])
            times.append(time.perf_counter() - started)

    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(call_on, range(callers)))
    return {
        "throughput": len(times) / (time.perf_counter() - begun),
        "p50_ms": 1000 * statistics.median(times),
    }


def main() -> None:
    job = json.load(sys.stdin)
    share_arenas()  # as in the server
    import_tensorflow()
    call = {"tensorflow": by_tensorflow, "serving": by_serving}[job["runtime"]](
        Path(job["saved_model"])
    )
    measured(call, job["texts"], max(job["callers"]), WARM_UP_SECONDS)
    found = [measured(call, job["texts"], callers, job["seconds"]) for callers in job["callers"]]
    json.dump(max(found, key=lambda each: each["throughput"]), sys.stdout)


if __name__ == "__main__":
    main()
