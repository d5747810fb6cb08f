"""Compares two versions of any kind on the same photos or requests: how far
their outputs agree, and how long they take.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dogsnap.errors import DogsnapError
from dogsnap.exporting import Report
from dogsnap.local_model import LocalModel
from dogsnap.serving.answers.output_agreement import OutputAgreement, compare_outputs
from dogsnap.serving.inference.request_kinds import Photos, Values

MakeWork = Callable[[], Photos | Values]


@dataclass
class _Counted:
    """Of one output, over all requests."""

    kind: str = ""
    rows: list[bool] = field(default_factory=list)
    values: int = 0
    alike: int = 0
    total: float = 0.0
    largest: float = 0.0

    def add(self, found: OutputAgreement) -> None:
        self.kind = found.kind
        self.rows += found.agrees.tolist()
        self.values += found.values
        self.alike += found.alike
        self.total += float(found.differences.sum())
        self.largest = max(self.largest, float(found.differences.max(initial=0.0)))

    def to_json(self) -> dict[str, Any]:
        counted: dict[str, Any] = {
            "kind": self.kind,
            "agreement": float(np.mean(self.rows)) if self.rows else 1.0,
            "values": self.values,
            "alike": self.alike / self.values if self.values else 1.0,
        }
        if self.kind == "numbers":
            mean = self.total / self.values if self.values else 0.0
            counted |= {"mean_difference": mean, "largest_difference": self.largest}
        return counted


def compare(
    versions: Sequence[LocalModel],
    requests: Mapping[str, MakeWork],
    tolerance: float,
    report: Report = lambda _: None,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Send each of `requests`, by name, to both versions; ready for JSON.

      requests        how many were compared
      agreement       the share of them of which all outputs agree
      outputs         by name: `kind` (numbers, texts, detections), `agreement` of rows, how many `values`, which
                      share of them is `alike`, and of numbers `mean_difference` and `largest_difference`
      milliseconds, slowest   the median time of each version, and its 95th percentile
      differing       the names of the requests that differ, and the outputs in which they do

    What the first version refuses is reported and left out. What only the second refuses
    differs. Raises ValueError when nothing is left, or no output is in both.
    """
    outputs: dict[str, _Counted] = defaultdict(_Counted)
    times = []
    differing = []
    compared = 0
    for name, make in requests.items():
        progress()
        try:
            first, milliseconds = _ask(versions[0], make())
        except (DogsnapError, OSError) as error:
            report(f"{name} is refused, and left out: {error}")
            continue
        compared += 1
        try:
            second, others = _ask(versions[1], make())
        except DogsnapError as error:
            differing.append({"request": name, "outputs": [f"refused: {error.message}"]})
            continue
        times.append((milliseconds, others))
        found = compare_outputs(first, second, tolerance)
        if not found:
            raise ValueError(
                f"the versions share no output: {', '.join(first)}; {', '.join(second)}"
            )
        for output, each in found.items():
            outputs[output].add(each)
        if unlike := [output for output, each in found.items() if not each.agrees.all()]:
            differing.append({"request": name, "outputs": unlike})
    if not compared:
        raise ValueError(f"the first version refuses all {len(requests)} requests")
    return {
        "requests": compared,
        "agreement": 1 - len(differing) / compared,
        "outputs": {output: counted.to_json() for output, counted in outputs.items()},
        "milliseconds": np.median(times, axis=0).tolist() if times else None,
        "slowest": np.percentile(times, 95, axis=0).tolist() if times else None,
        "differing": differing,
    }


def _ask(model: LocalModel, work: Photos | Values) -> tuple[dict[str, np.ndarray], float]:
    start = time.perf_counter()
    answer = model.answer(work)
    return answer.outputs, 1000 * (time.perf_counter() - start)
