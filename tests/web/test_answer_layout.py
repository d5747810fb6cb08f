"""The page of an answer: nothing covers the photo, nothing jumps, rules are of one length and touch no words."""

import pytest
from support.colour_photos import RED, encode, plain
from test_answers import HUSKY_GROUP, answer_with, likely

HUSKY, MALAMUTE, ESKIMO = "n02110185", "n02110063", "n02109961"
LIKELY = {MALAMUTE: 0.5, HUSKY: 0.4, ESKIMO: 0.05}
WIDE_BOX = [0.02, 0.1, 0.98, 0.9]
ANSWERS = {
    "breed": {"probabilities": {HUSKY: 0.99}, "asked": True},
    "group": {"probabilities": LIKELY, "group": HUSKY_GROUP},
    "set": {"probabilities": LIKELY, "set": [MALAMUTE, HUSKY]},
    "unsure": {"probabilities": LIKELY},
    "unknown": {"probabilities": LIKELY},
}
# Left and right end of each rule in the card, and how far the text before it is away from it.
RULES = """() => [...document.querySelectorAll('.wx-frame:not([hidden]) .panel *')]
    .filter((each) => parseFloat(getComputedStyle(each).borderTopWidth) === 1)
    .map((each) => {
        const {left, right, top} = each.getBoundingClientRect()
        const before = [...document.querySelectorAll('.wx-frame:not([hidden]) .panel :is(.headline, .lead)')]
            .map((text) => text.getBoundingClientRect().bottom).filter((bottom) => bottom <= top + 2)
        return [left, right, top - Math.max(...before)]
    })"""
PHOTO = """() => {
    const {x, y, width, height} = document.querySelector('.wx-frame:not([hidden]) .photo-picture').getBoundingClientRect()
    return [x, y, width, height].map(Math.round)
}"""


@pytest.fixture
def phone(open_phone, colour_server):
    return open_phone(server=colour_server, locale="en-US")


@pytest.mark.parametrize("level", ANSWERS)
def test_the_rules_of_an_answer_have_one_length_and_touch_no_words(phone, red_dog, level):
    answer_with(phone, level, **ANSWERS[level])
    phone.snap(red_dog)
    rules = phone.page.evaluate(RULES)
    assert rules
    assert len({(left, right) for left, right, _ in rules}) == 1
    assert min(distance for _, _, distance in rules) >= 4


@pytest.mark.parametrize(("width", "height"), [(390, 844), (360, 640), (844, 390), (1280, 800)])
def test_nothing_that_can_be_pressed_covers_the_photo(
    open_phone, colour_server, red_dog, width, height
):
    phone = open_phone(
        server=colour_server, locale="en-US", viewport={"width": width, "height": height}
    )
    phone.snap(red_dog)
    photo = phone.screen.locator(".photo-box").bounding_box()
    for chip in phone.screen.locator(".chip").all():
        box = chip.bounding_box()
        assert box["y"] >= photo["y"] + photo["height"]
        assert box["y"] + box["height"] <= height


@pytest.mark.parametrize("box", [None, WIDE_BOX])
def test_the_photo_stays_where_it_is_when_the_answer_names_no_place_or_all_of_it(
    phone, tmp_path, box
):
    (tmp_path / "wide.jpg").write_bytes(encode(plain(RED, (400, 200)), "JPEG"))
    held = []
    phone.page.route("**/api/classify", lambda route: held.append(route))  # noqa: PLW0108 - it takes no built-in
    phone.choose(tmp_path / "wide.jpg")
    phone.wait_until(lambda: held)
    phone.page.wait_for_timeout(300)
    before = phone.page.evaluate(PHOTO)
    answer = held[0].fetch().json()
    held[0].fulfill(json={**answer, "box": box})
    phone.screen.locator(".answer:not(.state-working)").wait_for()
    phone.page.wait_for_timeout(700)  # longer than any movement
    after = phone.page.evaluate(PHOTO)
    assert max(abs(one - other) for one, other in zip(before, after, strict=True)) <= 20
    assert after[3] * 2 - after[2] in (-1, 0, 1)


