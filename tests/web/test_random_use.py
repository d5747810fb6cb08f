"""Somebody taps whatever is there while the connection comes and goes: no photo is lost, each has its own answer."""

import contextlib
import itertools
import random

import pytest
from phone import Phone
from playwright.sync_api import Error, FileChooser, Route
from support.colour_photos import BLUE, GREEN, RED, encode, plain

COLOURS = {"red": RED, "green": GREEN, "blue": BLUE}
MOST_WAITING = 9  # the app keeps ten
BUSY = {"status": 503, "headers": {"Retry-After": "1"}, "json": {"error": "busy"}}
SIZES = [(390, 844), (844, 390), (360, 640)]
WORDS = ["red", "zzz", "犬", ""]
ASKS = ("Identify", "识别", "辨識")
CANCELS = ("Cancel", "取消")
TAKES_AWAY = (*CANCELS, "Delete", "Yes", "删除", "刪除")

# What can be tapped on the dialog in view, or else on the page.
TARGETS = """() => {
    const surface = document.querySelector('dialog[open]') ?? document.querySelector('.wx-frame:not([hidden])')
    const all = surface ? [...surface.querySelectorAll('[role=button], [role=radio], button')] : []
    window.targets = all.filter((element) => element.checkVisibility() && element.ariaDisabled !== 'true')
    return window.targets.map((element) => element.ariaLabel || element.textContent)
}"""
# Where a target is once it is in view; null where something lies above it.
PLACE = """(number) => {
    const target = window.targets[number]
    target.scrollIntoView({block: 'center', behavior: 'instant'})
    const {x, y, width, height} = target.getBoundingClientRect()
    const place = [x + width / 2, y + height / 2]
    return target.contains(document.elementFromPoint(...place)) ? place : null
}"""
ENTRIES = "() => JSON.parse(localStorage['dogsnap:history'] ?? '[]')"
# Width, height and colour of each photo that is kept, by the id of its snap.
KEPT = """async () => {
    const database = await new Promise((done) => { indexedDB.open('dogsnap').onsuccess = ({target}) => done(target.result) })
    const read = (path) => new Promise((done) => {
        database.transaction('files').objectStore('files').get(path).onsuccess = ({target}) => done(target.result)
    })
    const kept = {}
    for (const {id, photo} of JSON.parse(localStorage['dogsnap:history'] ?? '[]')) {
        const picture = await createImageBitmap(await read(photo))
        const context = new OffscreenCanvas(1, 1).getContext('2d')
        context.drawImage(picture, 0, 0, 1, 1)
        const colour = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3)
        kept[id] = ['red', 'green', 'blue'][colour.indexOf(Math.max(...colour))]
    }
    database.close()
    return kept
}"""


