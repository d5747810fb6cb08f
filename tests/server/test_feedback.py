"""What people say about answers: which feedback is taken, what is kept of it, and for how long, as HTTP clients see it."""

import csv
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
import requests
from dogsnap.server.middleware import api_keys
from dogsnap.server.middleware.request_ids import new_id
from dogsnap.serving.feedback.feedback_store import COLUMNS
from support import colour_photos, tiny_models
from support.colour_photos import BLUE, GREEN, RED
from support.command_line import dogsnap
from support.feedback_ids import SECRET, signed
from support.process_readings import sample, worker_of
from support.refusals import assert_refused
from support.small_disk import fill, small_disk
from support.waiting import wait_until

pytestmark = pytest.mark.early

PHOTOS = {name: colour_photos.encode(colour_photos.plain(colour), "JPEG") for name, colour in
          (("c1", RED), ("c2", GREEN), ("c3", BLUE))}  # fmt: skip
MODEL = "inception_v3"


@pytest.fixture(scope="module")
def models(tmp_path_factory, colour_models):
    """Version 2 tells red, green and blue apart; version 3 takes red for green and green for red."""
    folder = tmp_path_factory.mktemp("models")
    dogs = shutil.copytree(colour_models / MODEL, folder / MODEL)
    tiny_models.confused(dogs / "2", 3)
    return folder


@pytest.fixture
def start(start_server, models, tmp_path):
    """A function that starts a server that takes feedback in `tmp_path`."""

    def start(*flags, file=tmp_path / "feedback.db", **options):
        return start_server(
            models, "--feedback", file, "--feedback-secret", SECRET, *flags, **options
        )

    return start


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("feedback") / "feedback.db"


@pytest.fixture(scope="module")
def server(start_server, models, file):
    return start_server(models, "--feedback", file, "--feedback-secret", SECRET)


def classify(server, photo: str = "c1", **sent) -> requests.Response:
    response = server.classify(PHOTOS[photo], **sent)
    assert response.status_code == 200, response.text
    return response


def say(server, request_id, headers=None, **said) -> requests.Response:
    return server.post("/api/feedback", json={"request_id": request_id, **said}, headers=headers)


