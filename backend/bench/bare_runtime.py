"""Photos per second and median milliseconds of a version without a server, for
a job on standard input: `{"version", "runtime", "texts", "callers",
"seconds"}`.

The runtime "tensorflow" calls the default signature, "serving" makes the call
of the server.
"""

import itertools
import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dogsnap.allocator import share_arenas
from dogsnap.tensorflow_import import import_tensorflow

job = json.load(sys.stdin)
share_arenas()  # as in the server
tf = import_tensorflow()
folder = Path(job["version"])
if job["runtime"] == "tensorflow":
    loaded = tf.saved_model.load(str(folder))
    signature = loaded.signatures["serving_default"]
else:
    from dogsnap.serving.tensors.signatures import ServableId
    from dogsnap.serving.versions.servable import Servable

    servable = Servable.load(ServableId(folder.parent.name, int(folder.name)), folder)


def run(text: str) -> None:
    if job["runtime"] == "tensorflow":
        signature(image=tf.constant([text]))["prediction"].numpy()
    else:
        servable.run(servable.signature(), {"image": [text]})


def measure(callers: int, seconds: float) -> dict[str, float]:
    times = []
    texts = itertools.cycle(job["texts"])
    begun = time.perf_counter()

    def call_until_the_end(_: int) -> None:
        while time.perf_counter() < begun + seconds:
            started = time.perf_counter()
            run(next(texts))
            times.append(time.perf_counter() - started)

    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(call_until_the_end, range(callers)))
    rate = len(times) / (time.perf_counter() - begun)
    return {"rate": rate, "p50_ms": 1000 * statistics.median(times)}


measure(job["callers"], 1.0)
json.dump(measure(job["callers"], job["seconds"]), sys.stdout)
