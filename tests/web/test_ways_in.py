"""How a photo gets in - album, drop, paste - and what is sent of it: small, upright, without its EXIF."""

import base64
import io
from pathlib import Path

import pillow_heif
import pytest
from PIL import Image
from support.colour_photos import stored

RED, GREEN, BLUE, GREY = (200, 30, 30), (30, 160, 30), (30, 30, 200), (128, 128, 128)
MOST_SENT_BYTES = 60_000
ORIENTATION_TAG = 0x0112
GPS_TAG = 0x8825


def test_a_photo_is_sent_small_as_a_jpeg_of_at_most_640_pixels(open_phone, dog, tmp_path):
    with Image.open(dog) as photo:
        photo.convert("RGB").resize((3000, 2250)).save(tmp_path / "large.jpg", quality=95)
    phone = open_phone()
    sent = phone.posted_photo(lambda: phone.choose(tmp_path / "large.jpg"))
    with Image.open(io.BytesIO(sent)) as received:
        assert (received.format, received.size) == ("JPEG", (640, 480))
    assert len(sent) <= MOST_SENT_BYTES
    assert phone.wait_for_answer() != "failed"


def test_a_photo_comes_out_upright_and_without_its_exif(open_phone, tmp_path):
    upright = Image.new("RGB", (900, 1200), RED)
    upright.paste(GREEN, (450, 0, 900, 600))
    upright.paste(BLUE, (0, 600, 450, 1200))
    upright.paste(GREY, (450, 600, 900, 1200))
    phone, file = open_phone(), tmp_path / "turned.jpg"
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[ORIENTATION_TAG] = orientation
        exif.get_ifd(GPS_TAG)[1] = "N"
        stored(upright, orientation).save(file, exif=exif)
        with Image.open(io.BytesIO(phone.posted_photo(lambda: phone.choose(file)))) as received:
            assert received.size == (480, 640), orientation
            corners = [
                received.getpixel(place) for place in ((60, 60), (420, 60), (60, 580), (420, 580))
            ]
            assert [nearest(corner) for corner in corners] == [RED, GREEN, BLUE, GREY], orientation
            assert not received.getexif()
        phone.wait_for_answer()
        assert phone.shown_picture(".photo") == {"width": 480, "height": 640}
        phone.back()


def nearest(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    """One of the four colours of the photo; JPEG changes them a little."""
    return min(
        (RED, GREEN, BLUE, GREY),
        key=lambda one: sum(abs(a - b) for a, b in zip(one, colour, strict=True)),
    )


def test_a_see_through_png_is_sent_on_white(open_phone, tmp_path):
    Image.new("RGBA", (64, 64), (0, 0, 0, 0)).save(tmp_path / "glass.png")
    phone = open_phone()
    sent = phone.posted_photo(lambda: phone.choose(tmp_path / "glass.png", by="album"))
    with Image.open(io.BytesIO(sent)) as received:
        assert min(received.getpixel((32, 32))) > 250
    phone.wait_for_answer()


def test_a_heic_that_this_browser_cannot_show_is_shown_and_framed_as_the_servers_jpeg(
    open_phone, dog, tmp_path
):
    phone = open_phone()
    phone.choose(as_heic(dog, tmp_path / "dog.heic"))
    assert phone.wait_for_answer() == "breed"
    with Image.open(dog) as photo:
        assert phone.shown_picture(".photo") == {"width": photo.width, "height": photo.height}
    phone.open(".frame-button", ".frame")
    phone.tap(phone.screen.get_by_role("button", name="识别"))
    phone.screen.locator(".row").first.wait_for()


def test_a_heic_is_answered_without_a_picture_where_the_server_makes_none_and_shown_once_it_does(
    open_phone, dog, tmp_path
):
    phone = open_phone()
    phone.page.route(
        "**/api/upright", lambda route: route.fulfill(status=503, json={"error": "full"})
    )
    sent = phone.posted_photo(lambda: phone.choose(as_heic(dog, tmp_path / "dog.heic")))
    assert sent[4:8] == b"ftyp"
    assert phone.wait_for_answer() == "breed"
    assert phone.rows()
    assert "无法显示" in phone.screen.locator(".photo-missing").inner_text()
    phone.page.unroute("**/api/upright")
    phone.back()
    phone.tap(phone.screen.locator(".recent-item"))
    assert phone.shown_picture(".photo-picture")["width"] > 0
    phone.back()
    assert phone.shown_picture(".recent-photo")["width"] > 0


def as_heic(photo: Path, file: Path) -> Path:
    """The photo as iPhones keep it."""
    pillow_heif.register_heif_opener()
    with Image.open(photo) as opened:
        opened.convert("RGB").save(file, quality=90)
    return file


# Drops or pastes a file onto the page, as a browser does.
DELIVER = """([kind, base64]) => {
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
    const transfer = new DataTransfer()
    transfer.items.add(new File([bytes], 'dog.jpg', {type: 'image/jpeg'}))
    const event = kind === 'drop'
        ? new DragEvent('drop', {dataTransfer: transfer, bubbles: true, cancelable: true})
        : new ClipboardEvent('paste', {clipboardData: transfer, bubbles: true})
    document.body.dispatchEvent(event)
}"""


@pytest.mark.parametrize("kind", ["drop", "paste"])
def test_a_photo_can_be_dropped_and_pasted(open_phone, dog, kind):
    phone, file = open_phone("desktop"), [kind, base64.b64encode(dog.read_bytes()).decode()]
    phone.page.evaluate(DELIVER, file)
    assert phone.wait_for_answer() == "breed"
    phone.page.evaluate(DELIVER, file)  # also onto the result of another photo
    phone.page.wait_for_function("() => document.querySelectorAll('.recent-item').length === 1")
    assert phone.wait_for_answer() == "breed"
    phone.back()
    assert phone.screen.locator(".recent-item").count() == 2


def test_only_the_camera_button_asks_for_the_camera(open_phone):
    phone = open_phone()
    for by, expected in (("camera", "environment"), ("album", None)):
        with phone.page.expect_file_chooser() as chooser:
            phone.tap(by)
        assert chooser.value.element.get_attribute("capture") == expected
