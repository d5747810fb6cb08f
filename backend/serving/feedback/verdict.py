"""The report on feedback: how often each version was right, and which of two is better, as JSON for command and console.

Two versions are compared if a traffic split assigned requests to them at random, or if one ran as the shadow of the other.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from backend.serving.feedback.claims import BREED
from backend.serving.feedback.intervals import Finding, Outcome, answers_needed, find, wilson
from backend.serving.feedback.store import Row

SHOWN = 10  # corrections of a version, and breeds of a comparison
DAY = len("2026-01-31")


def verdict(rows: Sequence[Row], names: Mapping[str, str]) -> dict[str, Any]:
    """`rows` of one model in the order in which they came; `names` of breeds by id, as far as known."""
    return {
        "answers": len(rows),
        "versions": [_version(number, own, names) for number, own in _by(rows, lambda row: row.version)],
        "comparisons": [*_of_splits(rows, names), *_of_shadows(rows, names)],
    }


def _version(number: int, rows: Sequence[Row], names: Mapping[str, str]) -> dict[str, Any]:
    """`said`: how many people said what; `right` of `counted` (those that can be judged) is the share."""
    judged = [row.is_right for row in rows if row.is_right is not None]
    corrected = Counter((row.breeds or row.level, _said(row)) for row in rows if row.is_right == 0)
    return {
        "version": number,
        "said": dict(Counter(row.verdict for row in rows)),
        "right": sum(judged),
        "counted": len(judged),
        "share": asdict(wilson(sum(judged), len(judged))) if judged else None,
        "corrections": [
            {"answered": _named(answered, names), "said": _named(said, names), "times": times}
            for (answered, said), times in corrected.most_common(SHOWN)
        ],
    }


def _of_splits(rows: Sequence[Row], names: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    judged = [row for row in rows if row.split and row.is_right is not None]
    for pair in combinations(sorted({row.version for row in judged}), 2):
        both = _on_common_days([row for row in judged if row.version in pair])
        rights = [bool(row.is_right) for row in both]
        outcomes = [
            (right, None) if row.version == pair[0] else (None, right) for row, right in zip(both, rights, strict=True)
        ]
        yield _comparison("split", pair, both, outcomes, names)


def _on_common_days(rows: Sequence[Row]) -> list[Row]:
    """What one version answered alone was asked at other times, of other photos."""
    days = [[row.answered_at[:DAY] for row in own] for _, own in _by(rows, lambda row: row.version)]
    start, end = max(map(min, days)), min(map(max, days))
    return [row for row in rows if start <= row.answered_at[:DAY] <= end]


def _of_shadows(rows: Sequence[Row], names: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    judged = [row for row in rows if row.is_right is not None and row.shadow_is_right is not None]
    for pair, both in _by(judged, lambda row: (row.version, row.shadow_version)):
        outcomes = [(bool(row.is_right), bool(row.shadow_is_right)) for row in both]
        yield _comparison("shadow", pair, both, outcomes, names)


def _comparison(
    kind: str, pair: tuple[int, int], rows: Sequence[Row], outcomes: Sequence[Outcome], names: Mapping[str, str]
) -> dict[str, Any]:
    """`shares` of the two over all answers; `difference` (second less first) and `better` as of `decided_at` answers."""
    finding = find(outcomes)
    better = finding.better if finding else None
    more = answers_needed(outcomes) if better is None else None
    answers = [[bool(each[side]) for each in outcomes if each[side] is not None] for side in (0, 1)]
    return {
        "kind": kind,
        "versions": pair,
        "answers": len(rows),
        "right": [sum(side) for side in answers],
        "counted": [len(side) for side in answers],
        "shares": [asdict(wilson(sum(side), len(side))) if side else None for side in answers],
        "decided_at": finding and finding.answers,
        "difference": finding and asdict(finding.difference),
        "confidence": finding and finding.confidence,
        "better": None if better is None else pair[better],
        "more": more,
        "sentence": _sentence(pair, finding, more),
        "breeds": _breeds(rows, outcomes, names),
    }


def _sentence(pair: tuple[int, int], finding: Finding | None, more: int | None) -> str:
    if finding is None or finding.better is None:
        return (
            f"Not enough yet to tell version {pair[0]} and version {pair[1]} apart: about {more:,} more answers, "
            "if the difference stays what it is."
        )
    sign = 1 if finding.better else -1
    limits = sorted(100 * sign * each for each in (finding.difference.low, finding.difference.high))
    return (
        f"Version {pair[finding.better]} is better than version {pair[1 - finding.better]}: right in "
        f"{100 * abs(finding.difference.value):.1f} points more of the answers ({limits[0]:.1f} to {limits[1]:.1f} with "
        f"{100 * finding.confidence:.1f} % confidence), found at {finding.answers:,} answers."
    )


def _breeds(rows: Sequence[Row], outcomes: Sequence[Outcome], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """By what the dog is, where people named one breed: how often each version was right, the largest differences first.

    A clue only: of one breed there are few answers.
    """
    counts: dict[str, list[list[int]]] = defaultdict(lambda: [[0, 0], [0, 0]])
    for row, outcome in zip(rows, outcomes, strict=True):
        truth = _truth(row)
        for side in (0, 1):
            right = outcome[side]
            if truth and right is not None:
                counts[truth][side][0] += right
                counts[truth][side][1] += 1
    shares = {
        truth: [right / count for right, count in both] for truth, both in counts.items() if both[0][1] and both[1][1]
    }
    differing = [truth for truth, (first, second) in shares.items() if first != second]
    return [
        {
            "breed": _named(truth, names),
            "right": [side[0] for side in counts[truth]],
            "counted": [side[1] for side in counts[truth]],
        }
        for truth in sorted(differing, key=lambda each: -abs(shares[each][1] - shares[each][0]))[:SHOWN]
    ]


def _truth(row: Row) -> str:
    """The breed that a person named or confirmed; "" for what leaves it open."""
    confirmed = (
        row.breeds if row.verdict == "right" and " " not in row.breeds and row.level in ("breed", "unsure") else ""
    )
    return row.breed or confirmed


def _said(row: Row) -> str:
    return row.breed if row.verdict == BREED and row.breed else row.verdict


def _named(ids: str, names: Mapping[str, str]) -> str:
    """Names for ids with spaces between them; what is no id stays as it is."""
    return " / ".join(names.get(each, each.replace("_", " ")) for each in ids.split())


def _by(rows: Sequence[Row], key: Callable[[Row], Any]) -> list[tuple[Any, list[Row]]]:
    """Rows by key, sorted by it; each in its order."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return sorted(groups.items())
