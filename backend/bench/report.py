"""Prints measurements as a table, and saves them."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.machine import line
from bench.targets import PerformanceTarget


def lines(machine: dict[str, Any], bars: Sequence[PerformanceTarget]) -> list[str]:
    """The table of the targets (`bars`) that were measured on a machine, see `machine.describe`."""
    rows = [("part", "what", "asked", "measured", "met", "note"), *map(_target_row, bars)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return [f"machine: {line(machine)}", "", *table]


def save(file: Path, machine: dict[str, Any], bars: Sequence[PerformanceTarget]) -> None:
    """The same as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    measured = {"machine": machine, "bars": [{**asdict(bar), "met": bar.met()} for bar in bars]}
    file.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def _target_row(bar: PerformanceTarget) -> tuple[str, ...]:
    unit = f" {bar.unit}" if bar.unit else ""
    measured = (
        "-"
        if bar.measured is None
        else f"{bar.measured:{'.3g' if bar.measured < 100 else '.0f'}}{unit}"
    )
    met = {None: "not measured", True: "yes", False: "NO"}[bar.met()]
    return (
        bar.part,
        bar.what,
        f"{'>=' if bar.at_least else '<='} {bar.asked:g}{unit}",
        measured,
        met,
        bar.note,
    )
