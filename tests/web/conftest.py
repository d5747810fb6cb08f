"""Fixtures for the app in a browser: the real server with the real model, Chromium, and photos."""

import base64
import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import pytest
import requests
from phone import DEVICES, PATIENCE, STATUS_NOTICE, Phone
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from support.changed_version import changed_version
from support.colour_photos import encode, plain
from support.real_model import built_models

expect.set_options(timeout=PATIENCE)
# The first is Chromium without windows, menus and the processes that draw them: the tests take two thirds of the time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
]
FLAGS += [
    "--no-first-run",
    "--disable-component-update",
    "--host-resolver-rules=MAP phone.test 127.0.0.1",
]
MOST_PHOTOS_TRIED = 240
# States of the result page: the server's level, and a folder of photos that has many of them. Hardly any photo is clearly
# unsure: for that state there is a server of its own.
STATES = {
    "breed": ("breed", "stanford_dogs"),
    "group": ("group", "stanford_dogs"),
    "set": ("set", "other_dogs"),
    "unknown": ("unknown", "other_dogs"),
    "no_dog": ("no_dog", "not_dogs"),
}


# WeChat on Android runs scripts without Intl: there is no order of Chinese characters, and marks stay on their letters.
AS_IN_WECHAT = """
delete globalThis.Intl
String.prototype.localeCompare = function (other) { return this < other ? -1 : Number(this > other) }
String.prototype.normalize = function () { return String(this) }
"""


@pytest.fixture(scope="session")
def unsure_server(start_server, tmp_path_factory):
    """The newest version without groups, and with thresholds that make every set too large: each photo of a dog is unsure."""

    def make_unsure(description: dict) -> None:
        certain = {
            "confident_threshold": 1.0,
            "group_threshold": 1.0,
            "set_threshold": 0.0,
            "unknown_threshold": 0.0,
        }
        description["decision"].update(certain)
        description["groups"] = []

    newest = max(
        (built_models() / "inception_v3").glob("[0-9]*"), key=lambda version: int(version.name)
    )
    models = tmp_path_factory.mktemp("unsure")
    changed_version(newest, models / "inception_v3" / "1", make_unsure)
    return start_server(models, lasting=True)


@pytest.fixture
def own_server(start_server, colour_models):
    """Starts a server with these flags for a test that treats it badly; a tiny model starts sooner."""
    built_models()
    return lambda *flags: start_server(colour_models, *flags)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(
            "chromium is missing: install Debian's packages chromium-headless-shell and fonts-wqy-microhei"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_phone(browser: Browser, request) -> Iterator[Callable[..., Phone]]:
    """A function that opens the app on a fresh device; at the end, none of them may have complained in its console."""
    phones: list[Phone] = []

    def open_phone(
        device: str = "phone", server=None, host="127.0.0.1", path="", **options: object
    ) -> Phone:
        server = server or request.getfixturevalue("app_server")
        context = browser.new_context(**{**DEVICES[device], **options})
        context.set_default_timeout(PATIENCE)
        context.add_init_script(AS_IN_WECHAT)
        phones.append(
            Phone(context, f"http://{host}:{server.port}/{path}", touch=device == "phone")
        )
        return phones[-1]

    yield open_phone
    complaints = [complaint for phone in phones for complaint in phone.complaints]
    for phone in phones:
        phone.context.close()
    assert complaints == []


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page of a server; at the end, none may have complained in its console, nor have asked another host."""
    pages, complaints = [], []

    def open_page(server, path: str, size: dict[str, int]) -> Page:
        page = browser.new_page(viewport=size)
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        own = server.url, "blob:", "data:"
        page.on(
            "request",
            lambda asked: asked.url.startswith(own) or complaints.append(f"asked {asked.url}"),
        )
        page.goto(f"{server.url}{path}")
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert [each for each in complaints if STATUS_NOTICE not in each] == []


@pytest.fixture(scope="session")
def photo_that_is(app_server, data_dir) -> Callable[[str], Path]:
    """A function that finds a photo which the server itself clearly answers so: one of STATES."""
    state_of = cache(
        partial(clear_state, app_server.url)
    )  # two states are looked for in the same folder

    @cache
    def photo_that_is(state: str) -> Path:
        folder = data_dir / STATES[state][1] / "images"
        photos = sorted(path for path in folder.rglob("*") if path.suffix in (".jpg", ".webp"))
        some = photos[:: max(1, len(photos) // MOST_PHOTOS_TRIED)][
            :MOST_PHOTOS_TRIED
        ]  # spread over all breeds
        found = next((photo for photo in some if state_of(photo) == state), None)
        return found or pytest.skip(
            f"none of {MOST_PHOTOS_TRIED} photos in {folder} is clearly answered as {state}"
        )

    return photo_that_is


@pytest.fixture(scope="session")
def dog(photo_that_is) -> Path:
    return photo_that_is("breed")


@pytest.fixture
def red_dog(tmp_path) -> Path:
    """A photo that the tiny models name."""
    (tmp_path / "red.jpg").write_bytes(encode(plain(), "JPEG"))
    return tmp_path / "red.jpg"


def clear_state(url: str, photo: Path) -> str:
    """What the app shows for a photo; empty near a threshold, where a smaller copy, as the app sends, can cross it."""
    state = state_of(url, photo.read_bytes())
    if not state:
        return ""
    with Image.open(photo) as image:
        copy = image.convert("RGB")
    copy.thumbnail((640, 640))
    return state if state_of(url, encode(copy, "JPEG", quality=78)) == state else ""


def state_of(url: str, contents: bytes) -> str:
    body = {"image": base64.b64encode(contents).decode()}
    answer = requests.post(f"{url}/api/classify", json=body, timeout=60).json()
    state = next((state for state, (level, _) in STATES.items() if level == answer["level"]), "")
    return state if is_clear(answer) else ""


def is_clear(answer: dict) -> bool:
    """Whether probabilities and the number of candidates are far from what would change the level."""
    best, shared = (
        answer["breeds"][0]["probability"],
        (answer["group"] or {"probability": 0})["probability"],
    )
    return {
        "breed": best > 0.977,  # the lapse rate leaves hardly more than 0.98
        "group": best < 0.85 and shared > 0.85,
        "set": max(best, shared) < 0.7 and len(answer["set"] or ()) < 5,
    }.get(answer["level"], True)
