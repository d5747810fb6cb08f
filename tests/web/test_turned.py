"""A photo that lies on its side: shown as the server saw it, and turned by a tap."""

import pytest
from phone import Phone
from PIL import Image
from test_answers import answer_with

WIDE, HIGH = 900, 600


@pytest.fixture
def phone(open_phone, colour_server) -> Phone:
    phone = open_phone(server=colour_server, locale="en-US")
    phone.button("camera").wait_for()
    return phone


@pytest.fixture
def half_red(tmp_path):
    """Its left third is red: turned clockwise, that is on top."""
    photo = Image.new("RGB", (WIDE, HIGH), "white")
    photo.paste("red", (0, 0, WIDE // 3, HIGH))
    photo.save(tmp_path / "half.jpg")
    return tmp_path / "half.jpg"


def size_becomes(phone: Phone, width: int, height: int) -> None:
    """Of the copy that is shown, whose longest side has 640 pixels."""
    scale = 640 / max(width, height)
    phone.page.wait_for_function(
        """([width, height]) => {
            const image = document.querySelector('.wx-frame:not([hidden]) .photo-picture img')
            return image?.naturalWidth === width && image.naturalHeight === height
        }""",
        arg=[round(width * scale), round(height * scale)],
    )


def test_a_photo_of_which_the_server_turned_a_copy_is_shown_and_kept_upright(phone, half_red):
    answer_with(phone, "breed", {"n02109525": 0.98}, turned=90, box=[0.0, 0.0, 1 / 3, 1.0])
    phone.snap(half_red)
    size_becomes(phone, HIGH, WIDE)
    photo, box = (phone.screen.locator(part).bounding_box() for part in (".photo", ".box"))
    assert photo["width"] < photo["height"]
    assert box["y"] == pytest.approx(photo["y"], abs=2)
    assert box["height"] == pytest.approx(photo["height"] / 3, abs=2)
    phone.page.reload()
    phone.screen.locator(".box").wait_for()
    kept = phone.shown_picture(".photo-picture")
    assert kept["width"] < kept["height"]
    phone.back()
    phone.open("history", ".entry")
    thumb = phone.shown_picture(".thumb")
    assert thumb["width"] < thumb["height"]


def test_a_tap_turns_the_photo_and_asks_again_where_no_dog_was_seen(phone, half_red):
    answer_with(phone, "breed", {"n02109525": 0.98})
    phone.snap(half_red)
    turn = phone.screen.locator(".turn-button")
    for size in ((HIGH, WIDE), (WIDE, HIGH)):
        phone.tap(turn)
        size_becomes(phone, *size)
    assert phone.classify_requests() == 1
    phone.back()
    answer_with(phone, "no_dog", {"n02109525": 0.1})
    phone.snap(half_red)
    answer_with(phone, "breed", {"n02109525": 0.98})
    phone.page.wait_for_timeout(500)  # two taps in one place within less are taken for one
    sent = phone.posted_photo(lambda: phone.tap(turn))
    (half_red.parent / "sent.jpg").write_bytes(sent)
    with Image.open(half_red.parent / "sent.jpg") as turned:
        assert turned.width < turned.height
        assert turned.getpixel((turned.width // 2, 10))[1] < 60
    phone.screen.locator(".state-breed").wait_for()
    phone.back()
    assert phone.screen.locator(".recent-item").count() == 2
