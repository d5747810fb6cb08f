"""Every way to fail, provoked for real: each is told in words, with a way on."""

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image
from playwright.sync_api import expect
from support.process_readings import children, held
from support.waiting import wait_until

# More than the largest body, also after the browser's own attempt to make it smaller: it is no picture.
TOO_LARGE_BYTES = 14 * 2**20


def failure(phone) -> str:
    assert phone.wait_for_answer() == "failed"
    return phone.screen.locator(".failure").inner_text()


TOLD = {
    "empty": ("空的", "is empty"),
    "tiny": ("太小", "too small"),
    "huge": ("太大", "too large"),
    "letter": ("不是照片", "not a photo"),
}


@pytest.mark.parametrize("locale", ["zh-CN", "en-US"])
def test_a_file_that_cannot_be_named_is_told_as_what_it_is_and_is_gone_after_a_reload(
    open_phone, tmp_path, locale
):
    (tmp_path / "empty").write_bytes(b"")
    Image.new("RGB", (24, 24)).save(tmp_path / "tiny", "JPEG")
    (tmp_path / "huge").write_bytes(os.urandom(TOO_LARGE_BYTES))
    (tmp_path / "letter").write_text("Dear dog, " * 500)
    phone, is_english = open_phone(locale=locale), locale == "en-US"
    for name, words in TOLD.items():
        phone.button("camera").wait_for()
        phone.choose((tmp_path / name).rename(tmp_path / f"{name}.jpg"))
        told = failure(phone)
        assert words[is_english] in told
        assert is_english or all(line.endswith("。") for line in told.split("\n"))
        if name != "letter":
            phone.back()
    phone.screen.locator(".photo-missing").wait_for()
    assert phone.button("retry").count() == 0
    phone.page.reload()
    assert ("no longer on this phone" if is_english else "已不在") in failure(phone)


@pytest.mark.parametrize("locale", ["zh-CN", "en-US"])
def test_a_server_that_starts_is_told_and_asked_again_until_it_answers(open_phone, dog, locale):
    """The browser meets a starting server: no connection, then 503 from both addresses, then the server itself."""
    phone = open_phone(locale=locale)
    phone.button("camera").wait_for()
    loading = {
        "status": 503,
        "headers": {"Retry-After": "1"},
        "json": {"error": "still loading; try again"},
    }
    phone.page.route("**/readyz", lambda route: route.fulfill(**loading))
    phone.page.route("**/api/classify", lambda route: route.fulfill(**loading), times=2)
    phone.page.route("**/api/classify", lambda route: route.abort("connectionrefused"), times=1)
    phone.choose(dog)
    words = {
        "zh-CN": ("连不上服务器，马上重试", "服务器正在启动"),
        "en-US": ("can't be reached; trying again", "is starting"),
    }
    for told in words[locale]:
        phone.screen.get_by_text(told).wait_for()
    assert phone.wait_for_answer() == "breed"
    assert phone.classify_requests() == 4


def waiting(phone) -> int:
    """How many photos the phone keeps without an answer."""
    kept = "(JSON.parse(localStorage.getItem('dogsnap:history')) || [])"
    return phone.page.evaluate(f"{kept}.filter(({{outcome}}) => !outcome).length")


def test_photos_without_a_connection_wait_and_are_answered_later_but_those_deleted(open_phone, dog):
    phone, word = open_phone(locale="en-US"), "Waiting"
    phone.button("camera").wait_for()
    phone.page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    phone.context.set_offline(True)
    phone.choose(dog)
    assert "no connection" in failure(phone)
    phone.screen.locator(".waits").wait_for()
    phone.tap("retry")
    for number in range(1, 12):
        failure(phone)
        if number <= 10:
            phone.screen.locator(".waits").wait_for()
        phone.back()
        assert waiting(phone) == min(number, 10)
        if number <= 10:
            phone.choose(dog)
    assert phone.screen.locator(".recent-name").all_inner_texts() == [word] * 4
    phone.tap("history")
    names = phone.screen.locator(".entry .name")
    expect(names).to_have_text([word] * 10)
    phone.tap("edit")
    for _ in range(8):
        phone.tap(phone.screen.locator(".remove").first)
        phone.confirm("delete")
        phone.page.get_by_role("dialog").wait_for(state="detached")
    expect(names).to_have_text([word] * 2)
    phone.context.set_offline(False)
    expect(names).not_to_contain_text([word, word])
    expect(names).to_have_count(2)
    phone.wait_until(lambda: waiting(phone) == 0)
    assert (
        phone.classify_requests() == 14
    )  # eleven that were lost, a retry, and one for each that waited
    phone.tap(phone.screen.locator(".open").first)
    assert phone.wait_for_answer() == "breed"
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
    with phone.page.expect_event(
        "requestfailed", lambda request: request.url.endswith("/api/classify")
    ):
        phone.context.set_offline(False)
    assert waiting(phone) == 1
    phone.page.unroute("**/api/classify")
    with phone.page.expect_response("**/api/classify"):
        phone.page.reload()
    wait_until(lambda: waiting(phone) == 0)
    expect(phone.screen.locator(".recent-name")).not_to_have_text("等待识别")


