"""The picture in the README: made of the real app, and without anybody's photo - the dog in it is the app's own drawing."""

import re
from pathlib import Path
from urllib.parse import unquote

from PIL import Image

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "backend/web/screenshot.png"
DRAWING = re.compile(r'\.portrait \{[^}]*?data:image/svg\+xml,(.*?)"\)')
MEADOW = "linear-gradient(#bcd9ea, #dfeee0 55%, #8fb56f 56%, #6f9c58)"
SIZE, GAP, GROUND = (390, 844), 24, "#d9d4c8"
MOST_BYTES = 200_000
COLOURS = 128  # few enough for a small file, enough for flat colours and one gradient


def draw_dog(browser, file: Path) -> Path:
    svg = unquote(DRAWING.search((ROOT / "miniprogram/styles/icons.wxss").read_text(encoding="utf-8")).group(1))
    page = browser.new_page(viewport={"width": 800, "height": 600})
    page.set_content(
        f'<body style="margin:0;background:{MEADOW}"><div style="width:560px;margin:50px auto 0">{svg}</div>'
    )
    page.screenshot(path=file)
    page.close()
    return file


def test_the_readmes_picture_is_of_this_app_and_small(open_phone, browser, tmp_path):
    """Makes build/screenshots/readme.png anew; copy it to backend/web/screenshot.png when the app has changed."""
    shots = []

    def shoot(phone) -> None:
        shots.append(tmp_path / f"{len(shots)}.png")
        phone.page.wait_for_timeout(600)  # until the bars have grown
        phone.page.screenshot(path=shots[-1])

    phone = open_phone(device_scale_factor=1)
    phone.button("camera").wait_for()
    shoot(phone)
    assert phone.snap(draw_dog(browser, tmp_path / "dog.png")) in ("shown", "unsure", "noDog")
    shoot(phone)
    reader = open_phone(
        device_scale_factor=1, locale="en-US", color_scheme="dark", path="#/pages/breed/breed?id=n02099601"
    )
    reader.screen.locator(".facts").wait_for()
    shoot(reader)

    made = side_by_side(shots)
    reader.screenshots.mkdir(parents=True, exist_ok=True)
    made.save(reader.screenshots / "readme.png", optimize=True)
    assert PICTURE.stat().st_size < MOST_BYTES
    with Image.open(PICTURE) as kept:
        assert kept.size == made.size


def side_by_side(files: list[Path]) -> Image.Image:
    width, height = SIZE
    whole = Image.new("RGB", (len(files) * (width + GAP) + GAP, height + 2 * GAP), GROUND)
    for number, file in enumerate(files):
        with Image.open(file) as shot:
            whole.paste(shot, (GAP + number * (width + GAP), GAP))
    return whole.quantize(COLOURS)
