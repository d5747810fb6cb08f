"""The statistics behind a verdict: published examples, and simulated crowds whose report is read every day of a year."""

import itertools
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import comb
from pathlib import Path

import numpy as np
import pytest
from dogsnap.errors import FailedPrecondition
from dogsnap.serving.answers.claims import BREED, judge
from dogsnap.serving.feedback.comparison import (
    P_OF_RATES,
    count,
    gains,
    new_tally,
    p_of_rates,
    votes_needed,
    wilson,
)
from dogsnap.serving.feedback.report import verdict
from dogsnap.serving.feedback.store import TIME, Store
from support.feedback_ids import ARMS, DOGS, row

ROWS = list(
    itertools.product((1, 5, 20), (0, 0.1, 0.3), (0.5, 0.1))
)  # answers of a phone, their correlation, share
PHONES = 2000
DAYS = 365
SAYS_RIGHT, CORRECTS = 0.8, 2 / 3  # a third of people leave a wrong answer uncorrected


@dataclass
class Crowd:
    """Phones by their side (0 or 1), and their answers in the order of time: when (days), right or not, with feedback or not."""

    share: float
    side: np.ndarray
    days: np.ndarray
    right: np.ndarray
    said: np.ndarray


def crowd(
    seed: int, phones: int, answers: int, correlation: float, share=0.5, accuracy=(0.9, 0.9)
) -> Crowd:
    """Each phone gets so many `answers`; whether two of one phone are right correlates (a beta distribution of its share)."""
    chance = np.random.default_rng(seed)
    side = (chance.random(phones) < share).astype(int)
    of_phone = np.array(accuracy)[side]
    if correlation:
        size = (1 - correlation) / correlation
        of_phone = chance.beta(of_phone * size, (1 - of_phone) * size)
    right = chance.random((phones, answers)) < of_phone[:, None]
    said = chance.random((phones, answers)) < np.where(right, SAYS_RIGHT, SAYS_RIGHT * CORRECTS)
    return Crowd(share, side, np.sort(DAYS * chance.random((phones, answers))), right, said)


def decision(side: np.ndarray, right: np.ndarray) -> tuple[int | None, int | None]:
    """After how many of these votes the test decides (None: never), and for which side."""
    tally = new_tally()
    for number, (own, is_right) in enumerate(zip(side.tolist(), right.tolist(), strict=True), 1):
        count(tally, own, counted=1, right=is_right)
        if tally["better"] is not None:
            return number, tally["better"]
    return None, None


def winner(given: Crowd) -> int | None:
    """The version (1 or 2) that a report names on any day, by the functions that decide, over the phones' first feedback."""
    votes = np.flatnonzero(given.said.any(axis=1))
    first = given.said[votes].argmax(axis=1)
    days, right = given.days[votes, first], given.right[votes, first]
    order = np.argsort(days)
    number, found = decision(given.side[votes][order], right[order])
    if number is None:
        return None
    for day in range(int(days[order][number - 1]) + 1, DAYS + 1):
        asked = [int((given.days[given.side == each, 0] < day).sum()) for each in (0, 1)]
        answered = [int((days[given.side[votes] == each] < day).sum()) for each in (0, 1)]
        if p_of_rates(answered, asked) >= P_OF_RATES:
            return 1 + found
    return None


def winner_in_store(given: Crowd) -> int | None:
    """The same by a store of feedback that keeps rows for 30 days, and is swept and read every day.

    Version 1 names one breed each time, version 2 mostly sets.
    """
    store = Store(Path(":memory:"), 30)
    start = datetime.now(UTC) - timedelta(days=DAYS)
    store.follow({ARMS})
    found = None
    order = [divmod(int(place), given.days.shape[1]) for place in np.argsort(given.days, axis=None)]
    for day, answers in itertools.groupby(enumerate(order), lambda each: int(given.days[each[1]])):
        answered_at = (start + timedelta(days=day)).strftime(TIME)
        for number, (phone, place) in answers:
            version, is_right = 1 + int(given.side[phone]), bool(given.right[phone, place])
            store.ask([(1, str(phone), version)])
            if not given.said[phone, place]:
                continue
            level = "set" if version == 2 and number % 10 < 7 else "breed"
            breeds, said = ("a", "b") if level == "set" else ("a",), "a" if is_right else "b"
            first_right, holds = judge(level, breeds, BREED, said)
            more = {
                "level": level,
                "breeds": json.dumps(breeds),
                "breed": said,
                "holds": holds,
                "phone": str(phone),
            }
            store.add(row(number, version, first_right, answered_at=answered_at, **more))
        store.sweep()
        found = found or verdict(store, DOGS, [1, 2], {})["comparisons"][0]["better"]
    store.close()
    return found


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "feedback.db", 30)
    yield store
    store.close()


