"""The console in Chromium against a real server: what it shows, what its panel switches, and users that are refused."""

import gzip
import json
import re
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from dogsnap.server.middleware import api_keys
from dogsnap.server.protocols.web_app import PAGES
from google.protobuf import text_format
from phone import violations
from playwright.sync_api import expect
from support import colour_photos, tiny_models
from support.administration import console_path
from support.changed_version import changed_version
from support.feedback_ids import SECRET, signed
from support.waiting import wait_until
from tensorflow_serving.config import model_server_config_pb2

pytestmark = pytest.mark.early

TOKEN = "a-long-random-text"
SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def models(tmp_path_factory, colour_models):
    """Dogs in versions 1, 2 and 3, which calls red green; a version 4 that is damaged; and a model without names."""
    folder = tmp_path_factory.mktemp("models")
    dogs = shutil.copytree(colour_models / "inception_v3", folder / "inception_v3")
    tiny_models.confused(dogs / "2", 3)
    (dogs / "4").mkdir()
    (dogs / "4" / "saved_model.pb").write_bytes(b"no model")
    tiny_models.half_plus(2, folder / "half" / "1")
    return folder


@pytest.fixture(scope="module")
def server(start_server, models):
    return start_server(models, "--poll-seconds", "0.3")


@pytest.fixture(scope="module")
def guarded(start_server, models, tmp_path_factory):
    """A server with a token, whose models and app need a key besides."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    api_keys.add(keys, "friends")
    return start_server(models, "--api-keys", str(keys), environ={"DOGSNAP_ADMIN_TOKEN": TOKEN})


@pytest.fixture
def open_console(open_page):
    """Opens it logged in, as `dogsnap console` does; where a test brings a token of its own, logged out."""

    def open_console(server, size="desktop", model=""):
        path = "/console" if server.own_token else console_path(server)
        page = open_page(server, path, SIZES[size])
        if model:
            expect(page.locator("#model-title")).to_be_visible()
            page.goto(f"{server.url}/console#model={model}")
            expect(page.locator(f"#model-title[data-model={model}]")).to_be_visible()
        return page

    return open_console


def card(page, version: int):
    return page.locator(f"article[data-version='{version}']")


def row(page, label: str):
    """What a label, or the default (""), answers with."""
    return page.locator(f"[data-answers='{label}']")


def says(page, text: str) -> None:
    expect(page.locator("#message")).to_contain_text(text)


def would(page, text: str) -> None:
    expect(page.locator("#would")).to_contain_text(text)


def change(page, setting: str, version: str = "", **fields):
    """Opens the panel of a label, "default" or "shadow", and fills it in; returns its button."""
    page.locator(f"#change-{setting}, #change-label-{setting}").click()
    panel = page.locator("#change")
    if version:
        panel.locator("[name=version]").select_option(version)
    for field, value in fields.items():
        if value is True:
            panel.locator(f"[name={field}]").check()
        elif field == "how":
            panel.locator(f"[name=how][value={value}]").check()
        else:
            panel.locator(f"[name={field}]").fill(value)
    return panel.locator("#do")


def do(page, button, words: str, said: str) -> None:
    """The button says what it will do, does it, and the page says that it is done."""
    expect(button).to_have_text(words)
    expect(button).to_be_enabled()
    button.click()
    says(page, said)
    expect(page.locator("#change")).to_be_hidden()


def set_label(page, label: str, version: int) -> None:
    button = change(page, "new", str(version), name=label)
    said = f"label {label} of inception_v3: none -> {version}"
    do(page, button, f"Create {label} at version {version}", said)


def remove_label(page, label: str) -> None:
    do(page, change(page, label, "none"), f"Remove {label}", f"label {label} of inception_v3: ")


def post(server, path: str, **fields) -> dict:
    answer = server.post(f"/api/admin/{path}", json=fields)
    assert answer.ok, answer.text
    return answer.json()


def compare(page, *photos: Path) -> None:
    page.locator("#photos").set_input_files(photos)
    page.get_by_role("button", name="Compare").click()


def test_it_shows_versions_labels_states_and_the_reason_of_a_failed_load(server, open_console):
    page = open_console(server)
    expect(page.locator("nav a")).to_have_text(
        ["half", "inception_v3 version 4 could not be loaded"]
    )
    expect(page.locator("#model-title")).to_have_text("inception_v3")
    expect(row(page, "")).to_contain_text("version 3")
    expect(card(page, 3)).to_contain_text("default")
    expect(card(page, 4)).to_contain_text("failed")
    expect(card(page, 4).get_by_role("button", name="Load")).to_be_visible()
    failed = page.locator(".happens.bad")
    expect(failed).to_contain_text("Version 4 could not be loaded: ")
    expect(failed).to_contain_text("Versions that answer: 3, 2, 1.")
    page.locator("nav a", has_text="half").click()
    expect(page.locator("#model-title")).to_have_text("half")
    assert page.locator("article").count() == 1


def test_requests_errors_and_times_are_in_card_pictures_and_table(server, open_console):
    for value in (1.0, 2.0, "no number"):
        server.post("/v1/models/half/versions/1:predict", json={"instances": [value]})
    page = open_console(server, model="half")
    expect(card(page, 1)).to_contain_text(
        "3 requests in the last 15 minutes, 1 failed (1 refused with 4xx)"
    )
    expect(card(page, 1)).to_contain_text("100.0 % of the requests now")
    assert re.search(r"median \d+\.\d ms", card(page, 1).inner_text())
    expect(page.locator("#plots canvas")).to_have_count(4)
    page.locator("#all-figures summary").click()
    table = page.locator("#all-figures tbody tr")
    expect(table.first).to_be_visible()
    figures = [[int(cell) for cell in line[1:4]] for line in map(cells, table.all())]
    assert [sum(column) for column in zip(*figures, strict=True)] == [3, 1, 0]
    page.locator("#plots").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    told = page.locator(".u-legend .u-value").first
    expect(told).to_have_text(re.compile(r"\d:\d\d:\d\d"))
    before = told.inner_text()
    server.post("/v1/models/half/versions/1:predict", json={"instances": [3.0]})
    refresh(page)
    expect(card(page, 1)).to_contain_text("4 requests in the last 15 minutes")
    expect(told).to_have_text(before)  # they are drawn again, and the cursor stays
    fits = "[...document.querySelectorAll('#plots figure')].every((each) => each.scrollWidth <= each.clientWidth)"
    assert page.evaluate(fits)
    page.get_by_label("a day").check()
    expect(page.locator("#all-figures caption")).to_contain_text("Points of 240 seconds")
    expect(page.locator("#began")).to_contain_text("The figures begin with the start of the server")


def cells(line) -> list[str]:
    return line.locator("td").all_inner_texts()


def test_a_label_is_created_moved_removed_and_the_switch_undone(server, open_console):
    page = open_console(server)
    page.locator("#who").fill("alice")
    page.locator("#who").press("Tab")
    set_label(page, "stable", 2)
    button = change(page, "stable", "3", reason="greener")
    would(page, "Clients would feel it")
    would(page, "version 3 has other places for 2 classes")
    expect(button).to_be_disabled()
    force(page)
    expect(button).to_be_enabled()
    page.locator("#versions").select_option("none")
    would(page, "label stable of inception_v3: 2 -> none")
    page.locator("#versions").select_option("3")
    would(page, "Clients would feel it")
    expect(button).to_be_disabled()  # that was about what was chosen then
    force(page)
    said = "label stable of inception_v3: 2 -> 3 (forced: "
    do(page, button, "Move stable to version 3", said)
    expect(row(page, "stable")).to_contain_text("version 3")
    expect(page.locator(".last")).to_contain_text("by alice 127.0.0.1: label stable")
    newest = page.locator(".log li").first
    expect(newest).to_contain_text("(greener)")
    newest.get_by_role("button", name="Undo: back to 2").click()
    says(page, "label stable of inception_v3: 3 -> 2")
    expect(row(page, "stable")).to_contain_text("version 2")
    expect(page.locator(".log li").first).to_contain_text("(undoes")
    expect(page.locator(".log li").nth(1)).to_have_class("undone")
    page.reload()
    expect(page.locator("#who")).to_have_value("alice")
    remove_label(page, "stable")
    expect(row(page, "stable")).to_have_count(0)


CLICK_AS_SOON_AS_IT_IS_TOLD = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("#would").textContent.includes("was first")) return
  observer.disconnect()
  document.querySelector("#do").click()
}).observe(document.querySelector("#would"), { childList: true })
"""


