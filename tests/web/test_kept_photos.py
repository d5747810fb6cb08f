"""A photo is never lost, sent once, and never spoken about because a canvas failed."""

import pytest
from phone import Phone
from test_failures import waiting
from test_ways_in import as_heic

pytestmark = pytest.mark.early

TOBLOB = {
    "silent": "() => {}",
    "null": "(done) => setTimeout(() => done(null))",
    "white": """function (done, ...rest) {
        const white = Object.assign(document.createElement('canvas'), {width: this.width, height: this.height})
        const context = white.getContext('2d')
        context.fillStyle = 'white'
        context.fillRect(0, 0, this.width, this.height)
        native.call(white, done, ...rest)
    }""",
}
BROKEN = {
    **{
        name: f"{{const native = HTMLCanvasElement.prototype.toBlob; HTMLCanvasElement.prototype.toBlob = {body}}}"
        for name, body in TOBLOB.items()
    },
    "nothing is drawn": "CanvasRenderingContext2D.prototype.drawImage = () => {}",
    "noise is read": """CanvasRenderingContext2D.prototype.getImageData = (x, y, width, height) => {
        const image = new ImageData(width, height)
        image.data.forEach((_, index) => { image.data[index] = Math.random() * 256 })
        return image
    }""",
}


@pytest.fixture
def colour_phone(open_phone, colour_server) -> Phone:
    phone = open_phone(server=colour_server, locale="en-US")
    phone.button("camera").wait_for()
    return phone


@pytest.mark.parametrize("kind", BROKEN)
def test_where_the_canvas_fails_the_file_itself_is_sent(colour_phone, red_dog, kind):
    phone = colour_phone
    phone.page.evaluate(f"() => {{{BROKEN[kind]}}}")
    sent = phone.posted_photo(lambda: phone.choose(red_dog))
    assert sent == red_dog.read_bytes()
    assert phone.wait_for_answer() == "breed"


def test_a_photo_that_is_being_answered_survives_going_back_and_a_reload(
    open_phone, own_server, red_dog
):
    server = own_server()
    phone = open_phone(server=server, locale="en-US")
    phone.button("camera").wait_for()
    phone.page.route("**/api/classify", lambda route: route.abort("connectionrefused"))
    phone.choose(red_dog)
    phone.screen.get_by_text("trying again").wait_for()
    phone.page.reload()
    phone.screen.get_by_text("trying again").wait_for()
    phone.page.go_back()
    phone.button("camera").wait_for()
    assert waiting(phone) == 1
    assert phone.screen.locator(".recent-name").inner_text() == "Waiting"
    phone.page.unroute("**/api/classify")
    phone.wait_until(lambda: waiting(phone) == 0)  # without an event of the browser


def choose_while_busy(phone, photo) -> None:
    """Choose a photo that the server wants to be sent in an hour and a half."""
    busy = {"status": 429, "headers": {"Retry-After": "5400"}, "json": {"error": "busy"}}
    phone.page.route("**/api/classify", lambda route: route.fulfill(**busy))
    phone.choose(photo)
    phone.screen.locator(".waits").wait_for()


def test_a_photo_waits_as_long_as_the_server_asks(colour_phone, red_dog):
    phone = colour_phone
    choose_while_busy(phone, red_dog)
    assert "in an hour and a half" in phone.screen.locator(".waits").inner_text()
    phone.back()
    assert waiting(phone) == 1
    phone.tap("settings")
    phone.back()
    phone.page.wait_for_timeout(1000)
    assert phone.classify_requests() == 1


def test_a_file_that_is_no_photo_leaves_the_list_of_those_that_wait_with_its_reason(
    colour_phone, tmp_path
):
    phone = colour_phone
    (tmp_path / "letter.jpg").write_text("Dear dog, " * 500)
    phone.context.set_offline(True)
    phone.choose(tmp_path / "letter.jpg")
    phone.screen.locator(".waits").wait_for()
    phone.back()
    phone.context.set_offline(False)
    phone.screen.locator(".recent-name", has_text="Not answered").wait_for()
    assert waiting(phone) == 0
    phone.tap(phone.screen.locator(".recent-item").first)
    assert "not a photo" in phone.screen.locator(".failure").inner_text()


def test_two_windows_send_a_waiting_photo_once_and_both_show_its_answer(colour_phone, red_dog):
    phone = colour_phone
    other = Phone(phone.context, phone.url, touch=True)
    phone.context.set_offline(True)
    phone.choose(red_dog)
    phone.screen.locator(".waits").wait_for()
    phone.back()
    other.screen.locator(".recent-item").wait_for()
    before = phone.classify_requests()
    phone.context.set_offline(False)
    for window in (phone, other):
        window.screen.locator(".recent-name", has_text="Red dog").wait_for()
    assert phone.classify_requests() + other.classify_requests() == before + 1


