"""The report on feedback, as JSON for command and console: how often each
version was right, and each breed that it named.
"""

import json
import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from dogsnap.serving.feedback.feedback_store import Store

Z = NormalDist().inv_cdf(1 - 0.05 / 2)  # of an interval that holds the share in 95 %
MOST = 10  # corrections of a version, and typed names
# Votes on a version, without those on one before it under the same number, by the
# classes that it has now: JSON, null where they are not known.
OF_VERSION = """model = ? AND version = ? AND is_vote AND answers > 0 AND
    (size = 0 OR ?3 = 'null' OR first IN (SELECT value FROM json_each(?3)))"""
LEVELS = f"""SELECT level, sum(answers) AS answers, sum(answers * (is_right = 1)) AS right,
    sum(answers * (is_right >= 0)) AS counted, sum(answers * (holds = 1)) AS holds,
    1.0 * sum(answers * size) / sum(answers) AS breeds FROM sums
    WHERE {OF_VERSION} GROUP BY level"""
CORRECTIONS = f"""SELECT first AS answered, iif(breed = '', verdict, breed) AS said, sum(answers) AS times FROM sums
    WHERE {OF_VERSION} AND is_right = 0
    GROUP BY first, said ORDER BY times DESC LIMIT {MOST}"""
ANSWERS = """SELECT ifnull(sum(answers), 0) FROM sums
    WHERE model = ? AND version IN (SELECT value FROM json_each(?))"""
TYPED = f"""SELECT text, count(*) AS times FROM feedback WHERE model = ? AND text IS NOT NULL
    GROUP BY text COLLATE NOCASE ORDER BY times DESC, text LIMIT {MOST}"""
BREEDS = f"""SELECT first AS breed, sum(answers * (is_right = 1)) AS right, sum(answers) AS counted FROM sums
    WHERE {OF_VERSION} AND is_right >= 0
    GROUP BY first ORDER BY counted DESC, first"""


def wilson(right: int, count: int) -> dict[str, float] | None:
    """The share (`value`) of `right` in `count`, with the limits of Wilson's
    score interval (Wilson 1927); None of none.
    """
    if count == 0:
        return None
    share, weight = right / count, Z * Z / count
    centre = (share + weight / 2) / (1 + weight)
    half = Z / (1 + weight) * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    return {"value": share, "low": max(0.0, centre - half), "high": min(1.0, centre + half)}


def verdict(
    store: Store, model: str, names_of: Mapping[int, Mapping[str, str] | None]
) -> dict[str, Any]:
    """The feedback on these versions of a model; `names_of` each its breeds by id, None
    where they are not known. Raises Unavailable.
    """
    versions = sorted(names_of)
    names: dict[str, str] = {}
    for each in names_of.values():
        names |= each or {}
    ((answers,),) = store.run(ANSWERS, (model, json.dumps(versions)))  # also what is no vote
    reports = []
    for version in versions:
        of = names_of[version]
        classes = json.dumps(None if of is None else list(of))
        report = _report_version(store, model, version, classes, names)
        if report["levels"]:
            reports.append(report)
    typed = [dict(row) for row in store.run(TYPED, (model,))]
    return {
        "answers": answers,
        "versions": reports,
        "comparisons": [],  # votes compare no versions any more; the next release leaves it out
        "typed": typed,
    }


def _report_version(
    store: Store, model: str, version: int, classes: str, names: Mapping[str, str]
) -> dict[str, Any]:
    """By votes, one for each phone that was asked: `right` first named breeds
    of `counted`, where that can be told.
    """
    which = (model, version, classes)
    levels = {row["level"]: dict(row) for row in store.run(LEVELS, which)}
    corrections = [dict(row) for row in store.run(CORRECTIONS, which)]
    for correction in corrections:
        for side in ("answered", "said"):
            breed = correction[side]
            correction[side] = _name(breed, names)
    breeds = []
    for row in store.run(BREEDS, which):
        breed = {**row, "breed": _name(row["breed"], names)}
        breeds.append({**breed, "share": wilson(row["right"], row["counted"])})
    right = sum(level["right"] for level in levels.values())
    counted = sum(level["counted"] for level in levels.values())
    return {
        "version": version,
        "right": right,
        "counted": counted,
        "share": wilson(right, counted),
        "levels": levels,
        "breeds": breeds,
        "corrections": corrections,
    }


def _name(breed: str, names: Mapping[str, str]) -> str:
    """Of a breed, or of what is none: "no dog"."""
    return names.get(breed, breed.replace("_", " "))