def click_as_second_of_two(page, button) -> None:
    button.hover()
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)


def refresh(page) -> None:
    page.evaluate("document.querySelector('.spans').dispatchEvent(new Event('change'))")


def load(server, page, version: int, way: str, options: int) -> None:
    """Or unloads it; then the panel lists as many versions, "none" among them."""
    post(server, f"models/inception_v3/versions/{version}/{way}")
    expected = "AVAILABLE" if way == "load" else "END"
    path = f"/v1/models/inception_v3/versions/{version}"
    wait_until(lambda: server.get(path).json()["model_version_status"][0]["state"] == expected)
    refresh(page)
    expect(page.locator("#versions option")).to_have_count(options)


def test_what_somebody_else_changed_meanwhile_is_told_with_who_and_nothing_is_changed(
    server, open_console
):
    page = open_console(server)
    set_label(page, "raced", 1)
    button = change(page, "raced", "2")
    would(page, "label raced of inception_v3: 1 -> 2")
    post(server, "models/inception_v3/default", version=2, force=True, by="bob")
    page.evaluate(CLICK_AS_SOON_AS_IT_IS_TOLD)
    button.click()
    would(page, "bob 127.0.0.1 was first: switch")
    would(page, "label raced of inception_v3: 1 -> 2")  # whoever has looked goes on
    expect(button).to_be_enabled()
    click_as_second_of_two(page, button)
    log = server.get("/api/admin/switches").json()["switches"]
    assert log[0]["by"]["name"] == "bob"
    post(server, "models/inception_v3/default", version=1, force=True, by="dora")
    expect(page.locator(".log li").first).to_contain_text(
        "dora"
    )  # the page follows, what was tried does not
    button.click()
    would(page, "dora 127.0.0.1 was first: switch")
    page.locator("[name=reason]").fill("seen again")
    do(page, button, "Move raced to version 2", "label raced of inception_v3: 1 -> 2 (seen again)")
    page.evaluate("window.realFetch = fetch; window.fetch = (...asked) => new Promise(() => {}); 0")
    post(server, "models/inception_v3/default", version=3, force=True, by="carol")
    page.evaluate("window.fetch = window.realFetch; 0")
    page.locator(".log li").first.get_by_role("button", name="Undo").click()
    says(page, "carol 127.0.0.1 was first")
    page.route("**/console/models*", lambda route: None)  # the page does not know it yet
    post(server, "models/inception_v3/default", version=1, force=True, by="emil")
    change(page, "raced", "1")
    would(page, "emil 127.0.0.1 was first")
    page.unroute("**/console/models*")
    would(page, "This would change")  # it has followed
    page.keyboard.press("Escape")
    post(server, "models/inception_v3/default", version=3, force=True)
    expect(page.locator(".log li").first).to_contain_text("default of inception_v3: 1 -> 3")
    remove_label(page, "raced")