CLEAR_FILES = """() => new Promise((done) => {
    indexedDB.open('dogsnap').onsuccess = ({target}) => {
        const change = target.result.transaction('files', 'readwrite')
        change.objectStore('files').clear()
        change.oncomplete = () => done(target.result.close())
    }
})"""


def test_photos_whose_files_are_gone_are_shown_as_missing_in_every_list(colour_phone, red_dog):
    phone = colour_phone
    phone.snap(red_dog)
    breed = phone.page.evaluate(
        "JSON.parse(localStorage['dogsnap:history'])[0].outcome.breeds[0].id"
    )
    phone.back()
    phone.page.evaluate(CLEAR_FILES)
    phone.page.reload()
    phone.screen.locator("[class*=gone]").wait_for()
    for page in ("history/history", f"breed/breed?id={breed}", "breeds/breeds"):
        phone.page.evaluate("page => { location.hash = `#/pages/${page}` }", page)
        phone.screen.locator("[class*=gone]").first.wait_for()
    phone.page.evaluate("location.hash = '#/pages/home/home'")
    phone.tap(phone.screen.locator(".recent-item"))
    phone.screen.get_by_text("This photo is no longer on this phone").wait_for()


def test_a_heic_that_waited_is_kept_as_a_picture_that_is_shown(colour_phone, red_dog, tmp_path):
    phone = colour_phone
    phone.context.set_offline(True)
    phone.choose(as_heic(red_dog, tmp_path / "red.heic"))
    phone.screen.locator(".waits").wait_for()
    phone.back()
    phone.context.set_offline(False)
    phone.wait_until(lambda: waiting(phone) == 0)
    assert phone.shown_picture(".recent-photo")["width"] > 0


FULL = "() => { Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') } }"


def test_a_phone_that_keeps_nothing_says_so_once(open_phone, colour_server, red_dog):
    phone = open_phone(server=colour_server, locale="en-US")
    phone.button("camera").wait_for()
    phone.page.evaluate(FULL)
    phone.choose(red_dog)
    phone.screen.locator(".answer.state-breed").wait_for()
    phone.screen.get_by_text("Free up some space").wait_for()
    phone.back()
    phone.choose(red_dog)
    phone.screen.locator(".answer.state-breed").wait_for()
    phone.page.wait_for_timeout(300)
    assert phone.screen.get_by_text("Free up some space").count() == 0


NOT_KEPT = "Free up some space"
DATABASES = {
    "closes": """{
        const native = IDBFactory.prototype.open
        IDBFactory.prototype.open = function (...rest) {
            const opening = native.apply(this, rest)
            addEventListener('close-databases', () => opening.result.close())
            return opening
        }
    }""",
    "opens at the second attempt": """{
        const native = IDBFactory.prototype.open
        IDBFactory.prototype.open = () => {
            IDBFactory.prototype.open = native
            throw new DOMException('lost', 'UnknownError')
        }
    }""",
    "never answers": "IDBFactory.prototype.open = () => ({})",
    "is full once it writes": """{
        const native = IDBObjectStore.prototype.put
        IDBObjectStore.prototype.put = function (...rest) {
            const putting = native.apply(this, rest)
            putting.addEventListener('success', () => this.transaction.abort())
            return putting
        }
    }""",
}


@pytest.mark.parametrize("kind", DATABASES)
def test_a_database_that_fails_is_opened_anew_or_else_it_is_said_that_nothing_is_kept(
    colour_phone, red_dog, kind
):
    phone = colour_phone
    phone.page.add_init_script(DATABASES[kind])
    phone.page.reload()
    phone.snap(red_dog) if kind == "closes" else phone.choose(red_dog)
    phone.screen.locator(".answer.state-breed").wait_for()
    if kind in ("never answers", "is full once it writes"):
        phone.screen.get_by_text(NOT_KEPT).wait_for()
        phone.back()
        assert phone.screen.locator(".recent-item").count() == 0
        return
    phone.back()
    phone.page.evaluate("dispatchEvent(new Event('close-databases'))")
    assert phone.snap(red_dog) == "breed"
    assert phone.screen.get_by_text(NOT_KEPT).count() == 0
    phone.page.reload()
    assert phone.wait_for_answer() == "breed"
    assert phone.shown_picture(".photo-picture")["width"] > 0


FORBIDDEN = """
for (const name of ['localStorage', 'indexedDB', 'caches', 'sessionStorage'])
    Object.defineProperty(window, name, {get() { throw new DOMException('Access is denied', 'SecurityError') }})
delete Navigator.prototype.serviceWorker
"""


