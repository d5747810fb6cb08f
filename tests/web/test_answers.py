"""What the app makes of an answer: its words, what can be done with it, and a phone on its side.

Where an answer has to be just so, the browser gets it instead of the server's.
"""

import pytest
from phone import Phone, serious_violations
from PIL import Image
from playwright.sync_api import expect

LOCALE = pytest.mark.parametrize("locale", ["zh-CN", "en-US"])
SIDEWAYS = {"viewport": {"width": 844, "height": 390}}
NAMES = {
    "n02110185": ("Siberian husky", "西伯利亚雪橇犬"),
    "n02109525": ("Saint Bernard", "圣伯纳犬"),
    "n02110063": ("Alaskan malamute", "阿拉斯加雪橇犬"),
    "n02109961": ("Eskimo dog", "爱斯基摩犬"),
    "n02085620": ("Chihuahua", "吉娃娃犬"),
}
HUSKY_GROUP = {
    "id": "husky", "name": "husky", "name_zh": "哈士奇类", "members": ["n02109961", "n02110185", "n02110063"],
    "probability": 0.97, "difference": "About all three of them.", "difference_zh": "三种都说到。",
}  # fmt: skip


def likely(breed: str, probability: float) -> dict[str, object]:
    return {
        "id": breed,
        "name": NAMES[breed][0],
        "name_zh": NAMES[breed][1],
        "probability": probability,
    }


def answer_with(
    phone: Phone, level: str, probabilities: dict[str, float], **fields: object
) -> None:
    """From now on every photo gets this answer. `probabilities`: by breed, the most likely first."""
    breeds = [likely(*each) for each in probabilities.items()]
    answer = {
        "model": {"name": "inception_v3", "version": 3}, "dog": level != "no_dog", "confident": level == "breed", "level": level,
        "breeds": breeds, "group": None, "set": None, "box": None, "request_id": "r1", "feedback_id": "f1", **fields,
    }  # fmt: skip
    phone.page.unroute("**/api/classify")
    phone.page.route("**/api/classify", lambda route: route.fulfill(json=answer))


def is_in_view(phone: Phone, target) -> bool:
    box, view = target.bounding_box(), phone.page.viewport_size
    within = box["y"] + box["height"] <= view["height"] and box["x"] + box["width"] <= view["width"]
    return min(box["x"], box["y"]) >= 0 and within


@LOCALE
def test_on_its_side_the_phone_shows_photo_answer_and_buttons_beside_each_other(
    open_phone, dog, locale
):
    phone = open_phone(**SIDEWAYS, locale=locale)
    for button in ("camera", "album"):
        assert is_in_view(phone, phone.button(button))
    phone.snap(dog)
    photo = phone.screen.locator(".photo-box")
    assert is_in_view(phone, photo)
    assert photo.bounding_box()["height"] > 200
    for seen in (
        phone.screen.locator(".headline"),
        phone.button("again"),
        phone.screen.locator(".frame-button"),
    ):
        assert is_in_view(phone, seen)
    left, width = (photo.bounding_box()[side] for side in ("x", "width"))
    assert phone.screen.locator(".headline").bounding_box()["x"] > left + width
    assert serious_violations(phone.page) == []
    phone.tap(phone.screen.locator(".frame-button"))
    picture = phone.screen.locator(".photo")
    picture.wait_for()
    phone.page.wait_for_function(
        "document.querySelector('.wx-frame:not([hidden]) .photo').style.width"
    )
    assert picture.bounding_box()["height"] > 250
    assert is_in_view(phone, phone.screen.locator(".button.primary"))
    assert serious_violations(phone.page) == []


@LOCALE
def test_on_its_side_the_phone_shows_every_button_of_the_other_pages(open_phone, dog, locale):
    phone = open_phone(**SIDEWAYS, locale=locale)
    phone.tap("history")
    assert is_in_view(phone, phone.screen.locator(".button"))
    phone.back()
    answer_with(phone, "breed", {"n02110185": 0.99})
    for _ in range(4):
        phone.snap(dog)
        phone.back()
    recent = phone.screen.locator(".recent-item")
    assert recent.count() == 4
    for seen in (
        *recent.all(),
        phone.button("camera"),
        phone.button("album"),
        phone.button("settings"),
    ):
        assert is_in_view(phone, seen)
    phone.page.unroute("**/api/classify")
    phone.page.route("**/api/classify", lambda route: None)
    phone.choose(dog)
    assert is_in_view(phone, phone.button("cancel"))