def test_a_share_has_the_published_interval():
    """Newcombe 1998 (Statistics in Medicine 17, 857), table I, method 3: 81 of 263."""
    found = wilson(81, 263)
    assert (round(found["low"], 4), round(found["high"], 4)) == (0.2553, 0.3662)


def test_rates_are_compared_by_the_published_chi_square():
    """Agresti, Categorical Data Analysis, on aspirin and heart attacks: 189 of 11,034 and 104 of 11,037 give 25.01."""
    assert p_of_rates((189, 104), (11_034, 11_037)) == pytest.approx(5.7e-7, rel=0.02)
    assert (
        p_of_rates((5, 0), (5, 0)) == p_of_rates((5, 5), (5, 5)) == p_of_rates((0, 0), (5, 5)) == 1
    )


@pytest.mark.parametrize("of_right", [0, 3, 8, 12])
@pytest.mark.parametrize("of_second", [0, 2, 7, 12])
def test_the_evidence_of_a_block_is_1_on_average_whoever_votes_the_more(of_right, of_second):
    """On this the guarantee stands: 12 votes of equal versions, so many right and so many of the second version."""
    most = min(of_right, of_second)
    mean = sum(
        comb(of_right, a)
        * comb(12 - of_right, of_second - a)
        / comb(12, of_second)
        * np.exp(gains([of_right - a, a], [12 - of_second, of_second]))
        for a in range(max(0, of_right + of_second - 12), most + 1)
    )
    assert mean == pytest.approx(np.ones(10))


@pytest.mark.parametrize("second", [(0.4, 0.4), (0.2, 0.8)])
def test_equal_versions_whose_photos_become_harder_name_no_winner_though_one_gets_more_answers(
    second,
):
    """Both are right of 95 % at first and of 60 % at last; the second one has another share of the votes, or a growing one."""
    false = 0
    for seed in range(200):
        chance = np.random.default_rng(seed)
        side = (chance.random(3000) < np.linspace(*second, 3000)).astype(int)
        false += decision(side, chance.random(3000) < np.linspace(0.95, 0.6, 3000))[1] is not None
    print(f"{false} of 200 name a winner")
    assert false <= 18  # more has a probability of 1 % at 5 % each


def phones_needed(runs: int, accuracy: tuple, counted: tuple) -> tuple[list[int], list[int | None]]:
    """By how many of 20,000 phones in halves the runs decide, sorted, and for which side; not all of their votes count."""
    decided, sides = [], []
    for seed in range(runs):
        chance = np.random.default_rng(seed)
        side = (chance.random(20_000) < 0.5).astype(int)
        right = chance.random(20_000) < np.array(accuracy)[side]
        counts = np.flatnonzero(chance.random(20_000) < np.array(counted)[side])
        number, found = decision(side[counts], right[counts])
        decided.append(int(counts[number - 1]) + 1 if number else 20_000)
        sides.append(found)
    return sorted(decided), sides


