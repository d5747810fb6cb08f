"""The report on feedback, as JSON for command and console: how often each
version was right, and which of a split's is better.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from dogsnap.serving.feedback.comparison import P_OF_RATES, SUMS, p_of_rates, votes_needed, wilson
from dogsnap.serving.feedback.store import Store

MOST = 10  # corrections of a version, and typed names
LEVELS = """SELECT level, sum(answers) AS answers, sum(answers * (is_right = 1)) AS right,
    sum(answers * (is_right >= 0)) AS counted, sum(answers * (holds = 1)) AS holds,
    1.0 * sum(answers * size) / sum(answers) AS breeds FROM sums
    WHERE model = ? AND version = ? AND is_vote AND answers > 0 GROUP BY level"""
CORRECTIONS = f"""SELECT first AS answered, iif(breed = '', verdict, breed) AS said, sum(answers) AS times FROM sums
    WHERE model = ? AND version = ? AND is_vote AND answers > 0 AND is_right = 0
    GROUP BY first, said ORDER BY times DESC LIMIT {MOST}"""
ANSWERS = """SELECT ifnull(sum(answers), 0) FROM sums
    WHERE model = ? AND version IN (SELECT value FROM json_each(?))"""
TYPED = f"""SELECT text, count(*) AS times FROM feedback WHERE model = ? AND text IS NOT NULL
    GROUP BY text COLLATE NOCASE ORDER BY times DESC, text LIMIT {MOST}"""
SPLITS = (
    "SELECT id AS split, label, first, second, started, ended, tally FROM splits WHERE "
    "model = ? ORDER BY id"
)


def verdict(
    store: Store, model: str, versions: Sequence[int], names: Mapping[str, str]
) -> dict[str, Any]:
    """The feedback on these versions of a model; `names` of breeds by id, as
    far as known. Raises Unavailable.
    """
    ((answers,),) = store.run(ANSWERS, (model, json.dumps(versions)))  # also what is no vote
    reports = []
    for version in sorted(versions):
        report = _report_version(store, model, version, names)
        if report["levels"]:
            reports.append(report)
    comparisons = []
    for split in store.run(SPLITS, (model,)):
        if split["first"] in versions and split["second"] in versions:
            comparisons.append(_report_split(split))
    typed = [dict(row) for row in store.run(TYPED, (model,))]
    return {
        "answers": answers,
        "versions": reports,
        "comparisons": comparisons,
        "typed": typed,
    }


def _report_version(
    store: Store, model: str, version: int, names: Mapping[str, str]
) -> dict[str, Any]:
    """By votes, one for each phone that was asked: `right` first named breeds
    of `counted`, where that can be told.
    """
    levels = {row["level"]: dict(row) for row in store.run(LEVELS, (model, version))}
    corrections = [dict(row) for row in store.run(CORRECTIONS, (model, version))]
    for correction in corrections:
        for side in ("answered", "said"):
            breed = correction[side]
            correction[side] = names.get(breed, breed.replace("_", " "))
    right = sum(level["right"] for level in levels.values())
    counted = sum(level["counted"] for level in levels.values())
    return {
        "version": version,
        "right": right,
        "counted": counted,
        "share": wilson(right, counted),
        "levels": levels,
        "corrections": corrections,
    }


def _report_split(split: sqlite3.Row) -> dict[str, Any]:
    """A split: its sums by phone, for the first and the second version, and
    what can be said of them.
    """
    versions, tally = (split["first"], split["second"]), json.loads(split["tally"])
    found, p = tally["better"], p_of_rates(tally["answered"], tally["asked"])
    better = None if found is None or p < P_OF_RATES else versions[found]
    more = votes_needed(tally) if found is None and split["ended"] is None else None
    rates = []
    for answered, asked in zip(tally["answered"], tally["asked"], strict=True):
        rates.append(answered / asked if asked else None)
    return {
        "split": split["split"],
        "label": split["label"],
        "started": split["started"],
        "ended": split["ended"],
        **{name: tally[name] for name in SUMS},
        "versions": versions,
        "rates": rates,
        "p_of_rates": p,
        "shares": list(map(wilson, tally["right"], tally["counted"])),
        "better": better,
        "more": more,
        "sentence": _sentence(versions, better, p < P_OF_RATES, more),
    }


def _sentence(
    versions: Sequence[int], better: int | None, is_stopped: bool, more: int | None
) -> str:
    both = f"version {versions[0]} and version {versions[1]}"
    if is_stopped:
        return (
            f"No verdict: people answer at different rates for {both}, so those who "
            "answered cannot be compared."
        )
    if better is not None:
        worse = sum(versions) - better
        return (
            f"Version {better} is better than version {worse}: of those who answered, "
            "more found its first breed right."
        )
    if more is None:
        return f"The split ended before {both} could be told apart."
    return (
        f"Not enough yet to tell {both} apart: about {more:,} more answers, each of "
        "another phone, if the difference stays "
        "what it is."
    )
