"""Taps that come twice, too early or from a held key, and the browser's own Back: each leads where its first one was meant to."""

import time

import pytest
from phone import Phone
from test_kept_photos import SLOW_CANVAS

pytestmark = pytest.mark.early


def double_tap(phone: Phone, target) -> None:
    """As a finger does it, once nothing moves any more: 80 ms apart, on whatever lies there."""
    target.tap(trial=True)
    box = target.bounding_box()
    place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    phone.page.touchscreen.tap(*place)
    time.sleep(0.08)
    phone.page.touchscreen.tap(*place)
    phone.page.wait_for_timeout(500)


@pytest.fixture
def phone(open_phone, colour_server) -> Phone:
    phone = open_phone(server=colour_server, locale="en-US")
    phone.button("camera").wait_for()
    return phone


def test_a_double_tap_opens_a_page_once_and_chooses_nothing_on_it(phone):
    double_tap(phone, phone.screen.get_by_role("button", name="Breeds"))
    assert phone.title() == "All breeds"
    assert phone.page.evaluate("history.state.stack.length") == 2


@pytest.mark.parametrize("way", ["double tap", "double click", "two presses"])
def test_back_goes_one_page_back_however_fast_it_is_pressed(phone, way):
    phone.tap("settings")
    phone.page.evaluate("location.hash = '#/pages/breed/breed?id=n02099601'")
    phone.screen.locator(".page.breed").wait_for()
    back = phone.screen.locator(".wx-nav-back")
    if way == "double tap":
        double_tap(phone, back)
    elif way == "double click":
        back.dblclick()
    else:
        back.evaluate("(button) => { button.click(); button.click() }")
    phone.page.wait_for_timeout(500)
    assert phone.title() == "Settings"


def test_cancel_that_is_tapped_twice_stays_in_the_app(phone, red_dog):
    phone.page.route("**/api/classify", lambda route: None)
    phone.choose(red_dog)
    double_tap(phone, phone.button("cancel"))
    assert phone.title() == "dogsnap"
    assert phone.screen.locator(".recent-item").count() == 0


def test_a_double_tap_on_album_opens_one_chooser(phone, red_dog):
    choosers = []
    phone.page.on("filechooser", lambda file: choosers.append(file))  # noqa: PLW0108 - it takes no built-in
    double_tap(phone, phone.button("album"))
    assert len(choosers) == 1
    choosers[0].set_files(red_dog)
    phone.wait_for_answer()
    assert phone.page.evaluate("history.state.stack.length") == 2
    assert phone.classify_requests() == 1


def test_back_closes_a_dialog_as_cancel_does_and_no_dialog_outlives_its_page(phone, red_dog):
    phone.snap(red_dog)
    phone.back()
    phone.open("history", ".entry")
    dialog = phone.page.get_by_role("dialog")
    phone.tap("clear")
    dialog.wait_for()
    phone.page.go_back()
    dialog.wait_for(state="detached")
    assert phone.title() == "History"
    assert phone.screen.locator(".entry").count() == 1
    phone.tap("clear")
    dialog.wait_for()
    phone.page.evaluate("location.hash = '#/pages/settings/settings'")
    dialog.wait_for(state="detached")
    phone.page.go_back()
    phone.screen.locator(".entry").wait_for()
    phone.page.go_back()
    phone.button("camera").wait_for()


def test_a_key_of_a_link_stays_in_no_address(open_phone, colour_server):
    phone = open_phone(server=colour_server, path="#/pages/home/home?key=ABC")
    phone.page.wait_for_function("!location.href.includes('ABC')")
    assert "ABC" not in phone.page.evaluate("JSON.stringify(history.state)")
    phone.tap("settings")
    assert "ABC" not in phone.page.url + phone.page.evaluate("JSON.stringify(history.state)")
    assert "ABC" in phone.page.evaluate("localStorage['dogsnap:settings']")
    phone.page.evaluate("location.hash = '#/pages/home/home?key=DEF'")
    phone.page.wait_for_function("!location.href.includes('DEF')")


def test_what_ends_after_its_page_was_left_changes_no_other_page(phone, red_dog):
    held = []
    phone.page.route("**/api/breeds*", lambda route: held.append(route))  # noqa: PLW0108 - it takes no built-in
    phone.page.evaluate("location.hash = '#/pages/breed/breed?id=n02099601'")
    phone.wait_until(lambda: held)
    phone.page.go_back()
    phone.button("camera").wait_for()
    breed = {"id": "n02099601", "name": "golden retriever", "name_zh": "", "look_alikes": []}
    held[0].fulfill(json={"breeds": [breed]})
    phone.page.unroute("**/api/breeds*")
    phone.snap(red_dog)
    phone.tap(phone.screen.locator(".turn-button"))
    phone.page.go_back()
    phone.screen.locator(".recent-item").wait_for()
    phone.page.wait_for_timeout(500)
    assert phone.title() == "dogsnap"