@pytest.mark.parametrize(
    ("runs", "accuracy", "counted", "most"),
    [
        (40, (0.85, 0.9), (0.9, 0.7), 3500),
        (40, (0.85, 0.95), (1, 0.5), 1000),
        pytest.param(1000, (0.85, 0.9), (1, 1), 1650, marks=pytest.mark.long),
    ],
)
def test_versions_are_told_apart_also_where_one_has_more_votes_that_count(
    runs, accuracy, counted, most
):
    """Of sets and groups "right" is no vote that counts: how many do depends on the levels of a version."""
    phones, sides = phones_needed(runs, accuracy, counted)
    print(
        f"half the runs decide by {phones[runs // 2]} phones, 8 of 10 by {phones[runs * 8 // 10]}"
    )
    assert phones[runs // 2] < most
    assert sides.count(1) >= int(0.99 * runs)


def test_what_is_missing_is_about_what_it_takes():
    tally, taken = new_tally(), []
    assert votes_needed(tally) > 100
    for place in range(80):
        side = place % 2
        count(tally, side, counted=1, right=place % 20 // 2 >= (2, 0)[side] + (place < 40 and side))
    told = votes_needed(tally)
    for seed in range(30):
        chance = np.random.default_rng(seed)
        side = (chance.random(5000) < 0.5).astype(int)
        number, _ = decision(side, chance.random(5000) < np.array([0.8, 0.95])[side])
        taken += [number - 80] if number > 80 else []
    print(f"told {told} more, on average it took {sum(taken) / len(taken):.0f}")
    assert (tally["counted"], tally["right"]) == ([40, 40], [32, 38])
    assert 0.4 < told / (sum(taken) / len(taken)) < 2.5


def test_a_verdict_that_was_found_stays_whatever_comes_after(store):
    store.follow({ARMS})
    for phone in range(1000):
        version, is_early = 1 + phone % 2, phone < 300
        assert store.add(row(phone, version, (version == 2) == is_early)) == ""
    (found,) = verdict(store, DOGS, [1, 2], {})["comparisons"]
    assert (found["better"], found["right"], found["counted"]) == (2, [350, 150], [500, 500])


def votes_by_sides(store, phones: range) -> None:
    for phone in phones:
        store.add(row(phone, 1 + phone % 2, phone % 2 == 1))


def test_votes_that_are_taken_back_are_gone_from_sums_blocks_and_what_was_found_also_after_the_split(
    store,
):
    store.follow({ARMS})
    votes_by_sides(store, range(107))
    store.add(row(200, 1, None))
    (before,) = verdict(store, DOGS, [1, 2], {})["comparisons"]
    assert (before["better"], before["answered"]) == (2, [55, 53])
    store.follow(set())
    assert store.forget([str(number) for number in range(1000)]) == 108
    told = verdict(store, DOGS, [1, 2], {})
    (after,) = told["comparisons"]
    assert (after["better"], after["asked"]) == (None, [55, 53])
    assert [after[name] for name in ("answered", "counted", "right")] == [[0, 0]] * 3
    assert (told["answers"], told["versions"]) == (0, [])
    ((text,),) = store.run("SELECT tally FROM splits")
    assert json.loads(text)["logs"] == pytest.approx([0] * 10)


def test_a_block_out_of_which_a_vote_is_taken_leaves_the_next_ones_whole(store):
    def vote(*phones: int) -> None:
        for phone in phones:
            store.add(row(phone, 1 + phone % 2, phone % 3 == 0))

    store.follow({ARMS})
    vote(*range(30))
    assert store.forget(["3", "25"]) == 2
    vote(3, *range(30, 45))
    (found,) = verdict(store, DOGS, [1, 2], {})["comparisons"]
    assert found["counted"] == [23, 21]
    ((text,),) = store.run("SELECT tally FROM splits")
    sizes = [sum(block["counted"]) for block in json.loads(text)["blocks"]]
    assert sizes == [19, 20, 5]


def test_feedback_on_a_split_that_is_deleted_can_be_forgotten(store):
    store.follow({ARMS})
    votes_by_sides(store, range(2))
    store.run("DELETE FROM splits")
    assert store.forget(["0", "1"]) == 2


def test_a_phone_that_took_its_vote_back_votes_again(store):
    store.follow({ARMS})
    store.add(row(1, 1, False))
    assert "one vote" in store.add(row(1, 1, True, request_id="again"))
    store.forget(["1", "again"])
    assert store.add(row(1, 1, True, request_id="third")) == ""
    told = verdict(store, DOGS, [1, 2], {})
    assert (told["comparisons"][0]["counted"], told["versions"][0]["counted"]) == ([1, 0], 1)
    assert (told["comparisons"][0]["right"], told["versions"][0]["right"]) == ([1, 0], 1)


@pytest.mark.parametrize(("answers", "correlation"), [(1, 0), (5, 0.1), (20, 0.3)])
def test_a_store_that_is_read_daily_names_the_winner_that_the_votes_name(answers, correlation):
    given = [
        crowd(seed, 200, answers, correlation, accuracy=(0.6, 0.6 + 0.38 * seed)) for seed in (0, 1)
    ]
    assert (
        [winner_in_store(each) for each in given] == [winner(each) for each in given] == [None, 2]
    )


@pytest.mark.parametrize("number", [1, 4, 6])
def test_a_file_of_another_format_is_refused_and_stays_as_it_is(tmp_path, number):
    Store(tmp_path / "feedback.db", 30).close()
    with closing(sqlite3.connect(tmp_path / "feedback.db")) as connection:
        connection.execute(f"PRAGMA user_version={number}")
        with pytest.raises(
            FailedPrecondition, match=f"format {number}; this version has format 5: choose another"
        ):
            Store(tmp_path / "feedback.db", 30)
        assert connection.execute("PRAGMA user_version").fetchall() == [(number,)]


@pytest.mark.parametrize(
    ("runs", "most"),
    [
        (40, 6),
        pytest.param(1000, 50, marks=pytest.mark.long),
    ],  # of 40, more has a probability of 1 % at 5 % each
)
@pytest.mark.parametrize(("answers", "correlation", "share"), ROWS)
def test_of_years_of_equal_versions_read_daily_few_name_a_winner(
    answers, correlation, share, runs, most
):
    false = sum(
        winner(crowd(seed, PHONES, answers, correlation, share)) is not None for seed in range(runs)
    )
    print(
        f"{answers} answers, correlation {correlation}, share {share}: {false} of {runs} false verdicts"
    )
    assert false <= most