def test_the_chosen_version_stays_when_others_come_and_where_it_is_gone_none_is_chosen(
    server, open_console
):
    page = open_console(server)
    set_label(page, "kept", 3)
    load(server, page, 1, "unload", 3)
    page.locator("#first").select_option("3")
    button = change(page, "kept", "2")
    force(page)
    expect(button).to_be_enabled()
    load(server, page, 1, "load", 4)
    version = page.locator("#versions")
    expect(version).to_have_value("2")
    expect(page.locator("#first")).to_have_value("3")
    button.click()
    would(page, "was first: switch")
    would(page, "label kept of inception_v3: 3 -> 2")
    expect(button).to_have_text("Move kept to version 2")
    expect(page.get_by_label("Switch all the same")).not_to_be_checked()
    expect(button).to_be_disabled()
    load(server, page, 2, "unload", 3)
    would(page, "The version that was chosen is gone")
    expect(button).to_be_disabled()
    assert version.evaluate("list => list.selectedIndex") == -1
    load(server, page, 2, "load", 4)
    page.locator("[name=reason]").fill("none is chosen yet")
    would(page, "The version that was chosen is gone")
    assert version.evaluate("list => list.selectedIndex") == -1
    page.get_by_role("button", name="Cancel").click()
    remove_label(page, "kept")


def test_a_late_answer_leaves_the_panel_that_is_open_by_then_alone(server, open_console):
    page = open_console(server)
    set_label(page, "late", 1)
    held = []

    def hold(route) -> None:
        is_tried = route.request.post_data_json.get("dry_run")
        route.continue_() if is_tried else held.append(route)

    page.route("**/labels/late", hold)
    for by, said in (
        ("bob", "bob 127.0.0.1 was first"),
        ("", "label late of inception_v3: 1 -> 2"),
    ):
        button = change(page, "late", "2")
        expect(button).to_be_enabled()
        button.click()
        page.keyboard.press("Escape")
        change(page, "shadow", "1")
        would(page, "shadow of inception_v3: none -> 1")
        if by:
            post(server, "models/inception_v3/labels/bobs", version=1, by=by)
        held.pop().continue_()
        says(page, said)
        expect(page.locator("#change-title")).to_have_text("Change the shadow of inception_v3")
        would(page, "shadow of inception_v3: none -> 1")
        page.get_by_role("button", name="Cancel").click()
    page.unroute("**/labels/late")
    for label in ("late", "bobs"):
        remove_label(page, label)


def test_the_panel_is_closed_when_the_page_shows_another_model(server, open_console):
    page = open_console(server)
    expect(page.locator("#model-title")).to_have_text("inception_v3")
    page.route("**/console/models?model=half*", lambda route: None)  # it is on its way
    with page.expect_request("**/console/models?model=half*"):
        page.evaluate("location.hash = 'model=half'")
    change(page, "default", "1")
    expect(page.locator("#change-title")).to_have_text("Change the default of inception_v3")
    would(page, "default of inception_v3: ")
    page.unroute("**/console/models?model=half*")  # which lets it through
    expect(page.locator("#model-title")).to_have_text("half")
    expect(page.locator("#change")).to_be_hidden()


def test_the_default_a_share_and_a_shadow_are_chosen_and_ended(server, open_console):
    page = open_console(server)
    of = "of inception_v3: "
    button = change(page, "default", "2")
    force(page)
    do(page, button, "Make version 2 the default", f"default {of}")
    button = change(page, "default", "1", how="share", percent="5")
    force(page)
    do(
        page,
        button,
        "Send 5 % of the default to version 1",
        f"split of the default {of}none -> 5 % to 1",
    )
    expect(row(page, "")).to_contain_text("version 2 95 %, version 1 5 %")
    expect(card(page, 1)).to_contain_text("5 % of default")
    button = change(page, "shadow", "1")
    do(page, button, "Send copies to version 1", f"shadow {of}none -> 1")
    expect(page.locator("#glance ul")).to_contain_text("agreed on 0 of 0 photos")
    row(page, "").get_by_role("button", name="Back to version 2").click()
    says(page, "5 % to 1 -> none")
    button = change(page, "shadow", "none")
    do(page, button, "End the shadow", f"shadow {of}1 -> none")
    button = change(page, "default", "none")
    force(page)
    do(page, button, "Make the largest version the default", f"default {of}2 -> 3")


def force(page) -> None:
    page.get_by_label("Switch all the same").check()


def test_what_is_so_already_or_cannot_be_is_said_while_one_chooses(server, open_console):
    page = open_console(server)
    set_label(page, "steady", 1)
    button = change(page, "steady", "1")
    would(page, "Nothing would change")
    expect(button).to_be_disabled()
    for fields, sentence in (
        ({"how": "steps", "steps": "5, 5"}, "The steps are 5, 5 percent; expected"),
        ({"steps": "5, ten"}, "Fill in what is marked"),
        ({"steps": "5,, 10"}, "The steps are 5, 0, 10 percent; expected"),
        ({"steps": "5, 50", "at": "2020-01-01T03:00"}, "which is over"),
        ({"at": "", "every": "0.001"}, "Fill in what is marked"),
    ):
        page.locator("#change [name=version]").select_option("2")
        for field, value in fields.items():
            if field == "how":
                page.locator(f"[name=how][value={value}]").check()
            else:
                page.locator(f"#change [name={field}]").fill(value)
        expect(page.locator("#would")).to_contain_text(re.compile(re.escape(sentence), re.I))
        expect(button).to_be_disabled()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#change")).to_be_hidden()
    button = change(page, "steady", "3")
    would(page, "Clients would feel it")
    page.keyboard.press("Escape")
    page.locator("#change-new").click()
    expect(page.locator("[name=name]")).to_be_focused()
    expect(page.locator("#felt")).to_be_hidden()  # it was asked of another label
    page.keyboard.press("Escape")
    button = change(page, "new", "1", name="not a label")
    would(page, "Fill in what is marked: letters, digits, _, . or -.")
    expect(button).to_be_disabled()
    page.keyboard.press("Escape")
    remove_label(page, "steady")


