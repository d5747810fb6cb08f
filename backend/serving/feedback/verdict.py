"""The report on feedback, as JSON for command and console: how often each version was right, and which of a split's is better."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from backend.serving.feedback.comparison import SequentialTest, p_of_rates, wilson
from backend.serving.feedback.store import Store
from backend.serving.feedback.votes import SIDES

SHOWN = 10  # corrections of a version, and typed names
P_OF_RATES = 0.001  # below it the rates of answering differ: who answers depends on the version
SUMS = [f"{each}_{side}" for each in ("asked", "answered", "judged", "right") for side in SIDES]


def verdict(store: Store, model: str, versions: Sequence[int], names: Mapping[str, str]) -> dict[str, Any]:
    """The feedback on these versions of a model; `names` of breeds by id, as far as known. Raises Unavailable."""
    totals = store.read(
        "SELECT version, level, size, verdict, is_right, holds, answers FROM totals WHERE model = ?", model
    )
    query = f"SELECT id, label, first, second, started, ended, test, {', '.join(SUMS)} FROM splits WHERE model = ? ORDER BY id"
    reports = [
        {
            **_version([row[1:] for row in totals if row[0] == each]),
            "version": each,
            "corrections": _corrections(store, model, each, names),
        }
        for each in sorted(versions)
    ]
    found = [each for each in reports if each["said"]]
    splits = [_comparison(*row) for row in store.read(query, model) if row[2] in versions and row[3] in versions]
    typed = store.read(
        "SELECT text, count(*) FROM feedback WHERE model = ? AND text IS NOT NULL "
        "GROUP BY text COLLATE NOCASE ORDER BY count(*) DESC, text LIMIT ?",
        model,
        SHOWN,
    )
    return {
        "answers": sum(sum(each["said"].values()) for each in found),
        "versions": found,
        "comparisons": splits,
        "typed": [{"text": text, "times": times} for text, times in typed],
    }


def _version(rows: Sequence[tuple[str, int, str, int, int, int]]) -> dict[str, Any]:
    """`said`: how many people said what; `right` first named breeds of `counted`, where that can be told."""
    said, counted, right = Counter[str](), 0, 0
    levels: dict[str, Counter[str]] = {}
    for level, size, what, is_right, holds, answers in rows:
        said[what] += answers
        counted += answers * (is_right >= 0)
        right += answers * (is_right == 1)
        worth = {
            "answers": answers,
            "right": answers * (is_right == 1),
            "holds": answers * (holds == 1),
            "breeds": answers * size,
        }
        levels.setdefault(level, Counter()).update(worth)
    return {
        "said": dict(+said),
        "right": right,
        "counted": counted,
        "share": wilson(right, counted) if counted else None,
        "levels": {
            level: {**each, "breeds": each["breeds"] / each["answers"]}
            for level, each in levels.items()
            if each["answers"]
        },
    }


def _corrections(store: Store, model: str, version: int, names: Mapping[str, str]) -> list[dict[str, Any]]:
    columns = "SELECT answered, said, times FROM corrections"
    query = f"{columns} WHERE model = ? AND version = ? AND times > 0 ORDER BY times DESC LIMIT ?"
    found = store.read(query, model, version, SHOWN)
    return [{"answered": _name(answered, names), "said": _name(said, names), "times": n} for answered, said, n in found]


def _name(text: str, names: Mapping[str, str]) -> str:
    return names.get(text, text.replace("_", " "))


def _comparison(
    number: int, label: str, first: int, second: int, started: str, ended: str | None, state: str, *sums: int
) -> dict[str, Any]:
    """A split: its sums by phone, for the first and the second version, and what can be said of them."""
    pairs = [list(pair) for pair in zip(sums[::2], sums[1::2], strict=True)]
    asked, answered, judged, right = pairs
    test, versions, p = SequentialTest(**json.loads(state)), (first, second), p_of_rates(answered, asked)
    is_stopped = p < P_OF_RATES
    better = None if is_stopped or test.better is None else versions[test.better]
    more = test.votes_needed(right, judged) if test.better is None and ended is None else None
    return {
        "kind": "split",
        "split": number,
        "label": label,
        "versions": versions,
        "started": started,
        "ended": ended,
        "asked": asked,
        "answered": answered,
        "rates": [got / of if of else None for got, of in zip(answered, asked, strict=True)],
        "p_of_rates": p,
        "counted": judged,
        "right": right,
        "shares": [wilson(good, of) if of else None for good, of in zip(right, judged, strict=True)],
        "evidence": test.evidence(),
        "decided_at": test.decided_at,
        "better": better,
        "more": more,
        "sentence": _sentence(versions, better, is_stopped, more, test.decided_at),
    }


def _sentence(versions: tuple[int, int], better: int | None, is_stopped: bool, more: int | None, at: int | None) -> str:
    both = f"version {versions[0]} and version {versions[1]}"
    if is_stopped:
        return f"No verdict: people answer at different rates for {both}, so those who answered cannot be compared."
    if better is not None:
        return (
            f"Version {better} is better than version {sum(versions) - better}: of those who answered, more found its first "
            f"breed right (known at {at:,} votes)."
        )
    if more is None:
        return f"The split ended before {both} could be told apart."
    return (
        f"Not enough yet to tell {both} apart: about {more:,} more answers, each of another phone, if the difference stays "
        "what it is."
    )
