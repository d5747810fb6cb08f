"""On a computer: the webcam takes the photo, and the page says what else there is."""

import base64
import io
import json

import pytest
from PIL import Image

WEBCAM = """() => {
    window.tracks = []
    navigator.mediaDevices.enumerateDevices = async () => [{kind: 'videoinput', label: ''}]
    navigator.mediaDevices.getUserMedia = async () => {
        const canvas = Object.assign(document.createElement('canvas'), {width: 800, height: 600})
        const context = canvas.getContext('2d')
        const draw = () => { context.fillStyle = '#c81e1e'; context.fillRect(0, 0, 800, 600) }
        draw()
        setInterval(draw, 50)
        const stream = canvas.captureStream()
        window.tracks.push(...stream.getTracks())
        return stream
    }
}"""
REFUSED = "navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('Permission denied', 'NotAllowedError') }"
SLOW = """(() => {
    const open = navigator.mediaDevices.getUserMedia
    navigator.mediaDevices.getUserMedia = () => new Promise((resolve) => { setTimeout(() => resolve(open()), 1000) })
})()"""


@pytest.fixture
def computer(open_phone, colour_server):
    """A desktop window; with a webcam where the function gets none of its scripts."""

    def computer(*scripts: str, **options):
        phone = open_phone("desktop", server=colour_server, **options)
        for script in (WEBCAM, *scripts):
            phone.context.add_init_script(f"({script})()" if script is WEBCAM else script)
        phone.page.reload()
        phone.button("camera").wait_for()
        return phone

    return computer


def open_webcam(phone):
    phone.tap("camera")
    dialog = phone.page.get_by_role("dialog")
    dialog.wait_for()
    return dialog


def wait_until_off(phone) -> None:
    is_off = "window.tracks.every(({readyState}) => readyState === 'ended')"
    phone.wait_until(lambda: phone.page.evaluate(is_off))


def test_the_webcam_takes_the_photo_that_is_sent_and_is_off_afterwards(computer):
    phone = computer()
    dialog = open_webcam(phone)
    with phone.page.expect_request("**/api/classify") as request:
        dialog.get_by_role("button", name="Take it").click()
    sent = base64.b64decode(json.loads(request.value.post_data)["image"])
    with Image.open(io.BytesIO(sent)) as photo:
        assert photo.size == (640, 480)
        red, green, _ = photo.convert("RGB").getpixel((320, 240))
    assert red > 2 * green > 0
    assert phone.wait_for_answer() == "breed"
    wait_until_off(phone)


@pytest.mark.parametrize("way", ["button", "key", "back"])
def test_a_webcam_that_is_cancelled_is_off_and_the_page_stays(computer, way):
    phone = computer()
    dialog = open_webcam(phone)
    dialog.get_by_role("button", name="Take it").and_(phone.page.locator(":enabled")).wait_for()
    if way == "button":
        dialog.get_by_role("button", name="Cancel").click()
    elif way == "key":
        phone.page.keyboard.press("Escape")
    else:
        phone.page.evaluate("location.hash = '#/pages/breeds/breeds'")
    dialog.wait_for(state="detached")
    wait_until_off(phone)
    assert phone.classify_requests() == 0
    if way != "back":
        open_webcam(phone)  # and again


def test_a_webcam_that_opens_after_cancel_is_off_as_well(computer):
    phone = computer(SLOW)
    open_webcam(phone).get_by_role("button", name="Cancel").click()
    phone.wait_until(lambda: phone.page.evaluate("window.tracks.length"))
    wait_until_off(phone)


def test_a_webcam_that_may_not_be_used_says_what_to_do(computer):
    phone = computer(REFUSED)
    dialog = open_webcam(phone)
    dialog.get_by_text("This app isn't allowed to use the camera").wait_for()
    assert phone.page.get_by_role("dialog").count() == 1
    phone.complaints.clear()  # the app notes why in the console


def test_the_keyboard_alone_takes_a_photo(computer):
    phone = computer()
    phone.page.keyboard.press("Tab")
    phone.page.keyboard.press("Enter")
    phone.page.get_by_role("button", name="Take it").and_(phone.page.locator(":focus")).wait_for()
    phone.page.wait_for_timeout(300)  # until there is a picture of it
    phone.page.keyboard.press("Enter")
    assert phone.wait_for_answer() == "breed"


def test_another_photo_is_taken_by_the_webcam_chosen_or_dropped_and_the_page_says_so(
    computer, red_dog
):
    phone = computer()
    open_webcam(phone).get_by_role("button", name="Take it").click()
    assert phone.wait_for_answer() == "breed"
    phone.screen.get_by_text("drop a photo anywhere in this window, or paste one").wait_for()
    sources = phone.page.get_by_role("dialog")
    phone.tap("again")
    sources.get_by_role("button", name="Cancel").click()
    sources.wait_for(state="detached")
    phone.tap("again")
    with phone.page.expect_file_chooser() as chooser:
        sources.get_by_role("button", name="Choose a photo").click()
    with phone.page.expect_request("**/api/classify"):
        chooser.value.set_files(red_dog)
    assert phone.wait_for_answer() == "breed"
    phone.tap("again")
    sources.get_by_role("button", name="Take a photo").click()
    with phone.page.expect_request("**/api/classify"):
        sources.get_by_role("button", name="Take it").click()
    assert phone.wait_for_answer() == "breed"
    wait_until_off(phone)


def test_a_computer_without_a_webcam_says_so_and_offers_its_files(
    open_phone, colour_server, red_dog
):
    phone = open_phone("desktop", server=colour_server)
    phone.button("camera").wait_for()
    phone.choose(red_dog)
    phone.page.get_by_text("There is no camera to use here").wait_for()
    assert phone.wait_for_answer() == "breed"


@pytest.mark.parametrize(
    ("locale", "words"),
    [
        ("en-US", ("Choose a photo", "drop a photo anywhere in this window, or paste one")),
        ("zh-CN", ("选择照片", "把照片拖进这个窗口，或直接粘贴")),
        ("zh-TW", ("選擇照片", "把照片拖進這個視窗，或直接貼上")),
    ],
)
def test_the_first_page_says_how_a_photo_gets_in_on_a_computer_and_not_on_a_phone(
    open_phone, colour_server, locale, words
):
    for device in ("desktop", "phone"):
        phone = open_phone(device, server=colour_server, locale=locale)
        phone.screen.locator(".button.primary").wait_for()
        phone.page.wait_for_timeout(500)
        shown = phone.screen.inner_text()
        assert [word in shown for word in words] == [device == "desktop"] * 2, shown