def test_a_browser_that_forbids_all_storage_answers_and_says_that_nothing_is_kept(
    colour_phone, red_dog
):
    phone = colour_phone
    phone.page.add_init_script(FORBIDDEN)
    phone.page.reload()
    phone.choose(red_dog)
    phone.screen.locator(".answer.state-breed").wait_for()
    phone.screen.get_by_text(NOT_KEPT).wait_for()


def test_without_a_connection_a_full_phone_says_that_the_photo_is_not_kept(colour_phone, red_dog):
    phone = colour_phone
    phone.page.evaluate(FULL)
    phone.context.set_offline(True)
    phone.choose(red_dog)
    phone.screen.locator(".state-failed").wait_for()
    phone.screen.get_by_text(NOT_KEPT).wait_for()


@pytest.mark.parametrize("status", [200, 400, 403, 415, 422, 511])
def test_whatever_a_gateway_answers_a_photo_it_waits_for_the_server(colour_phone, red_dog, status):
    phone = colour_phone
    login = {"status": status, "content_type": "text/html", "body": "<h1>Please log in</h1>"}
    phone.page.route("**/api/classify", lambda route: route.fulfill(**login))
    phone.choose(red_dog)
    phone.screen.locator(".waits").wait_for()
    phone.page.unroute("**/api/classify")
    phone.back()
    phone.wait_until(lambda: waiting(phone) == 0)


def test_a_photo_that_waits_for_a_time_by_a_wrong_clock_is_sent(colour_phone, red_dog):
    phone = colour_phone
    choose_while_busy(phone, red_dog)
    phone.back()
    phone.page.unroute("**/api/classify")
    phone.page.evaluate("() => { const now = Date.now; Date.now = () => now() - 4 * 365 * 864e5 }")
    phone.tap("settings")
    phone.wait_until(lambda: waiting(phone) == 0)


SLOW_CANVAS = """() => {
    const native = HTMLCanvasElement.prototype.toBlob
    const waiting = []
    HTMLCanvasElement.prototype.toBlob = function (...rest) { waiting.push(() => native.apply(this, rest)) }
    window.drawing = waiting
    window.endDrawing = () => {
        HTMLCanvasElement.prototype.toBlob = native
        waiting.forEach((draw) => draw())
    }
}"""


def test_a_photo_that_is_deleted_while_it_is_prepared_stays_deleted(colour_phone, red_dog):
    phone = colour_phone
    phone.page.evaluate(SLOW_CANVAS)
    phone.choose(red_dog)
    phone.page.wait_for_function("() => window.drawing.length > 0")
    phone.back()
    phone.open("history", ".entry")
    phone.tap("clear")
    phone.confirm("delete")
    phone.screen.locator(".empty").wait_for()
    phone.page.evaluate("window.endDrawing()")
    phone.page.wait_for_timeout(500)
    assert phone.page.evaluate("localStorage['dogsnap:history'] ?? '[]'") == "[]"
    assert phone.classify_requests() == 0


def test_a_photo_that_is_deleted_in_another_window_while_it_is_answered_stays_deleted(
    colour_phone, red_dog
):
    phone, held = colour_phone, []
    phone.page.route("**/api/classify", lambda route: held.append(route))  # noqa: PLW0108 - it takes no built-in
    phone.choose(red_dog)
    phone.wait_until(lambda: held)
    other = Phone(phone.context, phone.url, touch=True)  # it waits to send the photo, too
    other.open("history", ".entry")
    other.tap("clear")
    other.confirm("delete")
    other.screen.locator(".empty").wait_for()
    held[0].continue_()
    phone.screen.locator(".state-breed").wait_for()
    other.page.wait_for_timeout(300)
    assert phone.page.evaluate("localStorage['dogsnap:history'] ?? '[]'") == "[]"
    assert other.classify_requests() == 0


@pytest.mark.parametrize("broken", [b"no photo" * 100, b""])
def test_a_broken_file_among_several_photos_takes_none_of_them_down(
    colour_phone, red_dog, tmp_path, broken
):
    phone = colour_phone
    (tmp_path / "broken.jpg").write_bytes(broken)
    with phone.page.expect_file_chooser() as chooser:
        phone.tap("album")
    chooser.value.set_files([red_dog, tmp_path / "broken.jpg"])
    assert phone.wait_for_answer() == "breed"
    entries = (
        "JSON.parse(localStorage['dogsnap:history']).map(({outcome}) => outcome?.state).sort()"
    )
    phone.wait_until(lambda: phone.page.evaluate(entries) == ["breed", "refused"])
    assert "Red" in phone.headline()
