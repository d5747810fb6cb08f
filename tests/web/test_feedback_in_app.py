"""What people say about answers, in a browser: one tap or a search in the app, and the console's verdict on a crowd's word."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import colour_photos
import pytest
import requests
import tiny_models
from click.testing import CliRunner
from feedback_ids import SECRET, signed
from phone import LOOKS
from playwright.sync_api import expect
from real_model import built_models
from waiting import wait_until

from backend.cli import main
from backend.serving.feedback.store import COLUMNS

AXE = Path(__file__).parents[2] / "backend/web/node_modules/axe-core/axe.min.js"
COLOURS = {"c1": colour_photos.RED, "c2": colour_photos.GREEN, "c3": colour_photos.BLUE}
TAPPED = 16


@pytest.fixture(scope="module")
def models(tmp_path_factory, colour_models):
    """Versions 1 and 2 answer alike; version 3 takes red for green and green for red."""
    built_models()
    folder = tmp_path_factory.mktemp("models")
    dogs = shutil.copytree(colour_models / "inception_v3", folder / "inception_v3")
    tiny_models.confused(dogs / "2", 3)
    breeds = [
        {**each, "other_names": [f"{each['id']} hound"], "other_names_zh": [f"{each['name_zh']}别名"]}
        for each in tiny_models.COLOURS
    ]
    (folder / "breeds.json").write_text(json.dumps(breeds), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def shared_file(tmp_path_factory):
    return tmp_path_factory.mktemp("feedback") / "feedback.db"


@pytest.fixture(scope="module")
def server(start_server, models, shared_file):
    return start_server(models, "--feedback", str(shared_file))


@pytest.fixture
def file(server, shared_file):
    """The server's file, without what was said before the test."""
    with closing(sqlite3.connect(shared_file)) as connection, connection:
        connection.execute("DELETE FROM feedback")
    return shared_file


@pytest.fixture
def photos(tmp_path):
    """A photo of each colour's dog, by its breed."""
    for name, colour in COLOURS.items():
        (tmp_path / f"{name}.jpg").write_bytes(colour_photos.encode(colour_photos.plain(colour), "JPEG"))
    return {name: tmp_path / f"{name}.jpg" for name in COLOURS}


