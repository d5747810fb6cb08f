"""The app as its service worker keeps it: it opens without a server, at every address, and is replaced as a whole."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from phone import PATIENCE
from support.real_model import ROOT

DIST = ROOT / "backend" / "dogsnap" / "server" / "pages" / "app"
KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".png": "image/png"}
LOGIN = b"<!doctype html><title>Hotel</title><h1>Welcome to our hotel</h1>"


class Files(BaseHTTPRequestHandler):
    """Answers with the files of a folder, as a gateway that knows no server, or not at all."""

    def __init__(self, site: "Site", *arguments: object):
        self.site = site
        super().__init__(*arguments)

    def do_GET(self) -> None:
        if self.site.mood == "silent":
            self.site.over.wait()
            return
        name = self.path.split("?")[0].lstrip("/") or "index.html"
        file = self.site.folder / name
        contents, kind, status = LOGIN, "text/html", 200
        if self.site.mood == "portal" or name in self.site.taken:
            pass
        elif name in self.site.broken or not file.is_file():
            contents, status = b"none", 404
        else:
            contents = file.read_bytes()
            kind = KINDS.get(file.suffix, "application/json")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        self.wfile.write(contents)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Site:
    """A server of a copy of the built app; `mood`: "well", "portal" or "silent"; `broken`: files that it lacks;
    `taken`: those for which the portal answers.
    """

    def __init__(self, folder):
        self.folder, self.mood, self.broken, self.taken = folder, "well", set(), set()
        self.over = threading.Event()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, self))
        self.port = self.http.server_port
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.over.set()
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def site(tmp_path) -> Iterator[Site]:
    if not (DIST / "index.html").is_file():
        pytest.skip("the built app is missing: `make setup` builds it")
    site = Site(shutil.copytree(DIST, tmp_path / "dist"))
    yield site
    site.close()


def open_context(browser):
    context = browser.new_context(locale="en-US", viewport={"width": 390, "height": 844})
    context.set_default_timeout(PATIENCE)
    return context


@contextmanager
def kept_app(browser, site: Site) -> Iterator:
    context = open_context(browser)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{site.port}/")
    page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    yield page
    context.close()


@pytest.mark.parametrize("mood", ["stopped", "silent", "portal"])
def test_whoever_answers_instead_of_the_server_the_kept_app_opens_at_every_address(
    browser, site, mood
):
    with kept_app(browser, site) as page:
        start = f"http://127.0.0.1:{site.port}/"
        if mood == "stopped":
            site.close()
        site.mood = mood
        for address in ("", "?utm=1", "#/pages/history/history", "index.html"):
            page.goto("about:blank")
            page.goto(start + address)
            page.locator(".page").wait_for()
        page.reload()
        page.locator(".page").wait_for()


@pytest.mark.parametrize("kind", ["broken", "taken"])
def test_a_page_whose_script_comes_late_has_a_way_back_and_is_shown_once_it_is_there(
    browser, site, kind
):
    setattr(site, kind, {"pages.js"})
    context = open_context(browser)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{site.port}/")
    camera = page.get_by_role("button", name="Take a photo")
    page.get_by_role("button", name="Settings").click()
    page.wait_for_url("**#/pages/settings/settings")
    assert page.locator("h1:visible").inner_text()
    assert not camera.is_visible()
    page.get_by_role("status").get_by_text("Loading…").wait_for()
    assert page.locator(".wx-tabs:visible").bounding_box()["y"] > 700  # at the bottom of 844
    page.get_by_role("button", name="Back").click()
    camera.wait_for()
    page.wait_for_url("**#/pages/home/home")
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("button", name="Back").wait_for()
    page.go_back()
    camera.wait_for()
    page.go_forward()
    page.wait_for_url("**#/pages/settings/settings")
    other = context.new_page()
    other.goto(f"http://127.0.0.1:{site.port}/#/pages/settings/settings")
    other.wait_for_timeout(300)
    assert [each.locator(".page.settings").count() for each in (page, other)] == [0, 0]
    setattr(site, kind, set())
    for each in (page, other):
        each.locator(".page.settings").wait_for()
        each.get_by_role("button", name="Model (for developers)").wait_for()
        assert each.locator(".wx-frame:not([hidden])").count() == 1
        each.get_by_role("button", name="Back").click()
        each.get_by_role("button", name="Take a photo").wait_for()
    context.close()


def test_a_new_version_is_taken_at_the_next_start_and_half_a_version_never(browser, site):
    with kept_app(browser, site) as page:
        start = f"http://127.0.0.1:{site.port}/"
        worker = (site.folder / "sw.js").read_text(encoding="utf-8")
        (site.folder / "index.html").write_text(
            (site.folder / "index.html").read_text(encoding="utf-8") + "<!-- new -->",
            encoding="utf-8",
        )
        (site.folder / "sw.js").write_text(worker + "// new", encoding="utf-8")
        update = (
            "navigator.serviceWorker.ready.then((it) => it.update()).then(() => null, () => null)"
        )
        page.evaluate(update)
        page.wait_for_timeout(500)
        page.goto("about:blank")
        page.goto(start)
        page.locator(".page").wait_for()
        assert "<!-- new -->" not in page.content()  # its worker names other contents
        build(site)
        page.evaluate(update)
        page.wait_for_function("caches.keys().then((names) => names.length > 1)")
        page.wait_for_timeout(500)
        page.goto("about:blank")
        site.close()
        page.goto(start)
        page.locator(".page").wait_for()
        assert page.title() == "anothername"


def open_counted(browser, site: Site) -> tuple:
    """A page of the app, and the addresses of the documents that it has loaded."""
    context = open_context(browser)
    page, loads = context.new_page(), []
    page.on("request", lambda asked: asked.is_navigation_request() and loads.append(asked.url))
    return page, loads


def test_a_page_between_whose_scripts_the_server_was_updated_is_loaded_anew_and_is_of_one_version(
    browser, site
):
    page, loads = open_counted(browser, site)

    def update(route) -> None:
        if len(loads) == 1:
            build(site)
        route.continue_()

    page.route("**/pages.js*", update)
    page.goto(f"http://127.0.0.1:{site.port}/")
    page.wait_for_function("document.title == 'anothername'")
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("button", name="Model (for developers)").wait_for()
    assert len(loads) == 2
    page.context.close()


def test_where_old_and_new_come_in_turn_the_page_is_loaded_anew_once_and_goes_on_when_they_fit(
    browser, site
):
    own = (site.folder / "pages.js").read_bytes()
    build(site)
    former = (site.folder / "pages.js").read_bytes()
    (site.folder / "pages.js").write_bytes(own)
    page, loads = open_counted(browser, site)
    page.goto(f"http://127.0.0.1:{site.port}/")
    page.get_by_role("button", name="Settings").click()
    page.wait_for_timeout(3000)  # it is asked for again every 2 s
    assert len(loads) == 2
    assert page.locator(".page.settings").count() == 0
    (site.folder / "pages.js").write_bytes(former)
    page.locator(".page.settings").wait_for()
    assert len(loads) == 2
    page.context.close()


def build(site: Site) -> None:
    """The app with another title, as a new release."""
    from test_node_checks import WEB, node

    program = shutil.copytree(ROOT / "miniprogram", site.folder.parent / "program")
    texts = program / "i18n" / "en.js"
    named = texts.read_text(encoding="utf-8").replace("title: 'dogsnap'", "title: 'anothername'")
    texts.write_text(named, encoding="utf-8")
    node(WEB / "build.mjs", program, site.folder)


# Sends what is chosen in the form's field as another app of the phone does.
SHARE = """() => {
    const form = Object.assign(document.createElement('form'), {
        action: 'shared', method: 'post', enctype: 'multipart/form-data'})
    form.append(Object.assign(document.createElement('input'), {type: 'file', name: 'photo'}))
    document.body.append(form)
}"""
SEND = "HTMLFormElement.prototype.submit.call(document.querySelector('form'))"


def share(page, photo) -> None:
    page.reload()
    page.evaluate(SHARE)
    page.set_input_files("form input", photo)
    page.evaluate(SEND)


def test_a_photo_that_another_app_shares_is_taken(browser, site, red_dog):
    with kept_app(browser, site) as page:
        share(page, red_dog)
        page.locator(".result").wait_for()


def test_where_there_is_no_room_for_a_shared_photo_the_app_opens_without_it(browser, site, red_dog):
    with kept_app(browser, site) as page:
        origin = f"http://127.0.0.1:{site.port}"
        session = page.context.new_cdp_session(page)
        session.send("Storage.overrideQuotaForOrigin", {"origin": origin, "quotaSize": 1})
        share(page, red_dog)
        page.wait_for_url(f"{origin}/#/pages/home/home")
        page.get_by_role("button", name="Take a photo").wait_for()
