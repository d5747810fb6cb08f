"""Answers without a connection in a real browser, by the network that the version which answers has for phones."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from lab.phone import PhoneNetwork
from phone import Phone, serious_violations
from PIL import Image
from playwright.sync_api import Error
from support.real_model import built_models

READY = "It is on this phone"
MOST_BYTES = 4.6e6
LIBRARY = ("offline.js", "offline.wasm")
KEPT = "JSON.parse(localStorage.getItem('dogsnap:offlineNetwork'))"
LATEST = "JSON.parse(localStorage.getItem('dogsnap:history') ?? '[{}]')[0]"
LONG_TASKS = """
globalThis.longest = 0
new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) longest = Math.max(longest, duration)
}).observe({ type: 'longtask' })
"""


@pytest.fixture
def phone(open_phone):
    phone = open_phone(locale="en-US")
    phone.button("camera").wait_for()
    phone.page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    return phone


def switch(phone) -> None:
    phone.page.goto(f"{phone.url}#/pages/settings/settings")
    phone.tap(phone.screen.locator(".option.offline"))


def hint(phone, words: str) -> str:
    line = phone.screen.locator(".offline-hint", has_text=words)
    line.wait_for()
    return line.inner_text()


def choose(phone) -> None:
    switch(phone)
    hint(phone, READY)


def snap(phone, photo: Path) -> dict:
    """What the phone itself says of a photo."""
    phone.page.goto(f"{phone.url}#/pages/home/home")
    phone.choose(photo)
    phone.screen.locator(".mark").wait_for()
    return phone.page.evaluate(f"{LATEST}.onPhone")


def test_the_phone_says_what_python_says_and_then_the_server_answers(phone, dog):
    assert not [url for url in phone.sent if "offline" in url]
    sizes = {}
    phone.page.on(
        "requestfinished",
        lambda request: sizes.update({request.url: request.sizes()["responseBodySize"]}),
    )
    choose(phone)
    fetched = {url: size for url, size in sizes.items() if "offline" in url}
    assert {url.rsplit("/", 1)[-1] for url in fetched} >= {"offline", "model.json", "weights.bin"}
    assert 3e6 < sum(fetched.values()) < MOST_BYTES
    phone.context.set_offline(True)
    phone.page.reload()  # as it starts in airplane mode
    said = snap(phone, dog)
    assert phone.screen.locator(".photo .box").count() == 0
    assert phone.screen.locator(".feedback").count() == 0
    assert "The photo waits" in phone.screen.locator(".phone-note").inner_text()
    sent = phone.posted_photo(lambda: phone.context.set_offline(False))
    phone.screen.locator(".mark").wait_for(state="detached")
    network = PhoneNetwork(built_models() / "inception_v3" / "3")
    (probabilities,), _ = network.answers([sent])
    order = np.argsort(-probabilities)[:5]
    labels = network.description["labels"]
    assert [breed["id"] for breed in said["breeds"][:5]] == [labels[each]["id"] for each in order]
    given = [breed["probability"] for breed in said["breeds"][:5]]
    np.testing.assert_allclose(given, probabilities[order], atol=0.02)


def test_a_photo_without_a_dog_is_said_to_have_none(phone, photo_that_is):
    choose(phone)
    phone.context.set_offline(True)
    assert snap(phone, photo_that_is("no_dog"))["state"] == "no_dog"


def half_of(route) -> None:
    body = route.fetch().body()
    route.fulfill(status=200, body=body[: len(body) // 2])


def login_page(route) -> None:
    route.fulfill(status=200, body="<h1>Welcome to our hotel</h1>")


@pytest.mark.parametrize("answer", [half_of, login_page, lambda route: route.abort()])
def test_what_is_no_whole_network_is_said_and_leaves_nothing(phone, answer):
    phone.context.route("**/weights.bin", answer)
    switch(phone)
    hint(phone, "download didn't finish")
    assert_nothing_is_left(phone)


def test_a_full_phone_is_said_and_keeps_nothing_of_it(phone):
    session = phone.context.new_cdp_session(phone.page)
    quota = {"origin": phone.url, "quotaSize": 1_000_000}
    session.send("Storage.overrideQuotaForOrigin", quota)
    switch(phone)
    hint(phone, "not enough space")
    assert_nothing_is_left(phone)


def assert_nothing_is_left(phone) -> None:
    assert not phone.page.evaluate("caches.has('offline')")
    option = phone.screen.locator(".option.offline")
    assert option.get_attribute("aria-checked") == "false"


def test_the_switch_deletes_all_of_it_and_a_keyboard_reaches_it(phone):
    choose(phone)
    assert serious_violations(phone.page) == []
    assert phone.page.evaluate("caches.has('offline')")
    phone.screen.locator(".option.offline").press("Enter")
    hint(phone, "less reliably than the server")
    assert not phone.page.evaluate("caches.has('offline')")


def begin_download(phone) -> list:
    """The request for most of it, which is not answered."""
    held = []
    phone.context.route("**/weights.bin", lambda route: held.append(route))  # noqa: PLW0108 - it takes no built-in
    switch(phone)
    phone.wait_until(lambda: held)
    return held


def test_another_network_of_the_server_takes_the_place_of_the_one_before(phone):
    choose(phone)
    own, other = phone.page.evaluate(f"{KEPT}.digest"), "f" * 16

    def describe(route) -> None:
        description = route.fetch().json()
        route.fulfill(json={**description, "digest": other})

    def hand_out(route) -> None:
        route.fulfill(response=route.fetch(url=route.request.url.replace(other, own)))

    phone.context.route("**/api/offline", describe)
    phone.context.route(f"**/api/offline/{other}/*", hand_out)
    phone.page.reload()
    phone.wait_until(lambda: phone.page.evaluate(f"{KEPT}.digest") == other)
    files = phone.page.evaluate(
        "caches.open('offline').then((cache) => cache.keys()).then((all) => all.map(({url}) => url))"
    )
    names = [f"api/offline/{other}/{name}" for name in ("model.json", "weights.bin")]
    assert sorted(files) == sorted(phone.url + name for name in (*LIBRARY, *names))


def leave(phone) -> Phone:
    phone.page.goto("about:blank")
    phone.sent.clear()
    return phone


def end_process(phone) -> Phone:
    """As a system does that needs the memory; the app is then opened anew."""
    with phone.page.expect_event("crash"), suppress(Error):
        phone.page.goto("chrome://crash")
    phone.page.close()
    return Phone(phone.context, phone.url, touch=True)


@pytest.mark.parametrize("end", [leave, end_process])
def test_a_download_that_ended_with_its_window_goes_on_at_the_next_start(phone, end):
    begin_download(phone)
    phone = end(phone)
    phone.context.unroute("**/weights.bin")
    phone.page.goto(f"{phone.url}#/pages/settings/settings")
    hint(phone, READY)
    fetched = {url.rsplit("/", 1)[-1] for url in phone.sent if "api/offline/" in url}
    assert fetched == {"weights.bin"}  # the other file was whole


def test_a_download_that_fails_after_the_window_was_nearly_left_is_said(phone):
    (held,) = begin_download(phone)
    phone.page.evaluate("dispatchEvent(new Event('beforeunload'))")  # of a link to a file
    held.abort()
    hint(phone, "download didn't finish")
    assert_nothing_is_left(phone)


def test_a_photo_whose_window_ended_while_the_network_ran_is_answered_at_the_next_start(phone, dog):
    choose(phone)
    phone.context.set_offline(True)
    phone.page.goto(f"{phone.url}#/pages/home/home")
    phone.choose(dog)
    phone.wait_until(lambda: phone.page.evaluate(f"'id' in {LATEST}"))
    phone = end_process(phone)
    entry = phone.page.evaluate(LATEST)
    assert (entry["outcome"], entry["onPhone"]) == (None, None)
    phone.page.goto(f"{phone.url}#/pages/result/result?id={entry['id']}")
    phone.screen.locator(".mark").wait_for()
    phone.context.set_offline(False)
    phone.screen.locator(".mark").wait_for(state="detached")
    assert phone.page.evaluate(f"{LATEST}.outcome.state") == "breed"


NOTE_PARTS = """() => {
    const { postMessage } = Worker.prototype
    globalThis.parts = []
    Worker.prototype.postMessage = function (question, ports) {
        if (question.picture) parts.push(question.network.parts)
        postMessage.call(this, question, ports)
    }
}"""


def test_to_load_the_network_early_one_part_of_a_blank_picture_is_enough(phone, dog):
    choose(phone)
    phone.page.goto(f"{phone.url}#/pages/home/home")
    phone.page.evaluate(NOTE_PARTS)
    phone.choose(dog)
    phone.wait_for_answer()
    assert phone.page.evaluate("parts") == [[1]]


def test_in_airplane_mode_from_the_first_start_on_a_photo_waits_and_nothing_offers_a_download(
    phone, dog
):
    phone.context.set_offline(True)
    phone.page.reload()
    phone.choose(dog)
    assert phone.wait_for_answer() == "failed"
    assert phone.screen.locator(".waits").count() == 1
    phone.page.goto(f"{phone.url}#/pages/settings/settings")
    phone.screen.locator(".option.models").wait_for()
    assert phone.screen.locator(".option.offline").count() == 0
    phone.context.set_offline(False)
    phone.wait_until(lambda: phone.page.evaluate(f"{LATEST}.outcome"))


@pytest.mark.measures
def test_twelve_megapixels_are_answered_within_three_seconds_by_a_slow_phone(phone, dog, tmp_path):
    with Image.open(dog) as photo:
        photo.convert("RGB").resize((4000, 3000)).save(tmp_path / "large.jpg", quality=90)
    choose(phone)
    phone.context.set_offline(True)
    phone.page.goto("about:blank")
    phone.page.goto(f"{phone.url}#/pages/home/home")
    phone.button("camera").wait_for()
    session = phone.context.new_cdp_session(phone.page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    phone.page.evaluate(LONG_TASKS)
    started = phone.page.evaluate("performance.now()")
    phone.choose(tmp_path / "large.jpg")
    phone.screen.locator(".mark").wait_for()
    took, longest = phone.page.evaluate("[performance.now(), longest]")
    print(
        f"answered after {took - started:.0f} ms, the longest task of the page took {longest:.0f} ms"
    )
    assert took - started < 3000
    assert longest < 200
