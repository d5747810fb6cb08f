"""The bar of tabs: in view on each of its pages, in the app's language and theme, and each page as it was left."""

import pytest
from playwright.sync_api import expect

SIZES = [(390, 844), (360, 640), (375, 553), (844, 390), (1280, 720)]
TABS = {
    "en-US": ["Identify", "History", "Breeds", "Settings"],
    "zh-CN": ["识狗", "识别记录", "品种", "设置"],
    "zh-TW": ["識狗", "辨識紀錄", "品種", "設定"],
}
STACK = "history.state.stack.map(({url}) => url.split('/').pop())"


def tab(phone, name: str):
    return phone.screen.locator(".wx-tabs").get_by_role("button", name=name, exact=True)


@pytest.fixture
def phone(open_phone, colour_server):
    phone = open_phone(server=colour_server, locale="en-US")
    phone.button("camera").wait_for()
    return phone


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_ways_to_all_pages_are_in_view_also_after_photos(
    open_phone, colour_server, red_dog, width, height
):
    phone = open_phone(
        server=colour_server, locale="en-US", viewport={"width": width, "height": height}
    )
    for _ in range(2):
        phone.snap(red_dog)
        phone.back()
    for name, shows in zip(TABS["en-US"][1:], (".entry", ".choice", ".option"), strict=True):
        box = tab(phone, name).bounding_box()
        assert box["y"] + box["height"] <= height
        phone.tap(tab(phone, name))
        phone.screen.locator(shows).first.wait_for()
        expect(tab(phone, name)).to_have_attribute("aria-current", "page")
    phone.tap(tab(phone, "Identify"))
    phone.button("camera").wait_for()


@pytest.mark.parametrize("locale", TABS)
def test_the_tabs_speak_the_language_and_wear_the_theme_that_is_chosen(
    open_phone, colour_server, locale
):
    phone = open_phone(server=colour_server, locale=locale)
    tabs = phone.screen.locator(".wx-tab")
    expect(tabs).to_have_text(TABS[locale])
    phone.tap(tabs.nth(3))
    phone.tap(phone.screen.get_by_role("radio", name="English"))
    expect(tabs).to_have_text(TABS["en-US"])
    phone.tap(phone.screen.get_by_role("radio", name="Dark"))
    expect(phone.screen.locator(".wx-tabs")).to_have_css("background-color", "rgb(31, 38, 39)")
    phone.page.reload()
    expect(tabs).to_have_text(TABS["en-US"])


def test_the_tabs_follow_the_phones_theme_also_where_it_changes_on_another_page(phone, red_dog):
    phone.snap(red_dog)
    phone.page.emulate_media(color_scheme="dark")
    phone.screen.locator(".page.dark").wait_for()
    phone.back()
    expect(phone.screen.locator(".wx-tabs")).to_have_css("background-color", "rgb(31, 38, 39)")


def test_a_tab_is_as_it_was_left(phone):
    phone.tap(tab(phone, "Breeds"))
    phone.screen.locator(".search input").fill("red")
    expect(phone.screen.locator(".choice")).to_have_count(1)
    phone.tap(tab(phone, "History"))
    phone.screen.locator(".empty").wait_for()
    phone.tap(tab(phone, "Breeds"))
    expect(phone.screen.locator(".search input")).to_have_value("red")
    expect(phone.screen.locator(".choice")).to_have_count(1)


def test_back_leads_from_every_tab_to_the_first_page(phone):
    for name in ("History", "Breeds", "Settings"):
        phone.tap(tab(phone, name))
    assert phone.page.evaluate(STACK) == ["home", "settings"]
    phone.page.go_back()
    phone.button("camera").wait_for()
    assert phone.page.evaluate(STACK) == ["home"]
    phone.tap(tab(phone, "Breeds"))
    phone.back()
    phone.button("camera").wait_for()
    assert phone.page.evaluate("document.querySelectorAll('.wx-frame:not([hidden])').length") == 1


@pytest.mark.parametrize("way", ["tab", "back"])
def test_a_link_to_a_tab_leads_on_to_the_first_page(open_phone, colour_server, way):
    phone = open_phone(server=colour_server, locale="en-US", path="#/pages/breeds/breeds")
    phone.screen.locator(".choice").first.wait_for()
    phone.tap(tab(phone, "Settings"))
    phone.screen.locator(".option").first.wait_for()
    if way == "tab":
        phone.tap(tab(phone, "Identify"))
    else:
        phone.back()
    phone.button("camera").wait_for()
    assert phone.page.evaluate(STACK) == ["home"]
    phone.tap(tab(phone, "History"))
    phone.screen.locator(".empty").wait_for()
    phone.page.reload()
    phone.screen.locator(".empty").wait_for()
    phone.back()
    phone.button("camera").wait_for()


def test_the_settings_lead_back_to_the_photo_whose_version_is_gone(phone, red_dog):
    phone.page.evaluate(
        "localStorage['dogsnap:settings'] = JSON.stringify({model: {model: 'inception_v3', version: 77}})"
    )
    phone.page.reload()
    assert phone.snap(red_dog) == "failed"
    phone.tap(phone.screen.get_by_role("button", name="Open Settings"))
    phone.open(".models", ".option.model")
    phone.page.wait_for_timeout(500)  # two taps in one place within less are taken for one
    phone.tap(phone.screen.get_by_role("radio", name="The server's default"))
    phone.back()
    phone.screen.locator(".state-breed").wait_for()  # it waited, and is asked about again by itself


def test_the_words_of_the_tabs_are_all_seen_in_text_of_twice_the_size(phone):
    phone.enlarge_text(32)
    for name in TABS["en-US"]:
        box = tab(phone, name).evaluate(
            "each => [each.scrollWidth - each.clientWidth, each.scrollHeight - each.clientHeight]"
        )
        assert box == [0, 0], name