def test_a_rollout_is_started_now_or_later_paused_resumed_and_ended(server, open_console):
    page = open_console(server)
    set_label(page, "rolled", 1)
    plan = {"how": "steps", "steps": "5, 50", "every": "0.5"}
    button = change(page, "rolled", "2", **plan, at="2038-01-01T03:00")
    expect(button).to_contain_text("Roll rolled out to version 2 by 5, 50 % from")
    expect(button).to_be_enabled()
    button.click()
    says(page, "none -> to 2 by 5, 50, 100 % from 2038-01-01T")
    rollout = row(page, "rolled").locator(".rollout")
    expect(rollout).to_contain_text("Rollout to 2 by 5, 50, 100 % Jan 1, 2038")
    expect(page.locator(".log li").first).to_contain_text(
        "none -> to 2 by 5, 50, 100 % Jan 1, 2038"
    )
    back = row(page, "rolled").get_by_role("button", name="Back to version 1")
    back.click()
    says(page, "rollout of label rolled of inception_v3: to 2 by 5, 50, 100 %")
    ended = "the rollout of label rolled to version 2 has ended"
    expect(page.locator(".last")).to_contain_text(ended)
    undo = page.locator(".log li").first.get_by_role("button")
    expect(undo).to_have_text("Undo: back to the rollout to 2")
    button = change(page, "rolled", "2", **plan)
    expect(page.locator("#change")).to_contain_text("by steps, each of them guarded")
    do(page, button, "Roll rolled out to version 2 by 5, 50 %", "none -> 5 % to 2; rollout of")
    (running,) = server.get("/api/admin/models/inception_v3").json()["model"]["rollouts"]
    assert (running["label"], running["steps"], running["every"]) == ("rolled", [5, 50, 100], 30)
    expect(rollout).to_have_text(
        re.compile(r"Rollout to 2, step 1 of 3 \(5 %, then 50, 100\); 50 % (in 1|this) minute")
    )
    expect(row(page, "rolled").locator(".guard")).to_contain_text("ersion 2 cannot be judged yet")
    row(page, "rolled").get_by_role("button", name="Pause").click()
    expect(rollout).to_contain_text("paused")
    row(page, "rolled").get_by_role("button", name="Resume").click()
    expect(rollout).not_to_contain_text("paused")
    back.click()
    says(page, "5 % to 2 -> none")
    button = change(page, "rolled", "2", at="2038-01-01T03:00")
    expect(button).to_contain_text("Move rolled to version 2 from")
    expect(button).to_be_enabled()
    button.click()
    says(page, "none -> to 2 by 100 % from 2038")
    back.click()
    says(page, "Z -> none")
    remove_label(page, "rolled")


def test_a_version_is_unloaded_and_loaded_the_page_follows_by_itself_and_a_refusal_is_told(
    server, open_console
):
    page = open_console(server)
    card(page, 1).get_by_role("button", name="Unload").click()
    says(page, "version 1 of inception_v3: ")
    says(page, " -> unloaded")
    expect(card(page, 1)).to_contain_text("end")
    card(page, 1).get_by_role("button", name="Load").click()
    expect(card(page, 1).get_by_role("button", name="Unload")).to_be_visible()
    post(server, "models/inception_v3/labels/used", version=1)
    page.reload()
    expect(card(page, 1)).to_contain_text("used")
    assert card(page, 1).get_by_role("button").count() == 0
    late = """<button id="late" data-post="models/inception_v3/versions/1/unload" data-fields="{}">late</button>"""
    page.locator("#glance").evaluate("(it, html) => it.insertAdjacentHTML('beforeend', html)", late)
    page.locator("#late").click()
    says(page, "version 1 of inception_v3 is in use: used; move that first")
    remove_label(page, "used")


def ask_half(server, number: int) -> None:
    value = -1.0 if number % 7 == 0 else 1.0
    headers = {"X-Request-Key": f"client {number % 200}"}
    server.post("/v1/models/half:predict", json={"instances": [value]}, headers=headers)


