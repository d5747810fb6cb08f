"""What people say about answers, in a browser: one tap or a search in the app."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest
from phone import DEVICE, serious_violations
from playwright.sync_api import expect
from support import colour_photos, tiny_models
from support.real_model import built_models
from support.waiting import wait_until

pytestmark = pytest.mark.early

COLOURS = {"c1": colour_photos.RED, "c2": colour_photos.GREEN, "c3": colour_photos.BLUE}


@pytest.fixture(scope="module")
def models(tmp_path_factory, colour_models):
    """Versions 1 and 2 answer alike; version 3 takes red for green and green for red."""
    built_models()
    folder = tmp_path_factory.mktemp("models")
    dogs = shutil.copytree(colour_models / "inception_v3", folder / "inception_v3")
    tiny_models.confused(dogs / "2", 3)
    breeds = [
        {
            **each,
            "other_names": [f"{each['id']} hound"],
            "other_names_zh": [f"{each['name_zh']}别名"],
        }
        for each in tiny_models.COLOURS
    ]
    (folder / "breeds.json").write_text(json.dumps(breeds), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def server(start_server, models, tmp_path_factory):
    file = tmp_path_factory.mktemp("feedback") / "feedback.db"
    server = start_server(models, "--feedback", str(file))
    server.feedback = file
    return server


@pytest.fixture
def file(server):
    """The server's file, without what was said before the test."""
    with closing(sqlite3.connect(server.feedback)) as connection, connection:
        connection.execute("DELETE FROM feedback")
    return server.feedback


@pytest.fixture
def photos(tmp_path):
    """A photo of each colour's dog, by its breed."""
    for name, colour in COLOURS.items():
        (tmp_path / f"{name}.jpg").write_bytes(
            colour_photos.encode(colour_photos.plain(colour), "JPEG")
        )
    return {name: tmp_path / f"{name}.jpg" for name in COLOURS}


def rows(file) -> list[dict]:
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM feedback ORDER BY number")]


def correct(phone, words: str, name: str) -> None:
    """Say that it is another dog, found by these words."""
    phone.open("wrong", ".search input").fill(words)
    phone.open(phone.screen.locator(".choice", has_text=name).first, ".feedback .hint")


@DEVICE
def test_an_answer_is_confirmed_by_one_tap_and_corrected_by_a_search(
    open_phone, server, photos, file, device
):
    phone = open_phone(device, server=server)
    phone.snap(photos["c3"])
    assert serious_violations(phone.page) == []
    phone.open("right", ".feedback .hint")
    phone.back()
    phone.snap(photos["c1"])
    phone.open("wrong", ".choice")
    assert phone.screen.locator(".choice").count() == 6
    assert serious_violations(phone.page) == []
    phone.screen.locator(".search input").fill("红犬别名")
    assert phone.screen.locator(".choice .name").all_inner_texts()[0] in ("红犬", "Red dog")
    phone.screen.locator(".search input").fill("C1 hound")
    phone.open(".choice", ".feedback .hint")
    expect(phone.screen.locator(".feedback .said")).to_contain_text(
        "Red dog" if device == "desktop" else "你说：红犬"
    )
    said = [(row["verdict"], row["breed"], row["is_right"]) for row in rows(file)]
    assert said == [("breed", "c3", 1), ("breed", "c1", 0)]
    phone.page.reload()
    phone.screen.locator(".feedback .hint").wait_for()
    phone.back()
    phone.tap("history")
    phone.tap("clear")
    phone.confirm("delete")
    phone.screen.locator(".empty").wait_for()
    phone.page.wait_for_function(
        "() => !JSON.parse(localStorage.getItem('dogsnap:feedbackToForget'))?.length"
    )
    assert rows(file) == []


@pytest.mark.parametrize("locale", ["zh-CN", "en-US"])
def test_what_was_said_stands_everywhere_until_one_tap_takes_it_back(
    open_phone, server, photos, file, locale
):
    phone = open_phone(server=server, locale=locale)
    red, said, undo = (
        ("红犬", "你说：红犬", "撤销")
        if locale == "zh-CN"
        else ("Red dog", "You said: Red dog", "Undo")
    )
    phone.snap(photos["c1"])
    correct(phone, red, red)
    expect(phone.screen.locator(".said")).to_have_text(said)
    phone.page.reload()
    expect(phone.screen.locator(".said")).to_have_text(said)
    assert serious_violations(phone.page) == []
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


def test_a_word_taken_back_without_connection_does_not_take_back_the_next_one(
    open_phone, server, photos, file
):
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
    search = phone.open("wrong", ".search input")
    search.fill("柴" * 70)
    assert len(search.input_value()) == 60
    search.fill("柴犬")
    expect(phone.screen.locator(".hint").first).to_contain_text("柴犬")
    assert serious_violations(phone.page) == []
    phone.tap(phone.screen.locator(".choice"))
    expect(phone.screen.locator(".said")).to_contain_text("柴犬")
    assert [(row["verdict"], row["text"]) for row in rows(file)] == [("other", "柴犬")]
    phone.back()
    expect(phone.screen.locator(".recent-name")).to_have_text("柴犬")


def test_the_settings_page_tells_what_is_asked_and_how_long_kept(
    open_phone, start_server, server, models, photos
):
    phone = open_phone("desktop", server=server)
    phone.tap("settings")
    phone.tap(phone.screen.locator(".more"))
    expect(phone.screen).to_contain_text("for up to 90 days")
    phone = open_phone("desktop", server=start_server(models))
    phone.snap(photos["c3"])
    assert phone.screen.locator(".feedback").count() == 0
    phone.back()
    phone.tap("settings")
    phone.tap(phone.screen.locator(".more"))
    expect(phone.screen).to_contain_text("does not ask whether its answers were right")
