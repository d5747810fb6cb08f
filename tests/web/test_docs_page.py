"""The page to try the API, in Chromium: it lists every operation, and what it sends is answered."""

import base64
import json

import pytest
import requests
from playwright.sync_api import Page, expect
from support import colour_photos


@pytest.fixture
def page(open_page, colour_server) -> Page:
    page = open_page(colour_server, "/docs", {"width": 390, "height": 844})
    expect(page.locator("main")).not_to_have_attribute("aria-busy", "true")
    return page


def test_every_operation_is_listed_with_the_limits_of_this_server(page, colour_server):
    paths = requests.get(f"{colour_server.url}/openapi.json", timeout=60).json()["paths"]
    assert page.locator("details").count() == sum(len(operations) for operations in paths.values())
    groups = page.locator("h2").all_inner_texts()
    assert groups[0] == "For the app and its clients"
    assert len(groups) == len(set(groups)) >= 5
    shown = json.loads(page.locator("[id='api.classify'] code").text_content())
    assert shown["breeds"] == [
        {"id": "n02110341", "name": "Dalmatian", "name_zh": "大麦町犬", "probability": 0.95}
    ]
    expect(page.locator("#limits")).to_contain_text("DOGSNAP_MAX_PHOTO_PIXELS")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def form_of(page: Page, operation: str):
    form = page.locator(f"[id='{operation}']")
    form.locator("summary").click()
    return form


def sent(form) -> None:
    form.get_by_role("button", name="Send").click()
    expect(form.locator("pre")).to_contain_text("200 in")


def test_photos_and_parameters_are_sent_and_answered(page):
    form, photo = form_of(page, "api.classify"), colour_photos.every_kind()["jpeg"]
    form.get_by_label("body", exact=True).fill(
        json.dumps({"image": base64.b64encode(photo).decode()})
    )
    sent(form)
    expect(form.locator("pre")).to_contain_text("red dog")
    form.get_by_label("kind of body").select_option("multipart/form-data")
    file = {"name": "a.jpg", "mimeType": "image/jpeg", "buffer": photo}
    form.get_by_label("file", exact=True).set_input_files(file)
    with page.expect_response("**/api/classify*"):
        sent(form)
    expect(form.locator("pre")).to_contain_text("red dog")
    form = form_of(page, "simple.gen_client")
    form.get_by_label("name (path)").fill("inception_v3")
    form.get_by_label("language (query)").select_option("python")
    sent(form)
    expect(form.locator("pre")).to_contain_text("import requests")