def query(file, statement: str = "SELECT * FROM feedback ORDER BY number") -> list[sqlite3.Row]:
    """What a statement returns, which also may change the file."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(statement).fetchall()


def rows(file) -> list[dict]:
    return [dict(row) for row in query(file)]


def kill(server) -> None:
    """kill -9 for the server and its worker."""
    worker = worker_of(server)
    server.process.send_signal(signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    server.process.wait(60)


def printed(server) -> str:
    """What the command prints of the verdict."""
    return dogsnap("models", "verdict", "--url", server.url).output


def admin(server, path, **fields) -> None:
    answer = server.post(f"/api/admin/models/{MODEL}/{path}", json=fields)
    assert answer.status_code == 200, answer.text


def verdict(server) -> dict:
    return server.get("/api/admin/verdict").json()


def test_the_request_id_of_an_answer_takes_feedback_once(server, file):
    response = classify(server)
    answer, before = response.json(), rows(file)
    assert answer["request_id"] == answer["feedback_id"] == response.headers["X-Request-Id"]
    assert re.fullmatch(r"[0-9a-f]{16}\.[A-Za-z0-9._-]{1,300}", answer["request_id"])
    assert answer["feedback_asked"] is True
    assert say(server, answer["request_id"], verdict="right").status_code == 200
    repeated = say(server, answer["request_id"], verdict="no_dog")
    assert_refused(repeated, 409, "already given")
    assert len(rows(file)) == len(before) + 1
    for _ in range(
        2
    ):  # a client's own id stays, and a signed one stands beside it; a proxy may send the same again
        answer = classify(server, headers={"X-Request-Id": "proxy-7"}).json()
        assert answer["request_id"] == "proxy-7"
        assert say(server, "proxy-7", verdict="right").status_code == 400
        assert say(server, answer["feedback_id"], verdict="right").status_code == 200


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_log_has_the_part_of_a_feedback_id_before_the_dot(start, log_format):
    server = start("--access-log", "--log-format", log_format)
    answer = classify(server).json()
    say(server, answer["feedback_id"], verdict="right")
    say(server, answer["feedback_id"], verdict="right")
    number, _, signed_part = answer["feedback_id"].partition(".")
    lines = [line for line in server.log().splitlines() if number in line]
    assert len(lines) == 1
    assert "/api/classify" in lines[0]
    assert signed_part not in server.log()


def test_answers_and_errors_of_other_paths_and_of_a_server_without_the_setting_keep_short_ids(
    server, colour_server
):
    assert re.fullmatch("[0-9a-f]{16}", server.get("/api/models").headers["X-Request-Id"])
    assert re.fullmatch("[0-9a-f]{16}", server.classify(b"no photo").json()["request_id"])
    answer = classify(colour_server).json()
    assert ("feedback_id" in answer, len(answer["request_id"])) == (False, 16)
    assert_refused(say(colour_server, signed(), verdict="right"), 404, "--feedback")
    assert verdict(colour_server)["feedback"] is None


BAD = [
    {}, {"request_id": 7}, {"request_id": None, "verdict": "right"}, {"request_id": "", "verdict": "right"},
    {"request_id": "x" * 64, "verdict": "right"}, {"request_id": "é.ü", "verdict": "right"},
    {"request_id": "\ud800", "verdict": "right"}, {"request_id": ["a"], "verdict": "right"}, {"verdict": "right"},
    {"request_id": "0123456789abcdef.", "verdict": "right"},
]  # fmt: skip
SAID = [
    {}, {"verdict": ""}, {"verdict": "perhaps"}, {"breed": "c9"}, {"breed": ""}, {"breed": 1}, {"breed": ["c1"]},
    {"verdict": "right", "breed": "c1"}, {"verdict": "breed"}, {"verdict": "right", "note": "x"},
    {"verdict": "right", "request_ids": []}, {"breed": "c1'; DROP TABLE feedback; --"}, {"breed": "\ud800"},
    {"verdict": "right", "text": "shiba"}, {"breed": "c1", "text": "shiba"}, {"text": "shiba"},
    {"verdict": "other", "text": "x" * 61}, {"verdict": "other", "text": 7}, {"verdict": "other", "text": "\ud800" * 61},
]  # fmt: skip


def test_forged_repeated_late_and_malformed_feedbacks_change_nothing(server, file):
    given = classify(server).json()["request_id"]
    assert say(server, given, breed="c2").status_code == 200
    good = [classify(server).json()["request_id"] for _ in range(len(SAID))]
    before, metrics = rows(file), sample(server, "dogsnap_feedback_total")
    number, _, rest = given.partition(".")
    swapped = [  # each letter but the last one, two bits of which say nothing
        f"{number}.{rest[:place]}{'A' if rest[place] != 'A' else 'B'}{rest[place + 1 :]}"
        for place in range(len(rest) - 1)
    ]
    forged = [
        "0123456789abcdef.AAAA",
        *swapped,
        f"{new_id()}.{rest}",
        signed(secret=SECRET[::-1]),
        signed(version=4),
    ]
    late = [signed(age) for age in (86_410, 4_000_000, -90_000, -4_000_000)]
    sent = [
        *[(400, each) for each in BAD],
        *[(400, {"request_id": one, **said}) for one, said in zip(good, SAID, strict=True)],
        *[(404, {"request_id": each, "verdict": "right"}) for each in forged],
        *[(400, {"request_id": each, "verdict": "right"}) for each in late],
        (409, {"request_id": given, "verdict": "right"}),
        *[
            (400, body)
            for body in (b"", b"{", b"[]", b"\xff", b"null", b"7", b'"x"', b"[" * 10_000)
        ],
    ]
    with requests.Session() as session:
        for status, body in sent:
            data = body if isinstance(body, bytes) else json.dumps(body)
            answer = session.post(f"{server.url}/api/feedback", data=data, timeout=60)
            assert (answer.status_code, bool(answer.json()["error"])) == (status, True), body
    assert rows(file) == before
    assert sample(server, "dogsnap_feedback_total") == metrics


def test_a_row_holds_what_the_version_and_the_person_said_and_nothing_that_leads_to_anybody(
    server, file
):
    answer = classify(server, "c1", version=2, headers={"X-Request-Key": "a-person"}).json()
    number = answer["request_id"].partition(".")[0]
    assert say(server, answer["request_id"], breed="c2").status_code == 200
    row = rows(file)[-1]
    assert abs(row.pop("probability") - answer["breeds"][0]["probability"]) < 1e-4
    text = server.get("/api/admin/feedback.csv").text
    header, *lines = csv.reader(io.StringIO(text))
    assert header == list(COLUMNS)
    assert [line[0] for line in lines] == [row["request_id"] for row in rows(file)]
    assert (
        dogsnap("models", "feedback", "--url", server.url).output.splitlines() == text.splitlines()
    )
    at = time.mktime(time.strptime(row.pop("answered_at"), "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    assert abs(time.time() - at) < 60
    row.pop("number")
    assert re.fullmatch("[0-9a-f]{16}", row.pop("voter"))
    assert row == {
        "request_id": number, "model": MODEL, "split": 0, "asked": 1, "version": 2, "level": "breed", "breeds": '["c1"]',
        "verdict": "breed", "breed": "c2", "is_right": 0, "holds": 0, "text": None,
    }  # fmt: skip


def test_every_level_is_kept_with_the_breeds_that_it_means_whatever_their_ids(
    start_server, tmp_path
):
    names = ["golden retriever", 'a "quoted", one', "犬/%20?&#"]

    def rename(description: dict) -> None:
        description["labels"] = [
            {**each, "id": name} for each, name in zip(description["labels"], names, strict=True)
        ]

    file, models = tmp_path / "feedback.db", tmp_path / "models"
    two = tiny_models.colours(models / MODEL) / "2"
    tiny_models.with_levels(two, 3)
    tiny_models.changed_version(two, models / MODEL / "4", rename)
    server = start_server(models, "--feedback", file)
    colours = [(200, 0, 0), (200, 200, 0), (200, 0, 200), (150, 150, 150), (2, 2, 2)]
    for colour, said in zip(colours, ("c1", "c2", "c2", "other", "no_dog"), strict=True):
        photo = colour_photos.encode(colour_photos.plain(colour), "PNG")
        answer = server.classify(photo, version=3, headers={"X-Request-Key": str(colour)})
        kind = "breed" if said.startswith("c") else "verdict"
        assert say(server, answer.json()["request_id"], **{kind: said}).status_code == 200
    kept = [
        (row["level"], json.loads(row["breeds"]), row["is_right"], row["holds"])
        for row in rows(file)
    ]
    assert kept[0] == ("breed", ["c1"], 1, 1)
    level, breeds, is_right, holds = kept[1]
    assert (level, sorted(breeds), is_right, holds) == ("group", ["c1", "c2"], breeds[0] == "c2", 1)
    assert (kept[2][0], set(kept[2][1]), kept[2][2:]) == ("set", {"c1", "c3"}, (0, 0))
    assert [(level, right, holds) for level, _, right, holds in kept[3:]] == [
        ("unknown", 0, 1),
        ("no_dog", 1, 1),
    ]
    (version,) = verdict(server)["feedback"]["versions"]
    worth = version["levels"]
    assert {level: each["answers"] for level, each in worth.items()} == dict.fromkeys(worth, 1)
    assert (worth["group"]["holds"], worth["group"]["breeds"], worth["set"]["holds"]) == (1, 2, 0)
    for phone in "ab":
        answer = classify(server, version=4, headers={"X-Request-Key": phone}).json()
        assert answer["breeds"][0]["id"] == names[0]
        assert say(server, answer["feedback_id"], breed=names[1]).status_code == 200
    *_, row = csv.DictReader(io.StringIO(server.get("/api/admin/feedback.csv").text))
    assert (json.loads(row["breeds"]), row["breed"]) == (names[:1], names[1])
    (version,) = (each for each in verdict(server)["feedback"]["versions"] if each["version"] == 4)
    assert version["corrections"][0]["times"] == 2


def test_feedback_is_counted_by_version_and_verdict(server):
    def counted(result: str) -> float:
        return sample(
            server, "dogsnap_feedback_total", f'model="{MODEL}",verdict="{result}",version="2"'
        )

    before = {result: counted(result) for result in ("right", "wrong", "unclear")}
    for said in (
        {"verdict": "right"},
        {"breed": "c1"},
        {"breed": "c3"},
        {"verdict": "wrong"},
        {"verdict": "mix"},
    ):
        assert (
            say(server, classify(server, "c1", version=2).json()["request_id"], **said).status_code
            == 200
        )
    assert {result: counted(result) - before[result] for result in before} == {
        "right": 2,
        "wrong": 2,
        "unclear": 1,
    }


def test_names_of_unknown_breeds_are_kept_in_one_safe_line_and_listed_by_the_verdict(server, file):
    for typed in ("柴犬", "=Shiba\x1b[31m\n inu", "shiba[31m Inu", "x" * 60, "\x00"):
        assert (
            say(
                server, classify(server).json()["request_id"], verdict="other", text=typed
            ).status_code
            == 200
        )
    for given, text, reason in (
        ("other", "柴" * 61, "expected at most 60 characters"),
        ("mix", "柴", "with verdict other alone"),
    ):
        answered = classify(server).json()["request_id"]
        assert_refused(say(server, answered, verdict=given, text=text), 400, reason)
    assert [row["text"] for row in rows(file)][-5:] == [
        "柴犬",
        "Shiba[31m inu",
        "shiba[31m Inu",
        "x" * 60,
        None,
    ]
    typed = verdict(server)["feedback"]["typed"]
    assert (typed[0]["text"].lower(), [each["times"] for each in typed]) == (
        "shiba[31m inu",
        [2, 1, 1],
    )
    assert "1 x 柴犬" in printed(server)


def test_feedback_can_be_deleted_with_its_id(server, file):
    kept, gone = (classify(server).json()["request_id"] for _ in range(2))
    for each in (kept, gone):
        say(server, each, verdict="right")
    for body in ({}, {"request_ids": "x"}, {"request_ids": [1]}, {"request_ids": ["x"] * 1001}):
        assert server.post("/api/feedback/forget", json=body).status_code == 400
    number = gone.partition(".")[0]
    for ids, forgotten in (([number, f"{number}.AAAA"], 0), ([gone, "nonsense"], 1)):
        assert (
            server.post("/api/feedback/forget", json={"request_ids": ids}).json()["forgotten"]
            == forgotten
        )
    ids = {row["request_id"] for row in rows(file)}
    assert kept.partition(".")[0] in ids
    assert number not in ids


def test_what_is_older_than_its_days_is_removed_at_the_start_which_keeps_the_secret(
    start_server, models, tmp_path
):
    file, secret = tmp_path / "feedback.db", tmp_path / "feedback.db.secret"
    flags = ("--feedback", file, "--feedback-days", "1")
    server = start_server(models, *flags)
    ids = [classify(server).json()["request_id"] for _ in range(3)]
    kept = secret.read_text(encoding="ascii")
    assert (stat.S_IMODE(secret.stat().st_mode), len(kept)) == (0o600, 64)
    assert say(server, signed(86_000, secret=kept), verdict="wrong").status_code == 200
    assert say(server, ids[0], verdict="right").status_code == 200
    server.stop()
    query(file, "UPDATE feedback SET answered_at = '2020-01-01T00:00:00Z' WHERE number = 1")
    server = start_server(models, *flags)
    assert [row["number"] for row in rows(file)] == [2]
    assert [tuple(row) for row in query(file, "SELECT verdict, answers FROM sums")] == [
        ("right", 1)
    ]
    assert say(server, ids[1], verdict="right").status_code == 200
    assert secret.read_text(encoding="ascii") == kept


def test_feedback_needs_a_key_and_counts_for_its_rate_and_a_token_opens_what_it_says(
    start, tmp_path
):
    keys = tmp_path / "keys.json"
    key = api_keys.add(keys, "app")
    token = "a-long-random-text"
    flags = ("--api-keys", keys, "--enable-cors", "--rate-limit-key", "7/hour")
    server = start(*flags, environ={"DOGSNAP_ADMIN_TOKEN": token})
    request_id = classify(server, headers={"X-Api-Key": key}).json()["request_id"]
    assert say(server, request_id, verdict="right").status_code == 401
    accepted = say(
        server, request_id, {"X-Api-Key": key, "Origin": "http://other.test"}, verdict="right"
    )
    assert (accepted.status_code, accepted.headers["Access-Control-Allow-Origin"]) == (200, "*")
    for path in ("verdict", "feedback.csv"):
        by_key = {"X-Api-Key": key, "Authorization": None}
        assert server.get(f"/api/admin/{path}", headers=by_key).status_code == 401
        assert (
            server.get(
                f"/api/admin/{path}", headers={"Authorization": f"Bearer {token}"}
            ).status_code
            == 200
        )
    ids = [classify(server, headers={"X-Api-Key": key}).json()["request_id"] for _ in range(2)]
    assert [say(server, each, {"X-Api-Key": key}, verdict="right").status_code for each in ids] == [
        200,
        429,
    ]


def test_a_gateway_takes_feedback_on_what_its_engine_answers(start, start_server, models, tmp_path):
    engine = start_server(models)
    gateway = start("--engine", f"grpc://127.0.0.1:{engine.grpc_port}")
    answer = classify(gateway, "c1").json()
    assert say(gateway, answer["request_id"], breed="c1").status_code == 200
    (row,) = rows(tmp_path / "feedback.db")
    assert (row["version"], row["breeds"], row["is_right"]) == (3, '["c2"]', 0)
    assert verdict(gateway)["feedback"]["versions"][0]["version"] == 3
    assert dogsnap("models", "verdict", "--url", gateway.url).exit_code == 0


def test_kill_9_in_the_middle_of_writes_loses_nothing_that_was_acknowledged(start, tmp_path):
    server = start()
    accepted: list[str] = []
    ids = [signed(10) for _ in range(4000)]

    def write(own: list[str]) -> None:
        with requests.Session() as session, suppress(requests.RequestException):
            for each in own:
                body = {"request_id": each, "verdict": "right"}
                assert (
                    session.post(f"{server.url}/api/feedback", json=body, timeout=60).status_code
                    == 200
                )
                accepted.append(each.partition(".")[0])

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, ids[place::4]) for place in range(4)]
        wait_until(lambda: len(accepted) >= 100)
        kill(server)
    for writer in writers:
        writer.result()
    assert [*query(tmp_path / "feedback.db", "PRAGMA integrity_check")[0]] == ["ok"]
    kept = {row["request_id"] for row in rows(tmp_path / "feedback.db")}
    print(
        f"killed after {len(accepted)} acknowledged: {len(set(accepted) - kept)} lost, {len(kept)} kept"
    )
    assert set(accepted) <= kept
    again = start()
    assert {say(again, each, verdict="right").status_code for each in ids[:8]} == {409}


def test_a_full_disk_costs_the_feedback_alone_and_it_is_taken_once_there_is_room(start, tmp_path):
    with small_disk(tmp_path / "disk", "1m") as disk:
        server = start(file=disk / "feedback.db")
        assert say(server, signed(), verdict="right").status_code == 200
        filler = fill(disk)
        refused = [say(server, signed(), verdict="right") for _ in range(60)]
        assert (refused[-1].status_code, "Retry-After" in refused[-1].headers) == (503, True)
        answer = classify(server).json()
        assert answer["breeds"]
        assert verdict(server)["feedback"]["answers"] == 1 + sum(
            each.status_code == 200 for each in refused
        )
        os.kill(worker_of(server), signal.SIGKILL)
        assert classify(server).json()["breeds"]
        assert say(server, answer["request_id"], verdict="right").status_code == 503
        filler.unlink()
        assert say(server, answer["request_id"], verdict="right").status_code == 200
        assert "disk is full" in server.log()
        server.stop()
        assert [*query(disk / "feedback.db", "PRAGMA integrity_check")[0]] == ["ok"]


def test_a_phone_has_one_vote_on_a_version_and_its_further_feedback_is_kept(start):
    server = start()
    notes = []
    for version in (2, 2, 3, 3, 2):
        answer = classify(server, version=version, headers={"X-Request-Key": "one"}).json()
        told = say(server, answer["feedback_id"], verdict="right").json()
        assert told["kept"] is True
        notes.append(told.get("note", ""))
    assert [bool(note) for note in notes] == [False, True, False, True, True]
    assert notes[1].startswith("each phone has one vote on a version")
    told = verdict(server)["feedback"]
    assert (told["answers"], [each["counted"] for each in told["versions"]]) == (5, [1, 1])


def test_what_people_said_is_told_by_breed_with_an_interval_and_where_versions_are_compared(start):
    server = start()
    for person, (photo, breed) in enumerate(
        [*[("c1", "c1")] * 8, ("c1", "c2"), *[("c3", "c3")] * 3, ("c3", "c1")]
    ):
        headers = {"X-Request-Key": f"person {person}"}
        answer = classify(server, photo, version=2, headers=headers).json()
        assert say(server, answer["feedback_id"], breed=breed).status_code == 200
    (version,) = verdict(server)["feedback"]["versions"]
    breeds = [(each["breed"], each["right"], each["counted"]) for each in version["breeds"]]
    assert breeds == [("red dog", 8, 9), ("blue dog", 3, 4)]
    share = version["breeds"][0]["share"]
    assert (round(share["low"], 3), round(share["high"], 3)) == (0.565, 0.980)  # R: prop.test
    text = printed(server)
    assert re.search(r"red dog +8 +9 +88.9 % +56.5 to 98.0 %", text), text
    assert "which version is better is told by photos with known breeds: dogsnap compare" in text


def test_a_file_of_the_release_before_is_read_and_loses_the_salts_of_its_comparisons(
    start, tmp_path
):
    old = (Path(__file__).parents[1] / "support" / "feedback_format_5.sql").read_text()
    file = tmp_path / "feedback.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(old)
    salt = bytes.fromhex(re.search(r"X'([0-9A-F]{32})'", old)[1])
    assert salt in file.read_bytes()
    server = start()
    for each in tmp_path.glob("feedback.db*"):
        assert salt not in each.read_bytes()
    told = verdict(server)["feedback"]
    counted = {each["version"]: (each["right"], each["counted"]) for each in told["versions"]}
    assert (told["answers"], counted) == (13, {2: (4, 6), 3: (4, 6)})
    assert told["typed"] == [{"text": "shiba inu", "times": 1}]
    assert [row["split"] for row in rows(file)] == [1] * 12 + [0]
    assert query(file, "SELECT name FROM sqlite_master WHERE name IN ('splits', 'phones')") == []
    assert say(server, signed(), verdict="right").status_code == 200
    assert rows(file)[-1]["split"] == 0
    header = server.get("/api/admin/feedback.csv").text.partition("\n")[0].strip()
    assert header == ",".join(COLUMNS)


def test_versions_are_counted_by_one_vote_a_phone_and_not_what_is_taken_back(start):
    server = start()

    def answer_of(phone: str) -> dict:
        return classify(server, "c3", headers={"X-Request-Key": phone}, version=2).json()

    def counted() -> list[tuple]:
        told = verdict(server)["feedback"]
        levels = [each["levels"]["breed"]["answers"] for each in told["versions"]]
        return [told["answers"], *levels, *(each["counted"] for each in told["versions"])]

    first = answer_of("one")
    assert first["feedback_asked"] is True
    say(server, first["feedback_id"], verdict="right")
    assert counted() == [1, 1, 1]
    assert "1 answers with feedback" in printed(server)
    for _ in range(3):
        say(server, answer_of("one")["feedback_id"], verdict="wrong")
    assert counted() == [4, 1, 1]
    say(server, answer_of("another")["feedback_id"], verdict="right")
    assert counted() == [5, 2, 2]
    forget = {"request_ids": [first["feedback_id"]]}
    assert server.post("/api/feedback/forget", json=forget).json()["forgotten"] == 1
    assert counted() == [4, 1, 1]
    say(server, first["feedback_id"], verdict="right")
    assert counted() == [5, 2, 2]


def test_another_version_under_the_same_number_knows_its_own_breeds_and_has_its_own_votes(
    start, tmp_path
):
    models = tmp_path / "models"
    two = tiny_models.colours(models / MODEL) / "2"
    server = start("--models", models)
    answer = classify(server, version=2).json()
    assert say(server, answer["feedback_id"], breed="c2").status_code == 200

    def rename(description: dict) -> None:
        for label in description["labels"]:
            label |= {"id": label["id"].replace("c", "d"), "name": f"new {label['name']}"}

    new = tiny_models.changed_version(two, tmp_path / "new" / "2", rename)
    two.rename(tmp_path / "old")
    wait_until(lambda: server.classify(PHOTOS["c1"], version=2).status_code != 200)
    (tmp_path / "new" / "2" if new is None else new).rename(two)
    wait_until(lambda: server.classify(PHOTOS["c1"], version=2).status_code == 200)
    answer = classify(server, version=2).json()
    assert answer["breeds"][0]["id"] == "d1"
    assert_refused(
        say(server, answer["feedback_id"], breed="c2"), 400, "a breed that the version knows"
    )
    assert say(server, answer["feedback_id"], breed="d2").status_code == 200
    (version,) = verdict(server)["feedback"]["versions"]
    corrections = {(each["answered"], each["said"]) for each in version["corrections"]}
    assert ("new red dog", "new green dog") in corrections
    assert version["counted"] == 1  # what was said of the one before is not of this one


def test_a_shadow_is_compared_by_agreement_without_any_feedback(server):
    admin(server, "default", version=2, force=True)
    admin(server, "shadow", version=3)
    for seen, photo in enumerate(("c1", "c1", "c1", "c3", "c2"), 1):
        classify(server, photo)
        wait_until(
            lambda n=seen: (
                sum(verdict(server)["shadow"][result] for result in ("agree", "differ")) == n
            )
        )
    told = verdict(server)["shadow"]
    assert (told["version"], told["agree"], told["differ"], told["agreement"]) == (3, 1, 4, 0.2)
    assert told["differences"] == [
        {"answered": "red dog", "shadow": "green dog", "times": 3},
        {"answered": "green dog", "shadow": "red dog", "times": 1},
    ]
    assert "3 x red dog in the answer" in printed(server)
    assert server.get("/api/admin/verdict?model=cats").status_code == 404