def test_a_version_that_fails_15_percent_is_undone_and_banner_and_picture_show_it_in_10_seconds(
    start_server, open_console, tmp_path
):
    tiny_models.half_plus(1, tmp_path / "half" / "1")
    tiny_models.half_of_positive(tmp_path / "half" / "2")
    server = start_server(tmp_path)
    post(server, "models/half/default", version=1)
    page = open_console(server)
    button = change(page, "default", "2", how="share", percent="20", guard=True)
    do(page, button, "Send 20 % of the default to version 2", "none -> 20 % to 2 (guarded)")
    expect(row(page, "").locator(".guard")).to_contain_text("cannot be judged yet")
    number, newest = 0, {}
    while newest.get("by", {}).get("name") != "guard":
        ask_half(server, number)
        number += 1
        if number % 20 == 0:
            newest = server.get("/api/admin/switches").json()["switches"][0]
        assert number < 2000
    undone = time.monotonic()
    banner = page.locator("[data-banner]")
    expect(banner).to_contain_text("version 2 does worse than version 1: ")
    figures = re.search(
        r"(\d+) of \d+ requests failed \(version 1: 0 of \d+\)", banner.inner_text()
    )
    assert int(figures[1]) >= 3
    expect(banner.locator("canvas")).to_be_visible()
    shown = time.monotonic() - undone
    expect(row(page, "")).not_to_contain_text("20 %")
    page.locator("#all-figures summary").click()
    expect(page.locator("#all-figures tbody tr").first).to_be_visible()
    lines = [cells(line) for line in page.locator("#all-figures tbody tr").all()]
    refused = sum(int(line[2]) + int(line[3]) for line in lines if line[0] == "2")
    seconds = time.monotonic() - undone
    print(
        f"the banner came {shown:.1f} s after the undo, the picture showed it after {seconds:.1f}"
    )
    assert refused >= 3
    assert seconds < 10
    expect(banner).to_contain_text("he default sends nothing to version 2 any more")
    for _ in range(20):  # it is in no split now, and its card says how it does
        server.post("/v1/models/half/versions/2:predict", json={"instances": [-1.0]})
    expect(card(page, 2)).to_contain_text(
        re.compile(r"Worse than version 1, the default: \d+\.\d % errors against 0\.0 %")
    )
    expect(card(page, 1)).to_contain_text("others are compared with it")
    last = page.locator(".last")
    expect(last).to_contain_text("by guard: the default sends nothing to version 2 any more")
    assert last.bounding_box()["y"] < banner.bounding_box()["y"]
    assert "Since then" not in banner.inner_text()
    post(server, "models/half/labels/other", version=1)  # it is about another label
    post(server, "models/half/default", version=2, force=True, by="carol")
    expect(banner).to_contain_text(
        re.compile("Since then, .+, carol 127.0.0.1: the default answers with version 2, not 1")
    )
    page.reload()
    expect(banner).to_be_visible()
    banner.get_by_role("button", name="Close").click()
    expect(banner).to_have_count(0)
    page.reload()
    expect(last).to_contain_text("by carol")
    expect(banner).to_have_count(0)


def test_a_banner_of_a_time_before_the_start_of_the_server_says_that_its_picture_is_gone(
    server, open_console
):
    page = open_console(server)
    with page.expect_response("**/console/models*"):
        page.route("**/console/models*", with_undone_switch)
    banner = page.locator("[data-banner]")
    expect(banner).to_contain_text("version 9 is slower than version 8")
    expect(banner).to_contain_text(
        "There is no picture of that time: the server was started after it"
    )


def with_undone_switch(route) -> None:
    response = route.fetch()
    template = (PAGES / "console" / "page.html").read_text()
    sentence = re.search("There is no picture of that time.*?[.]", template)
    banner = f"""<div class="banner" data-banner="7 x"><p>version 9 is slower than version 8</p>
        <div class="plots"><p>{sentence[0]}</p></div></div>"""
    start = '<div id="banners" data-part>'
    route.fulfill(response=response, body=response.text().replace(start, start + banner))


@pytest.fixture
def photos(tmp_path) -> list[Path]:
    """Blue, which versions 2 and 3 call the same; red and green, which they do not; and one that is none."""
    made = []
    for name, colour in (
        ("blue", colour_photos.BLUE),
        ("red", colour_photos.RED),
        ("green", colour_photos.GREEN),
    ):
        made.append(tmp_path / f"{name}.jpg")
        made[-1].write_bytes(colour_photos.encode(colour_photos.plain(colour), "JPEG"))
    return made


@pytest.mark.parametrize("size", SIZES)
def test_photos_are_tried_on_two_versions_and_nothing_is_wider_than_the_screen(
    server, open_console, size, photos, tmp_path
):
    page = open_console(server, size)
    expect(page.locator("#first")).to_have_value("2")  # the older of the newest two first
    expect(page.locator("#second")).to_have_value("3")
    compare(page, *photos)
    outcome = page.locator("#outcome")
    expect(outcome).to_contain_text("Different first answers: 2 of 3.")
    tried = page.locator("#tried > li")
    expect(tried.locator("h3")).to_have_text(
        ["red.jpg different", "green.jpg different", "blue.jpg same"]
    )
    sides = tried.first.locator(".side")
    assert sides.nth(0).locator("li").all_inner_texts()[0].startswith("red dog 9")
    assert sides.nth(1).locator("li").all_inner_texts()[0].startswith("green dog 9")
    assert sides.first.locator("li").count() == 3
    expect(sides.first).to_contain_text("ms")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no photo at all")
    compare(page, bad)
    expect(tried).to_contain_text("xpected a JPEG, PNG")
    expect(outcome).to_contain_text(
        "Different first answers: 0 of 0. Without an answer, at the end: 1."
    )
    many = [photos[0].rename(tmp_path / "0.jpg")]
    many += [Path(shutil.copy(many[0], tmp_path / f"{number}.jpg")) for number in range(1, 22)]
    compare(page, *many)
    expect(outcome).to_contain_text("0 of 20")
    expect(outcome).to_contain_text("2 more were left out")
    assert tried.count() == 20


ANOTHER_MODEL_MEANWHILE = """
const realFetch = fetch
window.fetch = async (path, ...more) => {
  const isPhoto = String(path).startsWith("api/classify")
  if (isPhoto) location.hash = "model=half"
  while (isPhoto && !document.querySelector("#model-title[data-model=half]")) await new Promise(requestAnimationFrame)
  return realFetch(path, ...more)
}
"""


def test_photos_are_tried_on_the_model_that_was_shown_when_that_began(server, open_console, photos):
    page = open_console(server)
    expect(page.locator("#second")).to_have_value("3")
    page.evaluate(ANOTHER_MODEL_MEANWHILE)
    compare(page, photos[1])
    expect(page.locator("#outcome")).to_contain_text("Different first answers: 1 of 1.")


def drop(page, place_on_page: str, file: Path) -> None:
    """As a person does, with the mouse."""
    page.locator(place_on_page).scroll_into_view_if_needed()
    place = page.locator(place_on_page).bounding_box()
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
    devtools = page.context.new_cdp_session(page)
    for step in ("dragEnter", "dragOver", "drop"):
        devtools.send("Input.dispatchDragEvent", {"type": step, "x": x, "y": y, "data": data})