def test_the_photo_goes_to_a_small_dog_in_steps(phone, tmp_path):
    (tmp_path / "wide.jpg").write_bytes(encode(plain(RED, (400, 200)), "JPEG"))
    held = []
    phone.page.route("**/api/classify", lambda route: held.append(route))  # noqa: PLW0108 - it takes no built-in
    phone.choose(tmp_path / "wide.jpg")
    phone.wait_until(lambda: held)
    phone.page.wait_for_timeout(300)
    answer = held[0].fetch().json()
    held[0].fulfill(json={**answer, "box": [0.6, 0.3, 0.8, 0.7]})
    widths = phone.page.evaluate(
        """async () => {
            const widths = []
            for (const end = Date.now() + 900; Date.now() < end; await new Promise(requestAnimationFrame))
                widths.push(document.querySelector('.wx-frame:not([hidden]) .photo-picture').getBoundingClientRect().width)
            return widths
        }"""
    )
    assert widths[-1] > 1.5 * widths[0]
    assert len(set(widths)) > 3


SEEN = """(element) => {
    const {x, y, width, height} = element.getBoundingClientRect()
    return element.contains(document.elementFromPoint(x + width / 2, y + height / 2))
}"""


def test_in_a_browser_at_200_percent_the_breed_is_seen_and_its_buttons_cover_nothing(
    open_phone, colour_server, red_dog
):
    phone = open_phone(server=colour_server, locale="en-US", viewport={"width": 195, "height": 422})
    phone.snap(red_dog)
    assert phone.screen.locator(".headline").evaluate(SEEN)
    row = phone.screen.locator(".row.about")
    row.scroll_into_view_if_needed()
    assert row.evaluate(SEEN)


# How far an answer moves once it is drawn, as the browser counts it.
COUNT_SHIFTS = """() => {
    globalThis.shift = 0
    const add = (list) => list.getEntries().forEach(({value, hadRecentInput}) => { shift += hadRecentInput ? 0 : value })
    new PerformanceObserver(add).observe({type: 'layout-shift', buffered: true})
}"""
FACTS = [
    {
        "id": breed,
        "name": breed,
        "name_zh": "",
        "size": "large",
        "origin": {"en": "Siberia", "zh": ""},
        "height_cm": [50, 60],
        "coat": {"en": "Thick.", "zh": ""},
        "look_alikes": [],
    }
    for breed in (MALAMUTE, HUSKY)
]

CHINESE_FACTS = [
    {
        **facts,
        "name": "Alaskan malamute",
        "name_zh": "阿拉斯加雪橇犬",
        "other_names": [],
        "other_names_zh": ["阿拉斯加", "雪橇犬", "阿拉斯加马拉缪特犬", "巨型阿拉斯加犬"],
        "origin": {"en": "", "zh": "美国阿拉斯加"},
    }
    for facts in FACTS
]


@pytest.mark.parametrize("is_soon", [True, False])
def test_facts_of_its_breeds_move_nothing_of_an_answer(phone, red_dog, is_soon):
    """The first answer of a phone waits two seconds for them; what comes later is told when the page is shown again."""
    held = []
    phone.page.route("**/api/breeds", lambda route: held.append(route))  # noqa: PLW0108 - it takes no built-in
    answer_with(phone, "set", **ANSWERS["set"])
    phone.page.evaluate(COUNT_SHIFTS)
    phone.choose(red_dog)
    phone.wait_until(lambda: held)
    drawn = phone.screen.locator(".state-set")
    if is_soon:
        phone.page.wait_for_timeout(500)
        assert drawn.count() == 0
    else:
        drawn.wait_for()
    held[0].fulfill(json={"breeds": FACTS})
    drawn.wait_for()
    phone.page.wait_for_timeout(500)
    assert phone.screen.locator(".difference").count() == (2 if is_soon else 0)
    assert phone.page.evaluate("shift") == 0
    phone.open(".row", ".facts")
    phone.back()
    assert phone.screen.locator(".difference").count() == 2


