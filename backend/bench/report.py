"""Prints measurements as tables, saves them, compares them with saved ones and draws them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from backend.bench.machine import line
from backend.bench.remote import CannotMeasure
from backend.bench.rounds import Point
from backend.bench.targets import PerformanceTarget

Points = Mapping[str, Sequence[Point]]
POINT_COLUMNS: dict[str, Callable[[Point], str]] = {
    "clients": lambda point: str(point.clients),
    "batch": lambda point: str(point.batch),
    "photos/s": lambda point: f"{point.throughput:.1f}",
    "ms/photo": lambda point: f"{point.photo_ms():.1f}",
    "p50 ms": lambda point: f"{point.p50_ms:.1f}",
    "p99 ms": lambda point: f"{point.p99_ms:.1f}",
    "requests": lambda point: str(point.requests),
    "503s": lambda point: str(point.refused),
    "errors": lambda point: str(point.errors),
    "generator ms": lambda point: f"{point.generator_ms:.2f}",
}
TARGET_HEAD = ("part", "what", "asked", "measured", "met", "note")


@dataclass(frozen=True)
class Report:
    """A measurement: `points` by the name of the server, and targets (`bars`)."""

    machine: dict[str, Any]
    points: Points = field(default_factory=dict)
    bars: Sequence[PerformanceTarget] = ()

    def lines(self) -> list[str]:
        lines = [f"machine: {line(self.machine)}"]
        for name, points in self.points.items():
            rows = [[column(point) for column in POINT_COLUMNS.values()] for point in points]
            lines += ["", name, *table([list(POINT_COLUMNS), *rows])]
        return [*lines, "", *table([TARGET_HEAD, *map(_target_row, self.bars)])] if self.bars else lines

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        saved = {**asdict(self), "bars": [{**asdict(bar), "met": bar.met()} for bar in self.bars]}
        file.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _target_row(bar: PerformanceTarget) -> tuple[str, ...]:
    unit = f" {bar.unit}" if bar.unit else ""
    measured = "-" if bar.measured is None else f"{bar.measured:{'.3g' if bar.measured < 100 else '.0f'}}{unit}"
    met = {None: "not measured", True: "yes", False: "NO"}[bar.met()]
    return bar.part, bar.what, f"{'>=' if bar.at_least else '<='} {bar.asked:g}{unit}", measured, met, bar.note


# -- against an earlier one --------------------------------------------------------------------------------------------


def compared(now: Report, then: Mapping[str, Any]) -> list[str]:
    """Ratios of the figures in both: now / then, the result of `read`."""
    rows = [("against the saved run: now / then", "photos/s", "p50", "p99")]
    for name, points in now.points.items():
        earlier = {(each["clients"], each["batch"]): each for each in then["points"].get(name, [])}
        both = [(point, earlier[key]) for point in points if (key := (point.clients, point.batch)) in earlier]
        rows += [_ratio_row(name, point, each) for point, each in both]
    measured = {bar["what"]: bar["measured"] for bar in then["bars"] if bar["measured"]}
    rows += [
        (bar.what, f"{bar.measured / measured[bar.what]:.2f}", "", "")
        for bar in now.bars
        if bar.measured is not None and bar.what in measured
    ]
    same = then["machine"].get("processor") == now.machine.get("processor")
    return [*table(rows), *([] if same else [f"then on another machine: {line(then['machine'])}"])]


def _ratio_row(name: str, point: Point, then: Mapping[str, float]) -> tuple[str, ...]:
    ratios = (
        f"{getattr(point, each) / then[each]:.2f}" if then[each] else "-" for each in ("throughput", "p50_ms", "p99_ms")
    )
    return f"{name}, {point.clients} clients, batches of {point.batch}", *ratios


def read(file: Path) -> dict[str, Any]:
    """A file written by `Report.save`. Raises CannotMeasure for any other file."""
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
        return {"machine": dict(saved["machine"]), "points": dict(saved["points"]), "bars": list(saved["bars"])}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CannotMeasure(
            f"{file} is not a saved measurement ({type(error).__name__}); expected a file of --save"
        ) from error


# -- a picture ---------------------------------------------------------------------------------------------------------


def draw(report: Report, file: Path) -> None:
    """Draw throughput and the 99th percentile over clients: a line for each server, with batches of one photo."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, points in report.points.items():
        single = sorted((point for point in points if point.batch == 1), key=lambda point: point.clients)
        clients = [point.clients for point in single]
        left.plot(clients, [point.throughput for point in single], "o-", label=name)
        right.plot(clients, [point.p99_ms for point in single], "o-", label=name)
    for axes, label in ((left, "photos a second"), (right, "99th percentile, ms")):
        axes.set(xlabel="clients", ylabel=label, xscale="log", ylim=(0, None))
        axes.grid(alpha=0.3)
    if report.points:
        left.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
