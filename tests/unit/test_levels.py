"""What an answer claims: a breed, a group, a set, or that no breed fits."""

import json
from dataclasses import replace

import numpy as np
import pytest
from dogsnap.serving.answers.levels import LARGEST_SET, Level, Levels, top_z_score
from support.twelve_breeds import DECISION, HUSKIES, IDS, LABELS, LEVELS, probabilities

GENERATOR = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("given", "level", "held"),
    [
        ({"n5": 0.95}, Level.BREED, ["n5"]),
        ({"n0": 0.95}, Level.BREED, ["n0"]),
        ({"n0": 0.5, "n1": 0.35}, Level.GROUP, ["n0", "n1"]),
        ({"n5": 0.5, "n0": 0.35}, Level.SET, ["n5", "n0"]),
        ({"n5": 0.85}, Level.SET, ["n5"]),
        ({"n0": 0.89, "n5": 0.1}, Level.SET, ["n0", "n5"]),  # one row is no group
        (
            {"n5": 0.2, "n6": 0.19, "n7": 0.18, "n8": 0.17, "n9": 0.16},
            Level.SET,
            ["n5", "n6", "n7", "n8", "n9"],
        ),
        (
            {f"n{number}": 0.16 for number in range(6)},
            Level.UNKNOWN,
            [f"n{number}" for number in range(6)],
        ),
    ],
)
def test_an_answer_claims_the_first_level_that_holds(given, level, held):
    claim = LEVELS.claim(probabilities(**given))
    assert (claim.level, [IDS[place] for place in claim.held]) == (level, held)


def test_more_breeds_than_a_set_may_have_are_not_sure_and_a_set_is_never_empty():
    generous = Levels(replace(DECISION, unknown=0.0), [HUSKIES], IDS)
    claim = generous.claim(probabilities(**{f"n{number}": 0.16 for number in range(6)}))
    assert (claim.level, len(claim.held)) == (Level.UNSURE, LARGEST_SET + 1)
    strict = Levels(replace(DECISION, set=0.99), [], IDS)
    assert [IDS[place] for place in strict.claim(probabilities(n4=0.5)).held] == ["n4"]


def test_the_group_of_the_first_breed_comes_with_the_sum_of_its_members():
    claim = LEVELS.claim(probabilities(n1=0.5, n0=0.25))
    assert claim.group is HUSKIES
    assert claim.group_probability == pytest.approx(0.75 + 0.25 / 10)
    alone = LEVELS.claim(probabilities(n7=0.5, n0=0.25))
    assert (alone.group, alone.group_probability) == (None, 0.0)


def test_how_far_the_first_stands_out_does_not_depend_on_the_temperature():
    logits = GENERATOR.normal(size=(5, 12))
    sharp, soft = (
        np.exp(logits / t) / np.exp(logits / t).sum(-1, keepdims=True) for t in (0.5, 2.0)
    )
    assert top_z_score(sharp) == pytest.approx(top_z_score(soft))
    assert top_z_score(sharp) == pytest.approx((logits.max(-1) - logits.mean(-1)) / logits.std(-1))
    assert np.isfinite(top_z_score(np.full(12, 1 / 12)))
    assert np.isfinite(top_z_score(np.eye(12)[3]))


@pytest.mark.parametrize(
    ("decision", "level"),
    [({}, Level.UNSURE), ({"confident_threshold": 0.9}, Level.BREED)],
)
def test_a_version_without_thresholds_of_groups_names_a_breed_or_none(decision, level):
    claim = Levels.read({"decision": decision}).claim(probabilities(n0=0.95))
    assert (claim.level, claim.group, claim.held) == (level, None, None)


def test_a_group_whose_first_breed_is_nearly_sure_is_not_told():
    levels = Levels(replace(DECISION, confident=0.97), [HUSKIES], IDS)
    assert levels.claim(probabilities(n0=0.92, n1=0.06)).level is Level.GROUP
    assert levels.claim(probabilities(n0=0.94, n1=0.05)).level is Level.SET


def test_levels_are_read_as_export_writes_them():
    written = [{**vars(HUSKIES), "members": list(HUSKIES.members)}]
    read = Levels.read(
        json.loads(
            json.dumps({"labels": LABELS, "decision": DECISION.to_json(), "groups": written})
        )
    )
    assert read.decision == DECISION
    assert read.groups == (HUSKIES,)
    assert read.claim(probabilities(n0=0.5, n1=0.35)).level is Level.GROUP


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"groups": [{"id": "a", "name": "a", "name_zh": "", "members": ["n0", "other"]}]},
            "groups: breed other is no label",
        ),
        (
            {
                "groups": [
                    {"id": str(k), "name": "", "name_zh": "", "members": ["n0", "n1"]}
                    for k in (1, 2)
                ]
            },
            "breed n0",
        ),
    ],
)
def test_levels_that_are_not_whole_are_refused_with_what_is_wrong(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        Levels.read({"labels": LABELS, "decision": DECISION.to_json(), **changes})