def rows(file) -> list[dict]:
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM feedback ORDER BY number").fetchall()
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def serious_violations(phone) -> list[str]:
    phone.page.evaluate(AXE.read_text(encoding="utf-8"))
    found = phone.page.evaluate("axe.run()")["violations"]
    return [
        f"{each['id']}: {[node['html'][:160] for node in each['nodes']]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def correct(phone, words: str, name: str) -> None:
    """Say that it is another dog, found by these words."""
    phone.tap("wrong")
    phone.screen.locator(".search input").fill(words)
    phone.tap(phone.screen.locator(".choice", has_text=name).first)
    phone.screen.locator(".feedback .hint").wait_for()


@LOOKS
def test_an_answer_is_confirmed_by_one_tap_and_corrected_by_a_search(open_phone, server, photos, file, device, theme):
    phone = open_phone(device, server=server, color_scheme=theme)
    phone.snap(photos["c3"])
    assert serious_violations(phone) == []
    phone.shoot(f"{device}-{theme}-feedback-open")
    phone.tap("right")
    phone.screen.locator(".feedback .hint").wait_for()
    phone.shoot(f"{device}-{theme}-feedback-given")
    phone.back()
    phone.snap(photos["c1"])
    phone.tap("wrong")
    phone.screen.locator(".choice").first.wait_for()
    assert phone.screen.locator(".choice").count() == 6
    assert serious_violations(phone) == []
    phone.shoot(f"{device}-{theme}-feedback-search")
    phone.screen.locator(".search input").fill("红犬别名")
    assert phone.screen.locator(".choice .name").all_inner_texts()[0] in ("红犬", "Red dog")
    phone.screen.locator(".search input").fill("C1 hound")
    phone.tap(phone.screen.locator(".choice").first)
    phone.screen.locator(".feedback .hint").wait_for()
    expect(phone.screen.locator(".feedback .said")).to_contain_text("Red dog" if device == "desktop" else "你说：红犬")
    assert [(row["verdict"], row["breed"], row["is_right"]) for row in rows(file)] == [
        ("breed", "c3", 1),
        ("breed", "c1", 0),
    ]
    phone.page.reload()
    phone.screen.locator(".feedback .hint").wait_for()
    phone.back()
    phone.tap("history")
    phone.tap("clear")
    phone.confirm("delete")
    phone.screen.locator(".empty").wait_for()
    phone.page.wait_for_function(
        "() => (JSON.parse(localStorage.getItem('dogsnap:feedbackToForget')) || []).length === 0"
    )
    assert rows(file) == []


@pytest.mark.parametrize("locale", ["zh-CN", "en-US"])
def test_what_was_said_stands_in_result_history_first_page_and_card_until_one_tap_takes_it_back(
    open_phone, server, photos, file, locale
):
    phone = open_phone(server=server, locale=locale)
    red, said, undo = ("红犬", "你说：红犬", "撤销") if locale == "zh-CN" else ("Red dog", "You said: Red dog", "Undo")
    phone.snap(photos["c1"])
    correct(phone, red, red)
    expect(phone.screen.locator(".said")).to_have_text(said)
    phone.page.reload()
    expect(phone.screen.locator(".said")).to_have_text(said)
    assert serious_violations(phone) == []
    phone.page.evaluate(
        "() => { navigator.canShare = () => true; navigator.share = async ({title}) => { window.shared = title } }"
    )
    phone.tap("share")
    phone.page.wait_for_function("title => window.shared === title", arg=said)
    phone.back()
    expect(phone.screen.locator(".recent-name")).to_have_text(red)
    phone.tap("history")
    expect(phone.screen.locator(".entry .name")).to_have_text(said)
    phone.tap(phone.screen.locator(".open"))
    phone.tap(phone.screen.get_by_role("button", name=undo))
    phone.button("right").wait_for()
    wait_until(lambda: rows(file) == [])
    phone.tap("right")
    wait_until(lambda: [(row["verdict"], row["is_right"]) for row in rows(file)] == [("breed", 1)])
    phone.back()
    expect(phone.screen.locator(".entry .name")).not_to_have_text(said)


def test_a_word_taken_back_without_connection_does_not_take_back_the_next_one(open_phone, server, photos, file):
    phone = open_phone(server=server)
    phone.snap(photos["c3"])
    phone.tap("right")
    wait_until(lambda: len(rows(file)) == 1)
    phone.context.set_offline(True)
    phone.tap(phone.screen.locator(".undo"))
    phone.button("right").wait_for()
    phone.wait_until(lambda: phone.complaints == ["warning: feedback is forgotten later: offline"])
    phone.complaints.clear()
    phone.context.set_offline(False)
    correct(phone, "红犬", "红犬")
    phone.page.reload()
    phone.screen.locator(".said").wait_for()
    assert [row["breed"] for row in rows(file)] == ["c1"]


def test_a_breed_that_is_not_known_can_be_typed(open_phone, server, photos, file):
    phone = open_phone(server=server)
    phone.snap(photos["c1"])
    phone.tap("wrong")
    search = phone.screen.locator(".search input")
    search.fill("柴" * 70)
    assert len(search.input_value()) == 60
    search.fill("柴犬")
    expect(phone.screen.locator(".hint").first).to_contain_text("柴犬")
    assert serious_violations(phone) == []
    phone.tap(phone.screen.locator(".choice"))
    expect(phone.screen.locator(".said")).to_contain_text("柴犬")
    assert [(row["verdict"], row["text"]) for row in rows(file)] == [("other", "柴犬")]
    phone.back()
    expect(phone.screen.locator(".recent-name")).to_have_text("柴犬")


def test_what_is_no_breed_is_on_top_and_the_ring_around_the_search_is_whole(open_phone, server, photos):
    phone = open_phone("desktop", server=server)
    phone.snap(photos["c1"])
    phone.tap("wrong")
    choices = phone.screen.locator(".choice .name")
    choices.first.wait_for()
    assert choices.all_inner_texts()[:3] == ["A mix of breeds", "A breed that is not here", "Not a dog"]
    phone.screen.locator(".search input").focus()
    ring = phone.screen.locator(".search").evaluate(
        "each => [getComputedStyle(each).outlineStyle, getComputedStyle(each.querySelector('input')).outlineStyle]"
    )
    assert ring == ["solid", "none"]


def test_without_feedback_the_app_asks_for_none_and_says_so(open_phone, start_server, models, photos):
    phone = open_phone("desktop", server=start_server(models))
    phone.snap(photos["c3"])
    assert phone.screen.locator(".feedback").count() == 0
    phone.back()
    phone.tap("settings")
    expect(phone.screen).to_contain_text("does not ask whether its answers were right")


def test_the_settings_page_says_how_long_what_is_kept(open_phone, server):
    phone = open_phone("desktop", server=server)
    phone.tap("settings")
    expect(phone.screen).to_contain_text("for up to 90 days")
    phone.shoot("desktop-light-feedback-settings")


def tap_through(phone, key: str, dog: str, photo) -> None:
    """What one person does by touch; each has a phone of their own, which is known by its key."""
    phone.page.evaluate("key => localStorage.setItem('dogsnap:installKey', JSON.stringify(key))", key)
    phone.snap(photo)
    names = {each["id"]: each["name_zh"] for each in tiny_models.COLOURS}
    if phone.headline() == names[dog]:
        phone.tap("right")
        phone.screen.locator(".feedback .hint").wait_for()
    else:
        correct(phone, names[dog], names[dog])
    phone.back()


def test_the_votes_of_a_split_name_the_better_version(open_phone, browser, start_server, models, photos, tmp_path):
    file = tmp_path / "feedback.db"
    server = start_server(models, "--feedback", str(file), "--feedback-secret", SECRET)

    def comparison() -> dict:
        (found,) = requests.get(f"{server.url}/api/admin/verdict", timeout=60).json()["feedback"]["comparisons"]
        return found

    admin = f"{server.url}/api/admin/models/inception_v3"
    requests.post(f"{admin}/default", json={"version": 2}, timeout=60).raise_for_status()
    requests.post(f"{admin}/split", json={"version": 3, "percent": 50}, timeout=60).raise_for_status()
    # Whoever asks for the verdict has the split noticed at once; by itself it is after seconds, until which no answer counts.
    number = comparison()["split"]
    phone = open_phone(server=server)
    for person in range(TAPPED):
        dog = "c1" if person % 4 < 2 else "c3"
        tap_through(phone, f"person {person}", dog, photos[dog])
    kept = rows(file)
    assert [(row["version"] == 2 or row["breed"] == "c3") for row in kept] == [row["is_right"] for row in kept]
    own = [[row["is_right"] for row in kept if row["version"] == version] for version in (2, 3)]
    found = comparison()
    assert (found["versions"], found["answered"]) == ([2, 3], [len(each) for each in own])
    assert (found["right"], sum(found["asked"])) == ([sum(each) for each in own], TAPPED)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{server.url}/console")
    said = page.locator("section[data-model] p.verdict")
    expect(said).to_contain_text("Not enough yet")
    for place in range(150):
        for version, breed in ((2, "c1"), (3, "c1" if place % 5 else "c2")):
            vote = {"request_id": signed(version=version, split=number, phone=f"{version}-{place}"), "breed": breed}
            requests.post(f"{server.url}/api/feedback", json=vote, timeout=60).raise_for_status()
    page.reload()
    expected = "Version 2 is better than version 3: of those who answered"
    expect(said).to_contain_text(expected)
    page.screenshot(path=phone.screenshots / "console-verdict.png", full_page=True)
    page.close()
    assert expected in CliRunner().invoke(main, ["models", "verdict", "--url", server.url]).output
