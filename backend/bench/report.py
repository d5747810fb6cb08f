"""Prints measurements as tables, and saves them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from backend.bench.machine import line
from backend.bench.rounds import Point
from backend.bench.targets import PerformanceTarget

Points = Mapping[str, Sequence[Point]]
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
            rows = [[f"{figure:.2f}".removesuffix(".00") for figure in point.values()] for point in points]
            lines += ["", name, *table([list(points[0]), *rows])]
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