def test_rows_and_buttons_follow_what_an_answer_claims(open_phone, dog):
    phone = open_phone("desktop")
    answer_with(phone, "set", {"n02109525": 0.84, "n02110185": 0.1}, set=["n02109525"])
    phone.snap(dog)
    for button in (
        "right",
        "wrong",
        "share",
        "save",
    ):  # a set of one breed is confirmed, shared and saved like a breed
        assert phone.button(button).is_visible()
    phone.back()
    members = {"n02110063": 0.5, "n02110185": 0.4, "n02109961": 0.05}
    answer_with(phone, "set", members, set=["n02110063", "n02110185"], group=HUSKY_GROUP)
    phone.snap(dog)
    phone.screen.locator(".difference").first.wait_for()
    told = [line.split(":")[0] for line in phone.screen.locator(".difference").all_inner_texts()]
    assert (
        told == phone.rows() == ["Alaskan malamute", "Siberian husky"]
    )  # and no other breed of the group
    phone.back()
    answer_with(phone, "breed", {"n02110185": 0.99, "n02110063": 0.004, "n02109961": 0.003})
    phone.snap(dog)
    assert phone.rows() == ["Siberian husky"]  # beside a sure breed none of less than one percent


@LOCALE
def test_text_of_twice_the_size_is_neither_cut_nor_broken_within_a_word(open_phone, dog, locale):
    phone = open_phone(locale=locale)
    phone.enlarge_text(32)
    phone.page.reload()
    for breed in ("n02109525", "n02085620"):
        answer_with(phone, "breed", {breed: 0.99})
        phone.snap(dog)
        phone.back()
    whole = "each => (each.style.overflowWrap = 'normal', each.scrollWidth <= each.clientWidth)"
    for caption in phone.screen.locator(".recent-name").all():
        assert caption.evaluate(whole)
    for place in (1, 0):
        phone.tap(phone.screen.locator(".recent-item").nth(place))
        assert phone.screen.locator(".headline").evaluate(whole)
        if place:
            phone.back()
    phone.page.evaluate("location.hash = '#/pages/history/history'")
    for name in phone.screen.locator(".entry .name").all():
        assert name.evaluate(whole)
    phone.page.go_back()
    phone.page.wait_for_timeout(500)  # a tap there at once would be the second of a double tap
    phone.open("wrong", ".choice")
    room = phone.screen.locator(".search input").evaluate(
        """each => {
            const context = document.createElement('canvas').getContext('2d')
            context.font = getComputedStyle(each).font
            return each.clientWidth - context.measureText(each.placeholder).width
        }"""
    )
    assert room >= 0
    phone.page.evaluate("location.hash = '#/pages/breeds/breeds'")
    tall = phone.screen.locator(".choice", has_text="Dandie Dinmont").first
    row, words = tall.bounding_box(), tall.locator(".name").bounding_box()
    assert words["y"] - row["y"] >= 8


@LOCALE
def test_each_of_two_dogs_has_a_box_that_is_tapped_and_a_tab_that_is_reached_by_keyboard(
    open_phone, dog, locale
):
    phone = open_phone(locale=locale)
    parts = [
        ("breed", "n02110185", [0.0, 0.1, 0.5, 1.0]),
        ("unsure", "n02085620", [0.6, 0.4, 0.9, 0.9]),
    ]
    dogs = [
        {
            "level": level, "confident": level == "breed", "group": None, "set": None, "box": box, "feedback_id": f"f{breed}",
            "breeds": [likely(breed, 0.97)],
        }
        for level, breed, box in parts
    ]  # fmt: skip
    answer_with(phone, "breed", {"n02110185": 0.97}, box=parts[0][2], dogs=dogs, more_dogs=False)
    phone.snap(dog)
    boxes = phone.screen.locator(".dog")
    boxes.first.wait_for()
    assert boxes.count() == 2
    said = phone.screen.locator(".dogs .section-title").inner_text()
    assert said == {"zh-CN": "两只狗", "en-US": "Two dogs"}[locale]
    assert phone.screen.locator(".answer.state-breed").count() == 1
    assert serious_violations(phone.page) == []
    phone.tap(boxes.nth(1))
    phone.screen.locator(".answer.state-unsure").wait_for()
    tabs = phone.screen.locator(".tab")
    assert tabs.count() == 2
    tabs.first.focus()
    phone.page.keyboard.press("Enter")
    phone.screen.locator(".answer.state-breed").wait_for()
    assert tabs.first.get_attribute("aria-checked") == "true"
    phone.back()
    phone.tap("history")
    assert (
        phone.screen.locator(".entry .detail").inner_text() == said
    )  # a percentage would be that of one of them


