"""A tablet, upright and on its side: what is there is used, and nothing sticks out."""

import pytest
from test_answers import answer_with, is_in_view

LONG = {"n02109525": 0.5, "n02110185": 0.4, "n02110063": 0.05}


@pytest.mark.parametrize(("width", "height"), [(820, 1180), (1180, 820), (768, 1024)])
def test_a_tablet_shows_photo_answer_and_history_within_its_width(
    open_phone, colour_server, red_dog, width, height
):
    phone = open_phone(
        server=colour_server, locale="en-US", viewport={"width": width, "height": height}
    )
    answer_with(phone, "set", LONG, set=["n02109525", "n02110185", "n02110063"])
    for _ in range(3):
        phone.snap(red_dog)
        photo, answer = (
            phone.screen.locator(part).bounding_box() for part in (".photo-box", ".panel")
        )
        is_upright = height > width
        assert (answer["y"] > photo["y"] + photo["height"]) is is_upright
        assert photo["height"] > 0.35 * height
        assert is_in_view(phone, phone.button("again"))
        phone.back()
    phone.open("history", ".entry")
    rows = [row.bounding_box() for row in phone.screen.locator(".entry").all()]
    card = phone.screen.locator(".list").bounding_box()
    assert rows[0]["y"] == rows[1]["y"]
    assert all(row["x"] + row["width"] <= card["x"] + card["width"] for row in rows)