# Where a line ends within Chinese words: the characters before and after it.
BROKEN = r"""(selector) => [...document.querySelectorAll(`.wx-frame:not([hidden]) :is(${selector})`)].flatMap((each) => {
    const walker = document.createTreeWalker(each, NodeFilter.SHOW_TEXT), found = []
    for (let text; (text = walker.nextNode());) {
        const top = (place) => {
            const range = document.createRange()
            range.setStart(text, place)
            range.setEnd(text, place + 1)
            return range.getBoundingClientRect().top
        }
        for (let place = 1; place < text.length; place++) {
            const pair = text.data.slice(place - 1, place + 1)
            if (/^\p{Script=Han}+$/u.test(pair) && top(place) > top(place - 1) + 4) found.push(pair)
        }
    }
    return found
})"""


@pytest.mark.parametrize("width", [360, 390])
def test_chinese_names_and_clauses_go_on_in_the_next_line_whole(
    open_phone, colour_server, red_dog, width
):
    phone = open_phone(server=colour_server, viewport={"width": width, "height": 740})
    answer_with(phone, "group", LIKELY, group=HUSKY_GROUP)
    phone.page.route("**/api/breeds", lambda route: route.fulfill(json={"breeds": CHINESE_FACTS}))
    broken = []
    phone.snap(red_dog)
    phone.open(".frame-button", ".frame")
    broken += phone.page.evaluate(BROKEN, ".hint")
    phone.back()
    phone.open(".row", ".facts")
    broken += phone.page.evaluate(BROKEN, ".others")
    phone.page.evaluate("location.hash = '#/pages/breeds/breeds'")
    phone.screen.locator(".choice").first.wait_for()
    broken += phone.page.evaluate(BROKEN, ".second")
    phone.page.evaluate("location.hash = '#/pages/home/home'")
    phone.page.route(
        "**/api/classify",
        lambda route: route.fulfill(status=503, headers={"Retry-After": "120"}, json={"error": ""}),
    )
    phone.choose(red_dog)
    phone.screen.locator(".waits").wait_for()
    assert broken + phone.page.evaluate(BROKEN, ".lead") == []


@pytest.mark.parametrize("locale", ["zh-CN", "en-US"])
@pytest.mark.parametrize("width", [360, 390])
def test_the_name_of_each_of_four_dogs_is_seen_whole(
    open_phone, colour_server, red_dog, locale, width
):
    phone = open_phone(
        server=colour_server, locale=locale, viewport={"width": width, "height": 740}
    )
    dog = {"level": "breed", "breeds": [likely(MALAMUTE, 0.97)], "group": None, "set": None}
    dogs = [{**dog, "box": [place / 4, 0.1, place / 4 + 0.2, 0.9]} for place in range(4)]
    answer_with(phone, "breed", {MALAMUTE: 0.97}, box=dogs[0]["box"], dogs=dogs)
    phone.snap(red_dog)
    names = phone.screen.locator(".tab-name")
    assert names.count() == 4
    for name in names.all():
        assert name.evaluate("each => each.scrollWidth <= each.clientWidth")
    tops = [tab.bounding_box()["y"] for tab in phone.screen.locator(".tab").all()]
    assert tops[0] == tops[1] < tops[2] == tops[3]


LONG_NAME = "basset hound, beagle, bluetick coonhound, treeing Walker coonhound or English foxhound"


def test_a_long_name_of_a_group_is_seen_whole_in_the_history(open_phone, colour_server, red_dog):
    size = {"width": 360, "height": 740}
    phone = open_phone(server=colour_server, locale="en-US", viewport=size)
    answer_with(phone, "group", LIKELY, group={**HUSKY_GROUP, "name": LONG_NAME})
    phone.snap(red_dog)
    phone.page.evaluate("location.hash = '#/pages/history/history'")
    name = phone.screen.locator(".entry .name")
    assert name.evaluate("each => each.scrollHeight <= each.clientHeight")
    phone.tap("edit")
    assert name.evaluate("each => each.scrollHeight <= each.clientHeight")


def test_the_breed_of_an_answer_stands_on_the_page_once(phone, red_dog):
    phone.snap(red_dog)
    assert phone.screen.inner_text().count(phone.headline()) == 1
