"""Languages of phones: traditional characters, the installed app's name, and an input method that is still composing."""

import pytest
import requests
from playwright.sync_api import expect

SPOKEN_LANGUAGE = "document.documentElement.lang"


def test_a_phone_in_taiwan_reads_traditional_characters_also_without_a_connection(
    open_phone, colour_server
):
    phone = open_phone(server=colour_server, locale="zh-TW")
    headline = phone.screen.locator(".headline")
    expect(headline).to_have_text("這是什麼狗？")
    assert phone.page.evaluate(SPOKEN_LANGUAGE) == "zh-Hant"
    phone.page.route("**/traditional.json", lambda route: route.abort())
    phone.page.reload()
    expect(headline).to_have_text("這是什麼狗？")


def test_traditional_characters_are_chosen_in_the_settings_and_breeds_are_found_in_either(
    open_phone,
):
    phone = open_phone(locale="en-US")
    phone.tap("settings")
    phone.tap(phone.screen.get_by_role("radio", name="繁體中文"))
    expect(phone.screen.locator("h1")).to_have_text("設定")
    phone.page.evaluate("location.hash = '#/pages/breeds/breeds'")
    phone.page.reload()
    names = phone.screen.locator(".choice .name")
    for words in ("臘腸", "腊肠"):
        phone.screen.locator(".search input").fill(words)
        expect(names).to_have_text(["臘腸犬"])
    phone.open(".choice", ".facts")
    expect(phone.screen.locator(".wx-nav-title")).to_have_text("臘腸犬")
    assert "體重" in phone.screen.locator(".facts").inner_text()


@pytest.mark.parametrize(
    ("locale", "name"),
    [("en-US", "dogsnap"), ("de-DE", "dogsnap"), ("zh-CN", "识狗"), ("zh-HK", "識狗")],
)
def test_the_installed_app_is_named_in_the_language_of_the_phone(
    open_phone, colour_server, locale, name
):
    phone = open_phone(server=colour_server, locale=locale)
    address = phone.page.locator("link[rel=manifest]").evaluate("each => each.href")
    manifest = requests.get(address, timeout=60).json()
    assert manifest["short_name"] == name
    assert locale.startswith(manifest["lang"][:2]) or manifest["lang"] == "en"


def test_while_an_input_method_composes_nothing_is_searched_for(open_phone):
    """As Chinese is typed: the letters stand in the field until a word is chosen."""
    phone = open_phone(locale="zh-CN", path="#/pages/breeds/breeds")
    names, line = phone.screen.locator(".choice .name"), phone.screen.locator(".hint")
    names.first.wait_for()
    count = names.count()
    phone.screen.locator(".search input").focus()
    session = phone.context.new_cdp_session(phone.page)
    for letters in ("l", "la", "la'chang"):
        end = len(letters)
        session.send(
            "Input.imeSetComposition",
            {"text": letters, "selectionStart": end, "selectionEnd": end},
        )
        expect(phone.screen.locator(".search input")).to_have_value(letters)
        assert names.count() == count
        assert "不认识" not in line.inner_text()
    session.send("Input.insertText", {"text": "腊肠"})
    expect(names).to_have_text(["腊肠犬"])
