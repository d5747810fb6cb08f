"""The report on feedback, as JSON for command and console: how often each version was right, and which of a split's is better."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from backend.serving.feedback.comparison import P_OF_RATES, Tally, p_of_rates, wilson
from backend.serving.feedback.store import Store

MOST = 10  # corrections of a version, and typed names
LEVELS = """SELECT level, sum(answers) AS answers, sum(answers * (is_right = 1)) AS right, sum(answers * (holds = 1)) AS holds,
    1.0 * sum(answers * size) / sum(answers) AS breeds, sum(answers * (is_right >= 0))"""
CORRECTIONS = "SELECT first, iif(breed = '', verdict, breed) AS said, sum(answers) AS times"
TYPED = f"""SELECT text, count(*) FROM feedback WHERE model = ? AND text IS NOT NULL
    GROUP BY text COLLATE NOCASE ORDER BY count(*) DESC, text LIMIT {MOST}"""


def verdict(store: Store, model: str, versions: Sequence[int], names: Mapping[str, str]) -> dict[str, Any]:
    """The feedback on these versions of a model; `names` of breeds by id, as far as known. Raises Unavailable."""
    found = [each for each in (_version(store, model, each, names) for each in sorted(versions)) if each["said"]]
    query = "SELECT id, label, started, ended, tally, first, second FROM splits WHERE model = ? ORDER BY id"
    return {
        "answers": sum(sum(each["said"].values()) for each in found),
        "versions": found,
        "comparisons": [_comparison(*row) for row in store.read(query, model) if {*row[-2:]} <= {*versions}],
        "typed": [{"text": text, "times": times} for text, times in store.read(TYPED, model)],
    }


def _version(store: Store, model: str, version: int, names: Mapping[str, str]) -> dict[str, Any]:
    """`said`: how many people said what; `right` first named breeds of `counted`, where that can be told."""
    of = "FROM sums WHERE model = ? AND version = ? AND answers > 0"
    said = dict(store.read(f"SELECT verdict, sum(answers) {of} GROUP BY verdict", model, version))
    levels = store.read(f"{LEVELS} {of} GROUP BY level", model, version)
    query = f"{CORRECTIONS} {of} AND is_right = 0 GROUP BY first, said ORDER BY times DESC LIMIT {MOST}"
    right, counted = sum(each[2] for each in levels), sum(each[5] for each in levels)
    return {
        "version": version,
        "said": said,
        "right": right,
        "counted": counted,
        "share": wilson(right, counted) if counted else None,
        "levels": {
            each[0]: dict(zip(("answers", "right", "holds", "breeds"), each[1:5], strict=True)) for each in levels
        },
        "corrections": [
            {"answered": _name(answered, names), "said": _name(correction, names), "times": times}
            for answered, correction, times in store.read(query, model, version)
        ],
    }


def _name(text: str, names: Mapping[str, str]) -> str:
    return names.get(text, text.replace("_", " "))


def _comparison(number: int, label: str, started: str, ended: str | None, text: str, *versions: int) -> dict[str, Any]:
    """A split: its sums by phone, for the first and the second version, and what can be said of them."""
    tally = Tally(**json.loads(text))
    p = p_of_rates(tally.answered, tally.asked)
    better = None if p < P_OF_RATES or tally.better is None else versions[tally.better]
    more = tally.votes_needed() if tally.better is None and ended is None else None
    return {
        "split": number,
        "label": label,
        "versions": versions,
        "started": started,
        "ended": ended,
        "asked": tally.asked,
        "answered": tally.answered,
        "rates": [got / of if of else None for got, of in zip(tally.answered, tally.asked, strict=True)],
        "p_of_rates": p,
        "counted": tally.counted,
        "right": tally.right,
        "shares": [wilson(good, of) if of else None for good, of in zip(tally.right, tally.counted, strict=True)],
        "better": better,
        "more": more,
        "sentence": _sentence(versions, better, p < P_OF_RATES, more, tally.decided_at),
    }


def _sentence(versions: Sequence[int], better: int | None, is_stopped: bool, more: int | None, at: int | None) -> str:
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
