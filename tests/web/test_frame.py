"""Framing another dog: by touch, by mouse and by keyboard, asked about in the resolution of the photo."""

import io
import re

import pytest
from phone import DEVICE, SCREENSHOTS
from PIL import Image


@pytest.fixture
def two_dogs(photo_that_is, tmp_path):
    """A photo of 2400 x 1200 pixels: one dog in its left half, another one in its right half."""
    whole = Image.new("RGB", (2400, 1200))
    for place, state in enumerate(("breed", "group")):
        with Image.open(photo_that_is(state)) as photo:
            whole.paste(photo.convert("RGB").resize((1200, 1200)), (1200 * place, 0))
    whole.save(tmp_path / "two.jpg", quality=95)
    return tmp_path / "two.jpg"


def framing(phone, photo) -> None:
    """Leads to the framing page of a photo."""
    phone.snap(photo)
    phone.open(".frame-button", ".frame")
    phone.page.wait_for_function(
        "() => document.querySelector('.wx-frame:not([hidden]) .stage .photo').style.width"
    )


def frame(phone) -> list[int]:
    """Left, top, width and height in percent, as a screen reader hears them."""
    told = phone.screen.locator(".stage .photo").get_attribute("aria-label")
    return [int(number) for number in re.findall(r"\d+", told)]


def drag(phone, start: tuple[float, float], end: tuple[float, float]) -> None:
    """By a finger or the mouse, between two places in fractions of the photo."""
    area = phone.screen.locator(".stage .photo").bounding_box()
    start, end = (
        (area["x"] + x * area["width"], area["y"] + y * area["height"]) for x, y in (start, end)
    )
    between = [(one + other) / 2 for one, other in zip(start, end, strict=True)]
    mouse, session = phone.page.mouse, phone.context.new_cdp_session(phone.page)

    def touch(kind: str, *at: tuple[float, float]) -> None:
        points = [{"x": x, "y": y} for x, y in at]
        session.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})

    if phone.touch:
        touch("Start", start)
    else:
        mouse.move(*start)
        mouse.down()
    for place in (between, end):
        touch("Move", place) if phone.touch else mouse.move(*place)
    touch("End") if phone.touch else mouse.up()


# How much of each handle can be seen, 0 to 1.
SEEN = """() => {
    const all = (selector) => [...document.querySelectorAll(`.wx-frame:not([hidden]) ${selector}`)]
    const edges = all(':is(.stage, .stage .photo)').map((each) => each.getBoundingClientRect())
    const cut = (start, end, low, high) => Math.max(0, Math.min(end, high) - Math.max(start, low)) / (end - start)
    return all('.handle').map((handle) => {
        const {left, top, right, bottom} = handle.getBoundingClientRect()
        return Math.min(...edges.map((edge) => cut(left, right, edge.left, edge.right) * cut(top, bottom, edge.top, edge.bottom)))
    })
}"""


def asked(phone) -> Image.Image:
    """The photo that is sent when the framed part is asked about."""
    return Image.open(
        io.BytesIO(phone.posted_photo(lambda: phone.tap(phone.screen.locator(".button.primary"))))
    )


@DEVICE
def test_a_dragged_frame_is_asked_about_in_the_photos_own_resolution(open_phone, two_dogs, device):
    phone = open_phone(device)
    framing(phone, two_dogs)
    before = frame(phone)
    phone.page.wait_for_timeout(500)  # no double tap with the button before
    # Around the larger dog, on the right or on the left: beside it a new frame is drawn.
    left = 0.1 if before[0] > 40 else 0.52
    drag(phone, (left + 0.38, 0.5), (left, 0.05))
    assert frame(phone) == pytest.approx([100 * left, 5, 38, 45], abs=2)
    with asked(phone) as sent:
        # 38 % of 2400 by 45 % of 1200 pixels, shrunk to what the app sends; of the whole photo there would be a third as many.
        assert sent.height / sent.width == pytest.approx(540 / 912, abs=0.05)
        assert max(sent.size) >= 640
    assert phone.wait_for_answer() != "failed"
    assert phone.shown_picture(".photo-picture") == pytest.approx(
        {"width": 640, "height": 379}, abs=42
    )
    phone.back()
    assert (
        phone.screen.locator(".photo-picture").count() == 1
    )  # the whole photo with its own answer
    phone.back()
    assert phone.screen.locator(".recent-item").count() == 2


def test_a_frame_at_the_edges_of_the_photo_has_its_handles_whole(open_phone, two_dogs):
    phone = open_phone("desktop")
    framing(phone, two_dogs)
    before = frame(phone)
    for corner in ((0.0, 0.0), (1.0, 1.0)):
        left, top, width, height = (each / 100 for each in frame(phone))
        drag(
            phone,
            (left if corner[0] == 0 else left + width, top if corner[1] == 0 else top + height),
            corner,
        )
    assert frame(phone) == [0, 0, 100, 100] != before
    phone.page.screenshot(path=SCREENSHOTS / "frame-whole.png")
    assert phone.page.evaluate(SEEN) == [1, 1, 1, 1]


def test_the_keyboard_alone_frames_and_asks(open_phone, two_dogs):
    phone = open_phone("desktop")
    framing(phone, two_dogs)
    before = frame(phone)
    pressed = {
        "Fine-tune": 1,
        "Move the frame right": 2,
        "Move the frame down": 1,
        "Make the frame smaller": 1,
    }
    for _ in range(13):
        phone.page.keyboard.press("Tab")
        label = phone.page.evaluate(
            "(element => element.ariaLabel ?? element.textContent)(document.activeElement)"
        )
        for _ in range(pressed.get(label, 0)):
            phone.page.keyboard.press("Enter")
        if phone.focused() == "Identify":
            break
    left, top, width, height = frame(phone)
    assert (left, top) > (before[0], before[1])
    assert (width, height) < (before[2], before[3])
    with phone.page.expect_request("**/api/classify"):
        phone.page.keyboard.press("Enter")
    assert phone.wait_for_answer() != "failed"


@DEVICE
def test_the_box_lies_over_the_photo_where_the_server_saw_the_dog(
    open_phone, dog, tmp_path, device
):
    phone = open_phone(device)

    def with_box(route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "box": [0.25, 0.5, 0.75, 1.0]})

    phone.page.route("**/api/classify", with_box)
    for size in ((1200, 400), (400, 1200), (600, 600)):
        with Image.open(dog) as photo:
            photo.convert("RGB").resize(size).save(tmp_path / "dog.jpg")
        phone.snap(tmp_path / "dog.jpg")
        box = phone.screen.locator(".box")
        box.wait_for()
        phone.page.wait_for_timeout(700)  # until the photo has gone to the dog
        area, drawn = phone.screen.locator(".photo").bounding_box(), box.bounding_box()
        scale = min(area["width"] / size[0], area["height"] / size[1])
        width, height = size[0] * scale, size[1] * scale
        left, top = (
            area["x"] + (area["width"] - width) / 2,
            area["y"] + (area["height"] - height) / 2,
        )
        expected = {
            "x": left + width / 4,
            "y": top + height / 2,
            "width": width / 2,
            "height": height / 2,
        }
        assert drawn == pytest.approx(expected, abs=1.5), size
        phone.back()
