"""Every way to fail, provoked for real: each is told in words, with a way on."""

import base64
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from PIL import Image
from playwright.sync_api import expect
from process_readings import children, held
from waiting import wait_until

# More than the largest body, also after the browser's own attempt to make it smaller: it is no picture.
TOO_LARGE_BYTES = 14 * 2**20


def failure(phone) -> str:
    assert phone.wait_for_answer() == "failed"
    return phone.screen.locator(".failure").inner_text()


def test_a_text_file_named_jpg_is_no_photo_and_is_gone_after_a_reload(open_phone, tmp_path):
    (tmp_path / "letter.jpg").write_text("Dear dog, " * 500)
    phone = open_phone()
    phone.choose(tmp_path / "letter.jpg")
    assert "不是能识别的照片" in failure(phone)
    assert "无法显示" in phone.screen.locator(".photo-missing").inner_text()
    assert phone.screen.get_by_role("button", name="重试").count() == 0
    phone.shoot("phone-light-failed-not-a-photo")
    phone.page.reload()
    assert "已经不在" in failure(phone)


@pytest.mark.parametrize("locale", ["zh-CN", "en-US"])
def test_an_empty_file_and_a_tiny_photo_are_told_as_that(open_phone, tmp_path, dog, locale):
    (tmp_path / "empty.jpg").write_bytes(b"")
    with Image.open(dog) as image:
        image.resize((24, 24)).convert("RGB").save(tmp_path / "tiny.jpg")
    phone = open_phone(locale=locale)
    for name, words in (("empty", ("空的", "is empty")), ("tiny", ("太小", "too small"))):
        phone.choose(tmp_path / f"{name}.jpg")
        told = failure(phone)
        assert words[locale == "en-US"] in told
        assert locale == "en-US" or all(line.endswith("。") for line in told.split("\n"))
        phone.back()


@pytest.mark.parametrize("locale", ["zh-CN", "en-US"])
def test_a_server_that_starts_is_told_and_asked_again_until_it_answers(open_phone, dog, locale):
    """The browser meets a starting server: no connection, then 503 from both addresses, then the server itself."""
    phone = open_phone(locale=locale)
    phone.button("camera").wait_for()
    loading = {"status": 503, "headers": {"Retry-After": "1"}, "json": {"error": "still loading; try again"}}
    phone.page.route("**/readyz", lambda route: route.fulfill(**loading))
    phone.page.route("**/api/classify", lambda route: route.fulfill(**loading), times=2)
    phone.page.route("**/api/classify", lambda route: route.abort("connectionrefused"), times=1)
    phone.choose(dog)
    phone.screen.get_by_text(
        "连不上服务器，马上重试" if locale == "zh-CN" else "cannot be reached; trying again"
    ).wait_for()
    phone.screen.get_by_text("服务器正在启动" if locale == "zh-CN" else "The server is starting").wait_for()
    assert phone.wait_for_answer() == "shown"
    assert phone.classify_requests() == 4


def test_a_file_beyond_the_servers_limit_is_too_large(open_phone, tmp_path):
    (tmp_path / "huge.jpg").write_bytes(os.urandom(TOO_LARGE_BYTES))
    phone = open_phone()
    phone.choose(tmp_path / "huge.jpg")
    assert "太大" in failure(phone)


def test_offline_is_told_and_the_photo_is_answered_once_the_connection_is_back(open_phone, dog):
    phone = open_phone()
    phone.button("camera").wait_for()
    phone.context.set_offline(True)
    phone.choose(dog)
    assert "连不上服务器" in failure(phone)
    phone.screen.locator(".waits").wait_for()
    phone.shoot("phone-light-failed-offline")
    phone.tap("retry")
    failure(phone)
    phone.screen.locator(".waits").wait_for()
    phone.context.set_offline(False)
    phone.screen.locator(".state-shown").wait_for()
    assert phone.shown_picture(".photo")["width"] > 0


def waiting(phone) -> int:
    """How many photos the phone keeps without an answer."""
    kept = "(JSON.parse(localStorage.getItem('dogsnap:history')) || [])"
    return phone.page.evaluate(f"{kept}.filter(({{outcome}}) => !outcome).length")


