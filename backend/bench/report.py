"""Prints measurements as tables, saves them, compares them with saved ones and draws them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from backend.bench.machine import line
from backend.bench.pareto_front import ParetoPoint
from backend.bench.rounds import Point
from backend.bench.targets import PerformanceTarget

Points = Mapping[str, Sequence[Point]]
POINT_HEAD = (
    "clients",
    "batch",
    "photos/s",
    "ms/photo",
    "p50 ms",
    "p99 ms",
    "requests",
    "503s",
    "errors",
    "generator ms",
)
PARETO_HEAD = ("version", "ms/photo", "top-1", "photos", "beaten by")
TARGET_HEAD = ("part", "what", "asked", "measured", "met", "note")


@dataclass(frozen=True)
class Report:
    """A measurement: `points` by the name of the server, `places` on the Pareto front."""

    machine: dict[str, Any]
    points: Points = field(default_factory=dict)
    bars: Sequence[PerformanceTarget] = ()
    places: Sequence[ParetoPoint] = ()

    def lines(self) -> list[str]:
        lines = [f"machine: {line(self.machine)}"]
        for name, points in self.points.items():
            lines += ["", name, *table([POINT_HEAD, *map(_point_row, points)])]
        if self.places:
            lines += [
                "",
                "accuracy-time front",
                *table([PARETO_HEAD, *(_pareto_row(each, self.places) for each in self.places)]),
            ]
        return [*lines, "", *table([TARGET_HEAD, *map(_target_row, self.bars)])] if self.bars else lines

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        saved = {**asdict(self), "bars": [{**asdict(bar), "met": bar.met()} for bar in self.bars]}
        file.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _point_row(point: Point) -> tuple[str, ...]:
    times = (point.throughput, point.photo_ms(), point.p50_ms, point.p99_ms)
    counts = (point.requests, point.refused, point.errors)
    return (
        str(point.clients),
        str(point.batch),
        *(f"{each:.1f}" for each in times),
        *map(str, counts),
        f"{point.generator_ms:.2f}",
    )


def _pareto_row(place: ParetoPoint, places: Sequence[ParetoPoint]) -> tuple[str, ...]:
    better = ", ".join(str(other.version) for other in places if place.is_beaten_by(other))
    return str(place.version), f"{place.photo_ms:.1f}", f"{place.top1:.2%}", str(place.photos), better


def _target_row(bar: PerformanceTarget) -> tuple[str, ...]:
    unit = f" {bar.unit}" if bar.unit else ""
    measured = (
        "-"
        if bar.measured is None
        else f"{bar.measured:.3g}{unit}"
        if bar.measured < 100
        else f"{bar.measured:.0f}{unit}"
    )
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
    """A file written by `Report.save`. Raises ValueError for any other file."""
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
        return {"machine": dict(saved["machine"]), "points": dict(saved["points"]), "bars": list(saved["bars"])}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ValueError(
            f"{file} is not a saved measurement ({type(error).__name__}); expected a file of --save"
        ) from error


# -- a picture ---------------------------------------------------------------------------------------------------------


def draw(report: Report, file: Path) -> None:
    """Draw throughput and the 99th percentile over clients, and the Pareto front if it was measured."""
    from matplotlib.figure import Figure

    panels = 3 if report.places else 2
    figure = Figure(figsize=(5 * panels, 4), layout="constrained")
    left, right, *third = figure.subplots(1, panels)
    _draw_load(left, right, report.points)
    for axes in third:
        _draw_front(axes, report.places)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)


def _draw_load(left: Any, right: Any, points: Points) -> None:
    """A line for each server, with batches of one photo."""
    for name, each in points.items():
        single = sorted((point for point in each if point.batch == 1), key=lambda point: point.clients)
        clients = [point.clients for point in single]
        left.plot(clients, [point.throughput for point in single], "o-", label=name)
        right.plot(clients, [point.p99_ms for point in single], "o-", label=name)
    for axes, label in ((left, "photos a second"), (right, "99th percentile, ms")):
        axes.set(xlabel="clients", ylabel=label, xscale="log", ylim=(0, None))
        axes.grid(alpha=0.3)
    if points:
        left.legend()


def _draw_front(axes: Any, places: Sequence[ParetoPoint]) -> None:
    """A point for each version, and a line through the Pareto-optimal ones."""
    front = sorted((each for each in places if not any(map(each.is_beaten_by, places))), key=lambda each: each.photo_ms)
    axes.plot([each.photo_ms for each in front], [100 * each.top1 for each in front], "-", alpha=0.5)
    for each in places:
        axes.plot(each.photo_ms, 100 * each.top1, "o", color="C0")
        axes.annotate(f" version {each.version}", (each.photo_ms, 100 * each.top1))
    axes.set(
        xlabel="ms a photo, 16 clients",
        ylabel=f"top-1 of {places[0].photos} photos, %",
        xlim=(0, 1.3 * max(each.photo_ms for each in places)),
    )
    axes.margins(y=0.2)
    axes.grid(alpha=0.3)
