"""A person with a phone (or a mouse): opens the app, taps what is written on the screen, and looks at the answer."""

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"  # to look at
# Milliseconds. A machine that runs several browsers and servers at once may stand still for half a minute.
PATIENCE = 120_000
AXE = Path(__file__).parents[2] / "backend/web/node_modules/axe-core/axe.min.js"

DEVICES = {
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "has_touch": True,
        "is_mobile": True,
        "locale": "zh-CN",
    },
    "desktop": {
        "viewport": {"width": 1280, "height": 800},
        "locale": "en-US",
        "color_scheme": "dark",
    },
}
# Each device has a theme of its own: the theme changes colours alone, and tests of quality see the other pairs.
DEVICE = pytest.mark.parametrize("device", DEVICES)
WORDS = {
    "camera": ("拍照", "Take a photo"), "album": ("从相册选择", "Choose from album"), "again": ("再拍一张", "Snap another"),
    "history": ("识别记录", "History"), "settings": ("设置", "Settings"), "share": ("分享", "Share"),
    "save": ("存为图片", "Save picture"), "retry": ("重试", "Try again"), "cancel": ("取消", "Cancel"),
    "clear": ("全部删除", "Delete all"), "delete": ("删除", "Yes"), "no": ("取消", "No"),
    "remove": ("删除这条", "Delete this one"),
    "edit": ("编辑", "Edit"),
    "right": ("认对了", "That's right"), "wrong": ("不对，它是…", "No, it's …"),
}  # fmt: skip
# A browser writes this for every status but 2xx; whether a status is expected, the tests say themselves.
STATUS_NOTICE = "Failed to load resource"

# Every answer goes into the history, a moment after it is shown.
IS_KEPT = """() => {
    const id = new URLSearchParams(location.hash.split('?')[1]).get('id')
    return (JSON.parse(localStorage.getItem('dogsnap:history')) || []).some((entry) => entry.id === id)
}"""


def violations(page: Page, impacts: tuple[str, ...] = ()) -> list[tuple[str, list[str]]]:
    """What axe finds on a page, perhaps only of some impacts: the rule and the elements."""
    if not AXE.is_file():
        pytest.skip("axe-core is missing: `npm ci` in backend/web installs it")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    return [
        (found["id"], [node["html"][:160] for node in found["nodes"]])
        for found in page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        if not impacts or found["impact"] in impacts
    ]


def serious_violations(page: Page) -> list[tuple[str, list[str]]]:
    return violations(page, ("serious", "critical"))


def as_read(text: str) -> str:
    """Without the spaces of no width, at which a line may end."""
    return text.replace("\u200b", "")


class Phone:
    """One page of a browser context, with what its console complained about in `complaints`."""

    def __init__(self, context: BrowserContext, url: str, *, touch: bool):
        self.context, self.url, self.touch = context, url, touch
        self.complaints: list[str] = []
        self.sent: list[str] = []
        self.page = context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.sent.append(request.url.removeprefix(url)))
        # From here on Playwright takes every file dialog; without a listener it starts to only while one is expected,
        # which can be later than the key that opens it.
        self.page.on("filechooser", lambda _: None)
        self.page.goto(url)
        is_english = self.page.evaluate("navigator.language").startswith("en")
        self.words = {word: said[is_english] for word, said in WORDS.items()}

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and STATUS_NOTICE not in message.text:
            self.complaints.append(f"{message.type}: {message.text}")

    def tap(self, what: Locator | str) -> None:
        """A word of WORDS, or anything on the page in view."""
        target = self.button(what) if isinstance(what, str) else what
        target.tap() if self.touch else target.click()

    def open(self, what: Locator | str, shows: str) -> Locator:
        """Taps a selector or a word and waits for what that shows, which it gives back."""
        is_selector = isinstance(what, str) and what.startswith(".")
        self.tap(self.screen.locator(what).first if is_selector else what)
        shown = self.screen.locator(shows).first
        shown.wait_for()
        return shown

    def button(self, word: str) -> Locator:
        return self.screen.get_by_role("button", name=self.words[word], exact=word != "remove")

    def choose(self, photo: Path, by: str = "camera") -> None:
        with self.page.expect_file_chooser() as chooser:
            self.tap(by)
        chooser.value.set_files(photo)

    def snap(self, photo: Path, by: str = "camera") -> str:
        """Chooses a photo and waits for the end of it; gives the state of the result page."""
        self.choose(photo, by)
        return self.wait_for_answer()

    def posted_photo(self, do: Callable[[], object]) -> bytes:
        """The bytes that the app sends while `do` runs."""
        with self.page.expect_request("**/api/classify") as request:
            do()
        return base64.b64decode(json.loads(request.value.post_data)["image"], validate=True)

    def wait_for_answer(self) -> str:
        self.screen.locator(".answer:not(.state-working)").wait_for()
        state = self.state()
        if state != "failed":
            self.page.wait_for_function(IS_KEPT)
        return state

    def back(self) -> None:
        self.page.get_by_role("button", name="返回 Back").click()

    def enlarge_text(self, size: int) -> None:
        """To so many pixels; 16 is usual."""
        session = self.context.new_cdp_session(self.page)
        session.send("Page.setFontSizes", {"fontSizes": {"standard": size}})

    def wait_until(self, condition: Callable[[], object], seconds: float = PATIENCE / 1000) -> None:
        """For what the browser reports (`complaints`, `sent`): Playwright hands that on only while it is called."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"it did not become so within {seconds:g} s"
            self.page.wait_for_timeout(50)

    def confirm(self, word: str) -> None:
        self.page.get_by_role("dialog").get_by_role(
            "button", name=self.words[word], exact=True
        ).click()

    @property
    def screen(self) -> Locator:
        """The page in view; those under it on the stack are in the document but hidden."""
        return self.page.locator(".wx-frame:not([hidden])")

    def state(self) -> str:
        classes = self.screen.locator(".answer").get_attribute("class").split()
        return next(name for name in classes if name.startswith("state-")).removeprefix("state-")

    def title(self) -> str:
        return self.screen.locator("h1").inner_text()

    def headline(self) -> str:
        return as_read(self.screen.locator(".headline").inner_text())

    def texts(self, selector: str) -> list[str]:
        return [*map(as_read, self.screen.locator(selector).all_inner_texts())]

    def focused(self) -> str:
        """The words of whatever has the keyboard's focus; all of them, where nothing has."""
        return self.page.evaluate("document.activeElement.textContent")

    def rows(self) -> list[str]:
        """Names of the breeds in the answer, in the language of the app."""
        names = ".best .headline, .row [class$='--name']"
        return self.screen.locator(names).all_inner_texts()

    def classify_requests(self) -> int:
        return sum(url.endswith("api/classify") for url in self.sent)

    def shown_picture(self, selector: str) -> dict[str, int]:
        """Width and height of the picture that is really drawn there; zero when it could not be loaded."""
        picture = self.screen.locator(f"{selector} img").first
        picture.wait_for()
        return picture.evaluate(
            "img => (img.complete ? Promise.resolve() : new Promise(done => { img.onload = img.onerror = done }))"
            ".then(() => ({width: img.naturalWidth, height: img.naturalHeight}))"
        )
