"""Formats the answer of /api/admin/verdict as the text that `dogsnap models verdict` prints.

It computes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

LEVELS = ("breed", "group", "set", "unsure", "unknown", "no_dog")


def lines_of(verdict: Mapping[str, Any]) -> Iterator[str]:
    """The lines: versions by what people said, comparisons, and shares of levels by day."""
    feedback = verdict["feedback"]
    if feedback is None:
        yield f"{verdict['model']}: this server accepts no feedback; start it with --feedback FILE"
    else:
        yield f"{verdict['model']}: {feedback['answers']} answers with feedback, kept for {verdict['kept_days']} days"
        yield from _versions(feedback["versions"])
        for comparison in feedback["comparisons"]:
            yield from _comparison(comparison)
    yield from _levels(verdict["levels"])


def _versions(versions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [("version", "right", "of", "share", "95 % interval (Wilson)")]
    for each in versions:
        share = each["share"]
        limits = (percent(share["value"]), between(share)) if share else ("-", "-")
        rows.append((str(each["version"]), str(each["right"]), str(each["counted"]), *limits))
    if versions:
        yield from table(rows)
    for each in versions:
        if each["corrections"]:
            yield f"  what people correct most in version {each['version']}:"
        for correction in each["corrections"]:
            yield f"    {correction['times']} x {correction['answered']} -> {correction['said']}"


def _comparison(comparison: Mapping[str, Any]) -> Iterator[str]:
    (first, second), is_split = comparison["versions"], comparison["kind"] == "split"
    shares = [
        f"{right} of {counted}" for right, counted in zip(comparison["right"], comparison["counted"], strict=True)
    ]
    yield f"versions {first} and {second}, in a split" if is_split else f"version {first}, with {second} in its shadow"
    yield f"  right: version {first} {shares[0]}, version {second} {shares[1]}"
    yield f"  {comparison['sentence']}"
    for breed in comparison["breeds"]:
        counts = zip(breed["right"], breed["counted"], strict=True)
        yield f"    {breed['breed']}: " + ", ".join(f"{right} of {counted} right" for right, counted in counts)


def _levels(levels: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [("version", "day", "answers", *(level.replace("_", " ") for level in LEVELS))]
    for each in levels:
        for day in each["days"]:
            shares = (percent(day["shares"].get(level, 0)) for level in LEVELS)
            rows.append((str(each["version"]), day["day"], str(day["answers"]), *shares))
    if len(rows) > 1:
        yield "what the versions answered, since the server started (at most two weeks):"
        yield from table(rows)
    for each in levels:
        for sentence in each["drift"]:
            yield f"  version {each['version']}: {sentence}"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of columns as wide as their longest cell, indented by two spaces."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def between(interval: Mapping[str, float]) -> str:
    return f"{100 * interval['low']:.1f} to {percent(interval['high'])}"