@pytest.fixture
def teacher(open_phone, start_server, colour_models, tmp_path) -> Phone:
    """A phone whose server takes feedback."""
    server = start_server(colour_models, "--feedback", str(tmp_path / "feedback.db"))
    phone = open_phone(server=server, locale="en-US")
    phone.button("camera").wait_for()
    return phone


def depth(phone: Phone) -> int:
    return phone.page.evaluate("history.state.stack.length")


def test_a_correction_that_ends_after_its_page_was_left_goes_no_further_back(teacher, red_dog):
    phone, held = teacher, []
    phone.page.route("**/api/feedback", lambda route: held.append(route))  # noqa: PLW0108 - it takes no built-in
    phone.snap(red_dog)
    phone.open("wrong", ".choice")
    phone.tap(phone.screen.locator(".choice").first)
    phone.wait_until(lambda: held)
    phone.page.go_back()
    phone.screen.locator(".answer").wait_for()
    held[0].continue_()
    phone.screen.locator(".said").wait_for()
    assert depth(phone) == 2


def test_a_part_that_is_cut_after_its_page_was_left_is_not_asked_about(phone, red_dog):
    phone.snap(red_dog)
    phone.open(".frame-button", ".frame")
    phone.page.evaluate(SLOW_CANVAS)
    phone.tap(phone.screen.get_by_role("button", name="Identify"))
    phone.page.wait_for_function("() => window.drawing.length > 0")
    phone.page.go_back()
    phone.screen.locator(".answer").wait_for()
    phone.page.evaluate("window.endDrawing()")
    phone.page.wait_for_timeout(500)
    assert depth(phone) == 2
    assert phone.classify_requests() == 1


def test_a_photo_chosen_after_the_result_was_left_takes_the_place_of_no_other_page(phone, red_dog):
    phone.snap(red_dog)
    with phone.page.expect_file_chooser() as chooser:
        phone.tap("again")
    phone.page.go_back()
    phone.button("camera").wait_for()
    chooser.value.set_files(red_dog)
    phone.wait_for_answer()
    phone.back()
    phone.button("camera").wait_for()
    assert depth(phone) == 1


def test_cancel_leads_back_to_the_one_first_page_also_after_a_reload(phone, red_dog):
    held = []
    phone.page.route("**/api/classify", lambda route: held.append(route))  # noqa: PLW0108 - it takes no built-in
    phone.choose(red_dog)
    phone.wait_until(lambda: held)  # by then the photo is kept
    phone.page.reload()
    phone.tap("cancel")
    phone.button("camera").wait_for()
    assert depth(phone) == 1


def test_cancel_after_a_retry_works_also_where_the_clock_was_put_back(phone, red_dog):
    phone.page.route(
        "**/api/classify", lambda route: route.fulfill(status=500, json={"error": "x"}), times=1
    )
    phone.choose(red_dog)
    phone.screen.locator(".state-failed").wait_for()
    phone.page.route("**/api/classify", lambda route: None)
    phone.tap("retry")
    phone.page.evaluate("() => { const now = Date.now; Date.now = () => now() - 3600e3 }")
    phone.tap("cancel")
    phone.button("camera").wait_for()


def test_what_another_window_has_deleted_is_deleted_once_more_without_complaint(phone, red_dog):
    phone.snap(red_dog)
    phone.back()
    phone.open("history", ".entry")
    phone.tap("edit")
    phone.tap("remove")
    phone.page.get_by_role("dialog").wait_for()
    other = Phone(phone.context, phone.url, touch=True)
    other.open("history", ".entry")
    other.tap("clear")
    other.confirm("delete")
    other.screen.locator(".empty").wait_for()
    phone.confirm("delete")
    phone.screen.locator(".empty").wait_for()


def test_a_double_tap_on_retry_does_not_cancel(phone, red_dog):
    phone.page.route(
        "**/api/classify", lambda route: route.fulfill(status=500, json={"error": "x"})
    )
    phone.choose(red_dog)
    phone.screen.locator(".state-failed").wait_for()
    phone.page.unroute("**/api/classify")
    before = phone.classify_requests()
    double_tap(phone, phone.button("retry"))
    phone.screen.locator(".state-breed").wait_for()
    assert phone.classify_requests() == before + 1


SHEET = """() => {
    window.sheets = []
    navigator.canShare = () => true
    navigator.share = (data) => new Promise((done) => { window.sheets.push(done) })
}"""


def test_a_double_tap_shares_once_and_saves_once(phone, red_dog):
    downloads = []
    phone.page.on("download", lambda download: downloads.append(download))  # noqa: PLW0108 - it takes no built-in
    phone.page.evaluate(SHEET)
    phone.snap(red_dog)
    double_tap(phone, phone.button("save"))
    phone.wait_until(lambda: downloads)
    phone.page.get_by_text("Picture saved").wait_for()
    assert len(downloads) == 1
    for number in (1, 2):  # and again, once the sheet is closed
        double_tap(phone, phone.button("share"))
        phone.page.wait_for_function("number => window.sheets.length === number", arg=number)
        assert phone.page.get_by_role("dialog").count() == 0
        phone.page.evaluate("window.sheets.at(-1)()")