@pytest.mark.parametrize(
    ("page", "told", "there"),
    [
        ("breed/breed?id=n02099601", "暂时打不开", ".facts"),
        ("breeds/breeds", "暂时打不开", ".choice >> nth=0"),
        ("settings/settings", "读不到模型列表", ".option.model >> nth=1"),
    ],
    ids=["breed", "breeds", "settings"],
)
@pytest.mark.parametrize("way", ["retry", "by itself"])
def test_a_page_without_connection_says_what_it_misses_and_shows_it_once_there_is_one(
    open_phone, page, told, there, way
):
    phone = open_phone()
    phone.button("camera").wait_for()
    phone.page.route("**/api/*", lambda route: route.abort("internetdisconnected"))
    if way == "by itself":
        phone.context.set_offline(True)
    phone.page.evaluate(f"location.hash = '#/pages/{page}'")
    if page == "settings/settings":
        phone.tap(phone.screen.locator(".models"))
    phone.screen.get_by_text(told).wait_for()
    phone.page.unroute("**/api/*")
    if way == "by itself":
        phone.context.set_offline(False)
    else:
        phone.page.wait_for_timeout(500)  # two taps in one place within less are taken for one
        phone.tap("retry")
    phone.screen.locator(there).wait_for()


def test_a_version_that_is_not_there_is_told_and_another_can_be_chosen(open_phone, dog):
    phone = open_phone()
    pinned = '{"language": "phone", "theme": "phone", "model": {"model": "inception_v3", "version": 999}}'
    phone.page.evaluate("settings => localStorage.setItem('dogsnap:settings', settings)", pinned)
    phone.choose(dog)
    assert "模型版本" in failure(phone)
    phone.tap(phone.screen.get_by_role("button", name="去设置"))
    phone.tap(phone.screen.locator(".models"))
    phone.tap(phone.screen.get_by_role("radio", name="服务器默认"))
    phone.back()  # the photo is asked about again by itself
    phone.screen.locator(".state-breed").wait_for()


def test_a_server_out_of_time_is_told(open_phone, own_server, dog):
    phone = open_phone(
        server=own_server("--deadline-ms", "1")
    )  # the first run of a version takes longer
    phone.choose(dog)
    assert "没来得及" in failure(phone)


def test_a_full_server_is_told_as_busy(
    open_phone, start_server, colour_models, sleeper, tmp_path, dog
):
    for folder in (colour_models / "inception_v3", sleeper / "sleeper"):
        shutil.copytree(folder, tmp_path / "models" / folder.name)
    server = start_server(tmp_path / "models", "--run-threads", "1", "--queue-size", "1")
    phone = open_phone(server=server)
    phone.button("camera").wait_for()
    with crowded(server):
        phone.choose(dog)
        told = failure(phone)
    assert "人太多" in told
    assert "秒" in phone.screen.locator(".waits").inner_text()  # the server says for how long
    phone.tap("retry")
    assert phone.wait_for_answer() != "failed"


def test_a_server_that_dies_mid_way_is_told(open_phone, own_server, dog):
    server = own_server()
    phone = open_phone(server=server)
    phone.page.clock.install()
    phone.button("camera").wait_for()
    with frozen(server):
        phone.choose(dog)
        phone.screen.get_by_text("正在识别").wait_for()
        for process in processes(server):
            os.kill(process, signal.SIGKILL)
    phone.screen.get_by_text("马上重试").wait_for()

    def has_given_up() -> bool:
        phone.page.clock.fast_forward(5000)  # of the pauses between its attempts
        return phone.screen.locator(".state-failed").count() == 1

    wait_until(has_given_up)
    assert "连不上服务器" in failure(phone)


def test_cancel_while_the_server_is_silent_and_the_next_photo_gets_its_own_answer(
    open_phone, own_server, dog, red_dog
):
    server = own_server()
    phone = open_phone(server=server, color_scheme="dark")
    phone.button("camera").wait_for()
    with frozen(server):
        phone.choose(dog)
        phone.screen.get_by_text("正在识别").wait_for()
        phone.tap("cancel")
        phone.button("camera").wait_for()
    assert phone.snap(red_dog) == "breed"
    assert phone.rows()[0] == "红犬"
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
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def processes(server) -> list[int]:
    """gunicorn's master first, then its worker."""
    return [server.process.pid, *children(server.process.pid)]


@contextlib.contextmanager
def crowded(server) -> Iterator[None]:
    """Others keep both places of the server taken; they are three, so that a place that becomes free is taken at once."""
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.02):
            server.post("/v1/models/sleeper:predict", json={"instances": [1.0]})

    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(ask)
        try:
            wait_until(lambda: held(server) == 2)
            yield
        finally:
            over.set()
