"""Runs a SavedModel without a server, one job per line: `python -m backend.bench.programs.bare_runtime tensorflow|serving
SAVED_MODEL`.

"tensorflow" calls the default signature with TensorFlow, "serving" makes the call that the server makes.
"""

import itertools
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from backend.memory import share_arenas
from backend.tensorflow_import import import_tensorflow

Call = Callable[[list[str]], Any]


def by_tensorflow(path: Path) -> Call:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    run = loaded.signatures["serving_default"]
    # The function needs the loaded object, which owns its variables.
    return lambda texts, _held=loaded: run(image=tf.constant(texts))["prediction"].numpy()


def by_serving(path: Path) -> Call:
    from backend.serving.tensors.signatures import ServableId
    from backend.serving.versions.servable import Servable

    servable = Servable.load(ServableId(path.parent.name, int(path.name)), path)
    signature = servable.signature()
    return lambda texts: servable.run(signature, {"image": texts})


def measured(call: Call, texts: Sequence[str], callers: int, seconds: float) -> dict[str, float]:
    """Photos per second of `threads` threads in a closed loop, and the median time of a call in milliseconds."""
    times: list[float] = []
    turn = itertools.cycle(texts)
    begun = time.perf_counter()

    def call_on() -> None:
        while time.perf_counter() < begun + seconds:
            started = time.perf_counter()
            call([next(turn)])
            times.append(time.perf_counter() - started)

    threads = [threading.Thread(target=call_on) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"throughput": len(times) / (time.perf_counter() - begun), "p50_ms": 1000 * statistics.median(times)}


def main() -> None:
    share_arenas()  # as in the server
    import_tensorflow()
    call = {"tensorflow": by_tensorflow, "serving": by_serving}[sys.argv[1]](Path(sys.argv[2]))
    texts = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        print(json.dumps(measured(call, texts, **json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