def test_photos_without_a_connection_wait_and_are_answered_later_but_those_deleted(open_phone, dog):
    phone = open_phone(locale="en-US")
    word = "Waiting"
    phone.button("camera").wait_for()
    phone.page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    phone.context.set_offline(True)
    for number in range(1, 12):
        phone.choose(dog)
        failure(phone)
        if number <= 10:
            phone.screen.locator(".waits").wait_for()
        phone.back()
        assert waiting(phone) == min(number, 10)
    assert phone.screen.locator(".recent-name").all_inner_texts() == [word] * 4
    phone.shoot("phone-en-US-waiting-home")
    phone.tap("history")
    names = phone.screen.locator(".entry .name")
    expect(names).to_have_text([word] * 10)
    phone.shoot("phone-en-US-waiting-history")
    for _ in range(8):
        phone.tap(phone.screen.locator(".remove").first)
        phone.confirm("delete")
        phone.page.get_by_role("dialog").wait_for(state="detached")
    expect(names).to_have_text([word] * 2)
    phone.context.set_offline(False)
    expect(names).not_to_contain_text([word, word])
    expect(names).to_have_count(2)
    phone.wait_until(lambda: waiting(phone) == 0)
    assert phone.classify_requests() == 13  # eleven that were lost, and one for each that waited
    phone.tap(phone.screen.locator(".open").first)
    assert phone.wait_for_answer() == "shown"
    assert phone.shown_picture(".photo")["width"] > 0


def test_a_photo_that_waits_is_answered_when_the_app_starts(open_phone, dog):
    phone = open_phone()
    phone.button("camera").wait_for()
    phone.page.route("**/api/classify", lambda route: route.abort("internetdisconnected"))
    phone.context.set_offline(True)
    phone.choose(dog)
    phone.screen.locator(".waits").wait_for()
    phone.back()
    # The one attempt of an app that is connected again, and its end: no other one is made until the app starts.
    with phone.page.expect_event("requestfailed", lambda request: request.url.endswith("/api/classify")):
        phone.context.set_offline(False)
    assert waiting(phone) == 1
    phone.page.unroute("**/api/classify")
    with phone.page.expect_response("**/api/classify"):
        phone.page.reload()
    wait_until(lambda: waiting(phone) == 0)
    expect(phone.screen.locator(".recent-name")).not_to_have_text("等待识别")


def test_breeds_can_be_read_offline_after_the_first_answer(open_phone, dog):
    phone = open_phone()
    with phone.page.expect_response("**/api/breeds"):
        phone.snap(dog)
    phone.page.wait_for_function("() => localStorage.getItem('dogsnap:breeds') !== null")
    phone.context.set_offline(True)
    phone.tap(phone.screen.locator(".row").first)
    phone.screen.locator(".facts").wait_for()


@pytest.mark.parametrize(
    ("page", "told", "there"),
    [
        ("breed/breed?id=n02099601", "暂时打不开", ".facts"),
        ("breeds/breeds", "暂时打不开", ".choice >> nth=0"),
        ("settings/settings", "读不到模型列表", ".option.model >> nth=1"),
    ],
    ids=["breed", "breeds", "settings"],
)
def test_a_page_without_connection_says_what_it_misses_and_a_retry_works(open_phone, page, told, there):
    phone = open_phone()
    phone.button("camera").wait_for()
    phone.context.set_offline(True)
    phone.page.evaluate(f"location.hash = '#/pages/{page}'")
    phone.screen.get_by_text(told).wait_for()
    phone.button("retry").scroll_into_view_if_needed()
    phone.shoot(f"phone-light-without-connection-{page.partition('/')[0]}")
    phone.context.set_offline(False)
    phone.tap("retry")
    phone.screen.locator(there).wait_for()


def test_an_unknown_breed_gets_a_page_that_says_so_and_leads_back(open_phone):
    phone = open_phone(path="#/pages/breed/breed?id=n00000000")
    phone.screen.get_by_text("没有这个品种的介绍").wait_for()
    phone.shoot("phone-light-breed-unknown")
    phone.tap(phone.screen.get_by_role("button", name="返回", exact=True))
    phone.button("camera").wait_for()