@pytest.mark.parametrize("place_on_page", ["#photos", "h1"])
def test_photos_are_dropped_anywhere_and_a_box_is_drawn_where_the_dog_is(
    place_on_page, server, open_console, photos
):
    page = open_console(server)

    def with_box(route) -> None:
        response = route.fetch()
        answer = {**response.json(), "box": [0.25, 0.1, 0.75, 0.9]}
        route.fulfill(response=response, body=json.dumps(answer))

    page.route("**/api/classify?**", with_box)
    expect(page.locator("#trial")).to_be_visible()
    drop(page, place_on_page, photos[1])
    expect(page.locator("#tried h3")).to_contain_text("red.jpg")
    boxes = page.locator("#tried .frame i")
    expect(boxes).to_have_count(2)
    box, frame = boxes.first.bounding_box(), page.locator(".frame").first.bounding_box()
    inset = [box["x"] - frame["x"], box["y"] - frame["y"], box["width"], box["height"]]
    sides = [frame["width"], frame["height"]] * 2
    expected = [0.25, 0.1, 0.5, 0.8]
    assert [a / b for a, b in zip(inset, sides, strict=True)] == pytest.approx(expected, abs=0.01)


def test_without_the_token_it_explains_itself_and_with_it_all_is_shown(guarded, open_console):
    page = open_console(guarded)
    expect(page.locator("#login")).to_contain_text("dogsnap console opens it logged in")
    expect(page.locator("#message")).to_be_hidden()
    expect(page.locator("#all")).to_be_hidden()
    expect(page.locator("#who")).to_be_hidden()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    says(page, "the token is not this server's")
    log_in(page)
    expect(page.locator("#login")).to_be_hidden()
    expect(page.locator("#message")).to_be_hidden()
    set_label(page, "guarded", 1)
    page.reload()
    expect(card(page, 1)).to_contain_text("guarded")
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("#login")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
    assert page.locator("article").count() == 0


def test_a_token_that_is_no_longer_this_servers_closes_the_panel_and_asks_anew(
    guarded, open_console
):
    page = open_console(guarded)
    log_in(page)
    change(page, "default", "1")
    would(page, "This would change")
    page.evaluate("window.realFetch = fetch; window.fetch = () => Promise.reject(Error()); 0")
    refresh(page)
    expect(page.locator("#away")).to_contain_text("The server does not answer")
    page.evaluate("window.fetch = realFetch; sessionStorage.dogsnapToken = 'before'; 0")
    refresh(page)
    says(page, "the token is not this server's")
    expect(page.locator("#change")).to_be_hidden()
    expect(page.locator("#away")).to_be_hidden()  # it answers again
    log_in(page)
    expect(page.locator("#message")).to_be_hidden()


def log_in(page) -> None:
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("article").first).to_be_visible()


def test_the_token_alone_tries_a_photo_and_a_refusal_does_not_log_out(
    guarded, open_console, red_dog
):
    page = open_console(guarded)
    log_in(page)
    compare(page, red_dog)
    expect(page.locator("#outcome")).to_contain_text("Different first answers: 1 of 1")
    refusal = {"error": "expected a key of this server", "request_id": "r1"}
    page.route("**/api/classify?**", lambda route: route.fulfill(status=401, json=refusal))
    compare(page, red_dog)
    expect(page.locator("#tried")).to_contain_text("xpected a key of this server")
    expect(page.locator("#login")).to_be_hidden()
    expect(page.locator("article").first).to_be_visible()


def test_another_site_gets_nothing_of_it_and_every_part_comes_under_a_strict_policy(
    server, guarded
):
    path = "/console/models"
    for each in (server, guarded):
        assert each.get(path, headers={"Authorization": None}).status_code == 401
    parts = ("console", "change", "pictures", "photos", "ask")
    for part in (
        "/console",
        "/console/console.css",
        "/uplot.js",
        path,
        *(f"/console/{name}.js" for name in parts),
    ):
        response = server.get(part)
        assert response.status_code == 200
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_its_first_load_takes_at_most_120_kilobytes(server, open_console):
    """What comes over the wire, as gzip; the time is printed."""
    page = open_console(server, model="half")
    expect(page.locator("#plots canvas")).to_have_count(4)
    page.reload()
    expect(page.locator("#plots canvas")).to_have_count(4)
    entries = page.evaluate(
        """[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
        .map(({ name, encodedBodySize, responseEnd }) => [name, encodedBodySize, responseEnd])"""
    )
    names = [name for name, _, _ in entries]
    assert any("uplot.js" in name for name in names)
    size = sum(
        len(gzip.compress(server.get(f"/{name.split('/', 3)[3]}").content, 4))
        for name in names
        if "admin" not in name and "models" not in name
    )
    print(f"first load: {size / 1000:.1f} kB, {max(end for _, _, end in entries):.0f} ms")
    assert size < 120_000