class Person:
    """Acts at random, and knows which photos have to be there."""

    def __init__(self, phone: Phone, seed: int, folder):
        self.phone, self.folder, self.chance = phone, folder, random.Random(seed)
        self.expected: dict[str, str] = {}  # id of a snap -> colour of its photo
        self.removed: dict[str, str] = {}  # id of a snap -> what took it away
        self.answered: set[str] = set()  # ids of snaps
        self.connection = "well"
        self.choosers: list[FileChooser] = []
        self.unanswered: list[Route] = []
        self.numbers = itertools.count()
        self.done: list[str] = []  # to be read where it fails
        phone.page.on("filechooser", lambda chooser: self.choosers.append(chooser))  # noqa: PLW0108 - it takes no built-in
        phone.page.route("**/api/**", self.answer)

    def answer(self, route: Route) -> None:
        if self.connection == "busy":
            route.fulfill(**BUSY)
        elif self.connection == "lost":
            route.abort("connectionrefused")
        elif self.connection != "silent":
            route.continue_()
        else:
            self.unanswered.append(route)

    def end_silence(self) -> None:
        for route in self.unanswered:
            with contextlib.suppress(Error):  # its page may be gone
                route.abort()
        self.unanswered.clear()

    def act(self) -> None:
        acts = [self.tap] * 12 + [self.tap_twice, self.go_back, self.go_back, self.reload]
        acts += [self.turn, self.search, self.wait, self.wait, self.change_connection]
        act = self.chance.choice(acts)
        self.done.append(act.__name__)
        act()
        self.check()

    def tap(self, times: int = 1) -> None:
        page = self.phone.page
        labels = page.evaluate(TARGETS)
        assert labels, "nothing leads on"
        number = self.chance.randrange(len(labels))
        place = page.evaluate(PLACE, number)
        if place is None:
            return
        self.done[-1] += f" {labels[number][:24]}"
        before = page.url
        for _ in range(times):
            page.touchscreen.tap(*place)
        page.wait_for_timeout(60)
        if self.choosers:
            self.choose()
        if "frame/frame" in before and labels[number] in ASKS:
            self.expect_new(self.expected[before.split("id=")[-1]])

    def tap_twice(self) -> None:
        self.tap(times=2)

    def choose(self) -> None:
        """The last of the choosers is in view; one in four is left without a word."""
        chooser = self.choosers[-1]
        self.choosers.clear()
        waiting = sum(not entry["outcome"] for entry in self.phone.page.evaluate(ENTRIES))
        if waiting >= MOST_WAITING or self.chance.random() < 0.25:
            self.done[-1] += " left"
            return
        colour = self.chance.choice(list(COLOURS))
        number = next(self.numbers)
        file = self.folder / f"{number}.jpg"
        # So large that a part of a part of a part of it still holds enough pixels.
        file.write_bytes(encode(plain(COLOURS[colour], (800 + number, 640)), "JPEG"))
        chooser.set_files(file)
        self.expect_new(colour)

    def expect_new(self, colour: str) -> None:
        """A photo that was chosen, or a part that was framed, is in the history a moment later."""

        def is_there() -> bool:
            ids = {entry["id"] for entry in self.phone.page.evaluate(ENTRIES)}
            fresh = ids - set(self.expected) - set(self.removed)
            assert len(fresh) <= 1, f"{len(fresh)} new ones by: {self.done[-1]}"
            self.expected.update(dict.fromkeys(fresh, colour))
            return bool(fresh)

        self.phone.wait_until(is_there, 20)
        self.done[-1] += f" {colour}"

    def go_back(self) -> None:
        if self.phone.page.evaluate("history.state.stack.length > 1"):
            self.phone.page.evaluate("history.back()")
            self.phone.page.wait_for_timeout(60)

    def reload(self) -> None:
        self.choosers.clear()
        self.phone.page.reload()
        self.phone.screen.first.wait_for()

    def turn(self) -> None:
        width, height = self.chance.choice(SIZES)
        self.phone.page.set_viewport_size({"width": width, "height": height})

    def search(self) -> None:
        field = self.phone.screen.locator(".search input")
        if field.count():
            field.fill(self.chance.choice(WORDS))

    def wait(self) -> None:
        self.phone.page.wait_for_timeout(self.chance.choice([50, 300, 900]))

    def change_connection(self) -> None:
        self.connection = self.chance.choice(["well", "lost", "busy", "silent", "offline"])
        self.phone.context.set_offline(self.connection == "offline")
        self.done[-1] += f" {self.connection}"

    def check(self) -> None:
        page, last = self.phone.page, self.done[-1]
        assert page.url.startswith(self.phone.url), f"out of the app by: {last}"
        entries = page.evaluate(ENTRIES)
        ids = {entry["id"] for entry in entries}
        gone = set(self.expected) - ids
        if gone:
            assert any(word in last for word in TAKES_AWAY), f"lost by: {last}"
            is_cancelled = any(word in last for word in CANCELS)
            assert not (is_cancelled and gone & self.answered), f"answered, and lost by: {last}"
            for id_ in gone:
                del self.expected[id_]
                self.removed[id_] = last
        back = [self.removed[id_] for id_ in ids & set(self.removed)]
        assert not back, f"taken away by {back}, and back after: {last}"
        assert ids == set(self.expected), f"{ids - set(self.expected)} came by: {last}"
        self.answered |= {entry["id"] for entry in entries if entry["outcome"]}
        assert self.phone.complaints == []
        assert page.locator(".wx-frame:not([hidden])").count() == 1

    def see_every_answer(self) -> None:
        """Once the connection is there, all that waited is answered, each with what its photo shows."""
        self.connection = "well"
        self.phone.context.set_offline(False)
        self.phone.page.reload()
        self.end_silence()

        def is_answered() -> bool:
            return all(entry["outcome"] for entry in self.phone.page.evaluate(ENTRIES))

        self.phone.wait_until(is_answered)
        self.check()
        entries = self.phone.page.evaluate(ENTRIES)
        answers = {entry["id"]: entry["outcome"]["breeds"][0]["name"] for entry in entries}
        assert answers == {id_: f"{colour} dog" for id_, colour in self.expected.items()}
        assert self.phone.page.evaluate(KEPT) == self.expected


def use(open_phone, server, folder, seed: int, actions: int) -> None:
    phone = open_phone(server=server, locale="en-US")
    phone.button("camera").wait_for()
    person = Person(phone, seed, folder)
    try:
        for _ in range(actions):
            person.act()
        person.see_every_answer()
    except Exception:
        print("\n".join(person.done))
        raise
    finally:
        person.end_silence()


def test_somebody_who_taps_at_random_loses_no_photo(open_phone, colour_server, tmp_path):
    use(open_phone, colour_server, tmp_path, seed=0, actions=30)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_somebody_who_taps_at_random_for_long_loses_no_photo(
    open_phone, colour_server, tmp_path, seed
):
    use(open_phone, colour_server, tmp_path, seed, actions=200)