def test_facts_that_come_late_are_told_of_the_dog_that_they_were_asked_for(open_phone, red_dog):
    phone, held = open_phone(locale="en-US"), []
    two = ["n02110185", "n02109525"]
    parts = [
        {"level": "set", "set": two, "box": [0.0, 0.1, 0.5, 1.0], "feedback_id": "f1"},
        {"level": "breed", "set": None, "box": [0.6, 0.4, 0.9, 0.9], "feedback_id": "f2"},
    ]
    dogs = [
        {**part, "confident": False, "group": None, "breeds": [likely(breed, 0.5) for breed in two]}
        for part in parts
    ]
    answer_with(phone, "set", dict.fromkeys(two, 0.5), set=two, box=parts[0]["box"], dogs=dogs)
    phone.page.route("**/api/breeds*", lambda route: held.append(route))  # noqa: PLW0108 - it takes no built-in
    phone.snap(red_dog)
    for route in held:
        route.continue_()
    phone.wait_until(lambda: phone.page.evaluate("'dogsnap:breeds' in localStorage"))
    phone.tap(phone.screen.locator(".tab").nth(1))
    phone.screen.locator(".answer.state-breed").wait_for()
    expect(phone.screen.locator(".about")).to_contain_text("Russia")  # the facts are there
    assert phone.screen.locator(".difference").count() == 0


@LOCALE
def test_beside_another_button_snap_another_stays_in_one_line(open_phone, red_dog, locale):
    phone = open_phone(locale=locale)
    phone.page.route(
        "**/api/classify", lambda route: route.fulfill(status=500, json={"error": "x"})
    )
    phone.choose(red_dog)
    phone.screen.locator(".state-failed").wait_for()
    words = phone.button("again").locator("wx-text")
    heights = [phone.button(name).bounding_box()["height"] for name in ("again", "retry")]
    assert heights[0] == heights[1]
    assert words.evaluate("each => each.getClientRects().length") == 1


@LOCALE
@pytest.mark.parametrize(("width", "height"), [(360, 640), (375, 667), (390, 844), (844, 390)])
def test_cancel_the_name_and_the_one_primary_button_are_in_sight_without_scrolling(
    open_phone, dog, locale, width, height
):
    phone = open_phone(viewport={"width": width, "height": height}, locale=locale)
    phone.page.route("**/api/classify", lambda route: None)
    phone.choose(dog)
    assert is_in_view(phone, phone.button("cancel"))
    phone.tap("cancel")
    answer_with(phone, "breed", {"n02109525": 0.98})
    phone.snap(dog)
    assert phone.screen.locator(".headline").count() == 1
    assert phone.screen.locator(".best .percent").inner_text() == "98%"
    assert phone.screen.locator(".button.primary").count() == 1
    for seen in (phone.screen.locator(".best"), phone.button("again"), phone.button("share")):
        assert is_in_view(phone, seen)


def test_a_photo_fills_its_box_and_is_smaller_only_where_the_dog_would_be_cut(open_phone, red_dog):
    phone = open_phone()
    for box, fills in (([0.1, 0.2, 0.4, 0.8], True), ([0.0, 0.2, 1.0, 0.8], False)):
        Image.new("RGB", (1200, 400), "#aa3322").save(red_dog)
        answer_with(phone, "breed", {"n02109525": 0.98}, box=box)
        phone.snap(red_dog)
        phone.page.wait_for_timeout(700)  # until it has gone to the dog
        room, drawn, seen = (
            phone.screen.locator(part).bounding_box() for part in (".photo-box", ".photo", ".box")
        )
        assert seen["x"] >= room["x"] - 1
        assert seen["x"] + seen["width"] <= room["x"] + room["width"] + 1
        assert (drawn["height"] == pytest.approx(room["height"], abs=1)) is fills
        assert seen["y"] - drawn["y"] == pytest.approx(box[1] * drawn["height"], abs=2)
        phone.back()