def test_the_link_logs_in_once_and_leaves_neither_code_nor_token_in_address_and_history(
    server, open_page
):
    path = console_path(server)
    page = open_page(server, path, SIZES["desktop"])
    expect(page.locator("article").first).to_be_visible()
    assert page.url == f"{server.url}/console"
    assert page.evaluate("[history.length, location.hash]") == [2, ""]  # the first is about:blank
    again = open_page(server, path, SIZES["desktop"])
    says(again, "the link was used already")
    expect(again.locator("#login")).to_be_visible()
    assert again.url == f"{server.url}/console"
    assert server.post("/console/login", json={"code": ""}).status_code == 401
    assert (
        server.post("/console/codes", json={}, headers={"Authorization": None}).status_code == 401
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_it(server, open_console, theme, size, photos):
    post(server, "models/inception_v3/split", version=2, percent=5, guard=True, force=True)
    page = open_console(server, size)
    page.emulate_media(color_scheme=theme)
    expect(page.locator("#plots canvas")).to_have_count(4)
    compare(page, *photos)
    expect(page.locator("#outcome")).to_contain_text("of 3")
    page.locator("#all-figures summary").click()
    assert violations(page) == []
    change(page, "default", "1", how="share")
    would(page, "This would change")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    post(server, "models/inception_v3/split", version=None, percent=0)


def test_axe_finds_nothing_in_the_page_that_asks_for_the_token(guarded, open_console):
    page = open_console(guarded)
    expect(page.locator("#login")).to_be_visible()
    assert violations(page) == []


def test_a_switch_is_made_with_the_keyboard_alone_and_the_focus_stays(server, open_console):
    page = open_console(server)
    page.locator("#change-shadow").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#change")).to_be_visible()
    would(page, "shadow of inception_v3: none -> ")
    page.keyboard.press("Escape")
    expect(page.locator("#change-shadow")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#do")).to_be_enabled()
    page.locator("#do").focus()
    page.keyboard.press("Enter")
    says(page, "shadow of inception_v3: none -> ")
    expect(page.locator("#change-shadow")).to_be_focused()
    post(server, "models/inception_v3/shadow", version=None)
    expect(page.locator(".log li").first).to_contain_text("-> none")  # the page has followed
    expect(page.locator("#change-shadow")).to_be_focused()


def test_a_server_that_goes_away_is_told_with_since_when_and_what_was_known_stays(
    server, open_console
):
    page = open_console(server)
    expect(page.locator("article").first).to_be_visible()
    page.route(
        "**/console/models*", lambda route: route.fulfill(status=503, json={"error": "full"})
    )
    away = page.locator("#away")
    expect(away).to_contain_text("full What you see is from")
    page.unroute("**/console/models*")
    page.evaluate(
        "window.realFetch = fetch; window.fetch = () => Promise.reject(new TypeError()); 0"
    )
    expect(away).to_contain_text("The server does not answer. Is it running? What you see is from")
    expect(page.locator("article").first).to_be_visible()
    page.locator("#change-default").click()
    would(page, "The server does not answer. Is it running?")
    expect(page.locator("#do")).to_be_disabled()
    page.keyboard.press("Escape")
    page.evaluate("window.fetch = window.realFetch; 0")
    expect(away).to_be_hidden()


def test_a_store_that_lost_its_switches_and_a_missing_library_are_told(
    start_server, models, open_console, tmp_path
):
    file = tmp_path / "switches.db"
    server = start_server(models, "--switch-log", str(file))
    post(server, "models/inception_v3/labels/stable", version=1)
    page = open_console(server)
    expect(row(page, "stable")).to_be_visible()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DELETE FROM switches")
    expect(page.locator("#now")).to_contain_text(
        "witches are refused for now: the store has lost switch"
    )
    expect(row(page, "stable")).to_contain_text("version 1")
    page.route("**/uplot.js", lambda route: route.fulfill(status=503))
    page.reload()
    expect(page.locator("#plots")).to_contain_text(
        "There are no pictures where the app was not built"
    )
    expect(page.locator("#all-figures summary")).to_be_visible()


def test_a_browser_that_keeps_nothing_shows_the_page(server, open_page):
    page = open_page(server, "/docs", SIZES["phone"])
    page.add_init_script(
        "for (const name of ['localStorage', 'sessionStorage'])"
        " Object.defineProperty(window, name, { get() { throw new DOMException('no', 'SecurityError') } })"
    )
    page.goto(f"{server.url}{console_path(server)}")
    expect(page.locator("article").first).to_be_visible()


def test_a_model_that_is_gone_is_told_and_another_one_is_shown(server, open_console):
    page = open_console(server)
    expect(page.locator("#model-title")).to_have_text("inception_v3")
    page.evaluate("location.hash = 'model=gone'")
    expect(page.locator("#now")).to_contain_text("there is no model 'gone'")
    expect(page.locator("#model-title")).to_have_text("inception_v3")
    page.locator("nav a", has_text="half").click()
    expect(page.locator("#now")).not_to_contain_text("there is no model")


def test_the_longest_name_fits_a_narrow_screen(server, open_console):
    page = open_console(server, "phone")
    page.set_viewport_size({"width": 320, "height": 600})  # a phone at 120 %, a screen at 400 %
    set_label(page, "x" * 64, 1)
    expect(page.locator("#plots canvas")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    change(page, "x" * 64, "2")
    would(page, "This would change")
    assert page.evaluate("document.querySelector('#change').scrollWidth <= innerWidth")
    page.get_by_role("button", name="Cancel").click()
    remove_label(page, "x" * 64)


def test_without_a_model_it_says_what_to_do_and_of_forty_it_shows_one(
    start_server, open_console, tmp_path, made_half
):
    (tmp_path / "models").mkdir()
    server = start_server(tmp_path / "models", "--poll-seconds", "0.2", wait=False)
    server.wait_until_ready("/healthz")
    page = open_console(server)
    expect(page.locator("#now")).to_contain_text("No model is served here yet")
    expect(page.locator("#glance")).to_be_hidden()
    expect(page.locator("#trial")).to_be_hidden()
    expect(page.locator("#pictures")).to_be_hidden()
    for number in range(40):
        shutil.copytree(made_half, tmp_path / "models" / f"model_{number:02}" / "1")
    expect(page.locator("nav a")).to_have_count(40)
    assert page.locator("article").count() == 1
    page.locator("nav a").last.click()
    expect(page.locator("#model-title")).to_have_text("model_39")
    expect(card(page, 1)).to_contain_text("default")  # it is loaded
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    button = change(page, "default")
    would(page, "default of model_39: not chosen -> 1")
    expect(button).to_be_enabled()
    shutil.rmtree(tmp_path / "models" / "model_39")
    expect(page.locator("#now")).to_contain_text("there is no model 'model_39'")
    expect(page.locator("#change")).to_be_hidden()  # and no other one is switched
    (tmp_path / "models" / "model_01" / "3").mkdir()  # it lacks saved_model.pb
    answering = tmp_path / "models" / "model_02" / "1"
    (answering / "saved_model.pb").write_bytes(b"no model")
    wait_until(lambda: "model_02 version 1: its folder holds another export" in server.log())
    post(server, "models/model_02/versions/1/load")
    links = page.locator("nav a")
    expect(links.nth(1)).to_have_text("model_01 version 3 is not loaded yet")
    expect(links.nth(2)).to_have_text("model_02 version 1 could not be loaded again")


def test_versions_above_2_to_53_are_chosen_shown_and_tried(
    start_server, colour_models, open_console, tmp_path, photos
):
    dogs = tmp_path / "models" / "dogs"
    for number in (2**53 + 1, 2**53 + 3, 2**63 - 1):
        changed_version(colour_models / "inception_v3" / "2", dogs / str(number), lambda _: None)
    server = start_server(tmp_path / "models")
    page = open_console(server)
    button = change(page, "new", str(2**53 + 1), name="stable")
    words = f"Create stable at version {2**53 + 1}"
    do(page, button, words, f"label stable of dogs: none -> {2**53 + 1}")
    expect(card(page, 2**53 + 1)).to_contain_text("stable")
    page.locator("#first").select_option(str(2**53 + 1))
    names = [f"version {2**53 + 1}", f"version {2**53 + 3}"]
    page.locator("#second").select_option(str(2**53 + 3))
    compare(page, photos[0])
    expect(page.locator("#tried h4")).to_have_text(names)
    expect(page.locator("#figures")).to_contain_text(str(2**53 + 3))
    colours = (
        page.locator(".u-legend")
        .nth(2)
        .locator(".u-marker")
        .evaluate_all("markers => markers.map((marker) => getComputedStyle(marker).borderColor)")
    )
    of_cards = page.locator("article").evaluate_all(
        "cards => cards.map((card) => getComputedStyle(card).borderTopColor)"
    )
    assert colours[1:] == of_cards[:0:-1]


def test_what_users_said_is_shown_by_version_and_breed(
    start_server, models, open_console, tmp_path
):
    flags = ("--feedback", str(tmp_path / "feedback.db"), "--feedback-secret", SECRET)
    server = start_server(models, *flags)
    page = open_console(server)
    expect(page.locator("#said")).to_contain_text("No votes yet")
    for place in range(20):
        for version, breed in ((2, "c1"), (3, "c1" if place % 5 else "c2")):
            vote = {"request_id": signed(version=version), "breed": breed}
            server.post("/api/feedback", json=vote).raise_for_status()
    said = page.locator("#said table")
    expect(said.locator(".whole").nth(0)).to_contain_text("20 of 20")
    expect(said.locator(".whole").nth(1)).to_contain_text("16 of 20")
    expect(said).to_contain_text("80.0 % (58.4 % to 91.9 %)")
    expect(said).to_contain_text("red dog → green dog (4)")
    assert said.locator("svg").count() == 4
    assert violations(page) == []


ODD_MODEL, ODD_LABEL = "m\"<b>&/n's", "a\"b<c>/d  e?f#g%'"


def test_names_are_shown_and_switched_whatever_is_in_them(
    start_server, models, open_console, tmp_path
):
    config = model_server_config_pb2.ModelServerConfig()
    model = config.model_config_list.config.add(
        name=ODD_MODEL, base_path=str(models / "inception_v3")
    )
    model.model_version_policy.specific.versions.extend([1, 2])
    model.version_labels[ODD_LABEL] = 1
    other = config.model_config_list.config.add(name="half", base_path=str(models / "half"))
    other.model_version_policy.specific.versions.append(1)
    (tmp_path / "models.config").write_text(text_format.MessageToString(config), encoding="utf-8")
    page = open_console(
        start_server(models, "--model-config-file", str(tmp_path / "models.config"))
    )
    page.locator("nav a", has_text=ODD_MODEL).click()
    expect(page.locator("#model-title")).to_have_text(ODD_MODEL)
    answers = page.locator("[data-answers]").nth(1)
    assert answers.get_attribute("data-answers") == ODD_LABEL
    assert page.locator("main b, main c").count() == 0
    page.locator("#who").fill("<img src=x onerror=alert(1)>")
    panel = page.locator("#change")

    def move(version: str, how: str, said: str, is_felt: bool = False) -> None:
        answers.get_by_role("button", name="Change").click()
        panel.locator("[name=version]").select_option(version)
        panel.locator(f"[value={how}]").check()
        if is_felt:
            force(page)
        expect(page.locator("#do")).to_be_enabled()
        page.locator("#do").click()
        says(page, said)

    move("2", "once", f"label {ODD_LABEL} of {ODD_MODEL}: 1 -> 2".replace("  ", " "))
    expect(page.locator(".log li").first).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator(".log img").count() == 0
    move("1", "share", "none -> 10 % to 1", is_felt=True)
    answers.get_by_role("button", name="Back to version 2").click()
    says(page, "10 % to 1 -> none")
    answers.get_by_role("button", name="Change").click()
    panel.locator("[name=version]").select_option("none")
    page.locator("#do").click()
    says(page, "2 -> none")
    page.locator(".log li").first.get_by_role("button", name="Undo").click()
    says(page, "none -> 2")
