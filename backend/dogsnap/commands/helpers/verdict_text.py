"""Formats the answer of /api/admin/verdict as the text that `dogsnap models
verdict` prints.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def lines_of(verdict: Mapping[str, Any]) -> Iterator[str]:
    """The lines: versions by what people said, splits, and the shadow."""
    feedback = verdict["feedback"]
    if feedback is None:
        yield f"{verdict['model']}: this server accepts no feedback; start it with --feedback FILE"
    else:
        yield (
            f"{verdict['model']}: {feedback['answers']} answers with feedback, kept for "
            f"{verdict['kept_days']} days"
        )
        yield from _versions(feedback["versions"])
        for comparison in feedback["comparisons"]:
            yield from _comparison(comparison)
        if feedback["typed"]:
            yield "names of breeds that people typed because they were not there (teach them next):"
        for typed in feedback["typed"]:
            yield f"    {typed['times']} x {typed['text']}"
    if verdict["shadow"]:
        yield from _shadow(verdict["shadow"])


def _versions(versions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    head = ("version", "first breed right", "of", "share", "95 % interval (Wilson)")
    rows = [
        (version["version"], version["right"], version["counted"], *_share(version["share"]))
        for version in versions
    ]
    if rows:
        yield "of each version one vote for each phone that was asked"
        yield from table([head, *rows])
    for version in versions:
        yield from _levels(version)
        if version["corrections"]:
            yield f"  what people correct most in version {version['version']}:"
        for correction in version["corrections"]:
            yield f"    {correction['times']} x {correction['answered']} -> {correction['said']}"


def _levels(version: Mapping[str, Any]) -> Iterator[str]:
    yield f"  what the levels of version {version['version']} were worth:"
    rows = [("level", "answers", "first breed right", "claim holds", "breeds named")]
    for level, sums in version["levels"].items():
        name, breeds = level.replace("_", " "), f"{sums['breeds']:.1f}"
        rows.append((name, sums["answers"], sums["right"], sums["holds"], breeds))
    yield from table(rows)


def _comparison(comparison: Mapping[str, Any]) -> Iterator[str]:
    until = f" to {comparison['ended']}" if comparison["ended"] else ""
    yield (
        f"split of {comparison['label'] or 'the default'} between versions "
        f"{comparison['versions'][0]} and "
        f"{comparison['versions'][1]}, from {comparison['started']}{until}, one vote for each phone"
    )
    rows = [
        (
            "version",
            "asked",
            "answered",
            "rate",
            "first breed right",
            "of",
            "share",
            "95 % interval (Wilson)",
        )
    ]
    columns = ("versions", "asked", "answered", "rates", "right", "counted", "shares")
    for version, asked, answered, rate, right, of, share in zip(
        *map(comparison.get, columns), strict=True
    ):
        shown = "-" if rate is None else percent(rate)
        rows.append((version, asked, answered, shown, right, of, *_share(share)))
    yield from table(rows)
    yield f"  {comparison['sentence']}"


def _shadow(shadow: Mapping[str, Any]) -> Iterator[str]:
    seen = shadow["agree"] + shadow["differ"]
    share = f" ({percent(shadow['agreement'])})" if seen else ""
    yield (
        f"shadow version {shadow['version']}: the same breed as the answer in "
        f"{shadow['agree']} of {seen} photos{share}"
    )
    for difference in shadow["differences"]:
        yield (
            f"    {difference['times']} x {difference['answered']} in the answer, "
            f"{difference['shadow']} "
            "in the shadow"
        )


def _share(interval: Mapping[str, float] | None) -> tuple[str, str]:
    if interval is None:
        return "-", "-"
    return percent(interval["value"]), f"{100 * interval['low']:.1f} to {percent(interval['high'])}"


def table(rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Lines of columns as wide as their longest cell, indented by two spaces."""
    cells = [list(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield ("  " + "  ".join(map(str.ljust, row, widths))).rstrip()


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