def test_a_version_that_is_not_there_is_told_and_another_can_be_chosen(open_phone, dog):
    phone = open_phone()
    pinned = '{"language": "phone", "theme": "phone", "model": {"model": "inception_v3", "version": 999}}'
    phone.page.evaluate("settings => localStorage.setItem('dogsnap:settings', settings)", pinned)
    phone.choose(dog)
    assert "模型版本" in failure(phone)
    phone.shoot("phone-light-failed-no-model")
    phone.tap(phone.screen.get_by_role("button", name="去设置"))
    phone.tap(phone.screen.get_by_role("radio", name="服务器默认"))
    phone.back()
    phone.tap("retry")
    phone.screen.locator(".state-shown").wait_for()


def test_a_server_out_of_time_is_told(open_phone, own_server, dog):
    phone = open_phone(
        server=own_server("--deadline-ms", "1")
    )  # the first run of a version that is not warm takes longer
    phone.choose(dog)
    assert "没来得及" in failure(phone)


def test_a_full_server_is_told_as_busy(open_phone, narrow_server, dog):
    phone = open_phone(server=narrow_server)
    phone.button("camera").wait_for()
    with Crowd(narrow_server, dog):
        phone.choose(dog)
        assert "人太多" in failure(phone)
        assert "秒" in failure(phone)  # the server says for how long
    phone.shoot("phone-light-failed-busy")
    phone.tap("retry")
    phone.screen.locator(".state-shown").wait_for()


def test_a_server_that_dies_mid_way_is_told(open_phone, own_server, dog):
    server = own_server()
    phone = open_phone(server=server)
    phone.page.clock.install()
    phone.button("camera").wait_for()
    with frozen(server):
        phone.choose(dog)
        phone.screen.get_by_text("正在辨认").wait_for()
        phone.shoot("phone-light-result-working")
        for process in processes(server):
            os.kill(process, signal.SIGKILL)
    phone.screen.get_by_text("马上重试").wait_for()

    def has_given_up() -> bool:
        phone.page.clock.fast_forward(5000)  # of the pauses between its attempts
        return phone.screen.locator(".state-failed").count() == 1

    wait_until(has_given_up)
    assert "连不上服务器" in failure(phone)


def test_cancel_while_the_server_is_silent_and_the_next_photo_gets_its_own_answer(
    open_phone, narrow_server, dog, photo_that_is
):
    unknown = photo_that_is("unknown")
    phone = open_phone(server=narrow_server, color_scheme="dark")
    phone.button("camera").wait_for()
    with frozen(narrow_server):
        phone.choose(unknown)
        phone.screen.get_by_text("正在辨认").wait_for()
        phone.shoot("phone-dark-result-working")
        phone.tap("cancel")
        phone.button("camera").wait_for()
    assert phone.snap(dog) == "shown"
    phone.back()
    assert phone.screen.locator(".recent-item").count() == 1


@contextlib.contextmanager
def frozen(server) -> Iterator[None]:
    """The server's processes take no step inside this block."""
    stopped = processes(server)
    try:
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        yield
    finally:
        for process in stopped:
            go_on(process)


def go_on(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGCONT)


def processes(server) -> list[int]:
    """gunicorn's master first, then its worker."""
    master = server.process.pid
    return [master, *children(master)]


class Crowd:
    """Others who keep every place of the narrow server taken, with as many photos at once as it accepts."""

    PHOTOS_AT_ONCE = 32
    PLACES = 2  # of the narrow server
    PEOPLE = 3  # one more than there are places, so that a place that becomes free is taken at once
    PAUSE_SECONDS = 0.02

    def __init__(self, server, photo: Path):
        self.server = server
        self.url = f"{server.url}/v1/models/inception_v3/versions/2:predict"
        self.body = {"instances": [base64.b64encode(photo.read_bytes()).decode()] * self.PHOTOS_AT_ONCE}
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._ask) for _ in range(self.PEOPLE)]

    def __enter__(self) -> "Crowd":
        for thread in self.threads:
            thread.start()
        wait_until(lambda: held(self.server) == self.PLACES)
        return self

    def _ask(self) -> None:
        while not self.over.is_set():
            requests.post(self.url, json=self.body, timeout=120)
            self.over.wait(self.PAUSE_SECONDS)

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()
