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
        assert "没有找到" not in line.inner_text()
    session.send("Input.insertText", {"text": "腊肠"})
    expect(names).to_have_text(["腊肠犬"])


# As Chrome's and Safari's translators do it: each text node gives way to elements, also those that come later.
TRANSLATE = """() => {
    const isText = (node) => node.nodeType === Node.TEXT_NODE && node.data.trim() && !node.parentNode.closest('font')
    const translate = (node) => {
        const font = document.createElement('font')
        font.append(Object.assign(document.createElement('font'), {textContent: `*${node.data}*`}))
        node.replaceWith(font)
    }
    const translateAll = (root) => {
        const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
        const nodes = []
        while (walker.nextNode()) if (isText(walker.currentNode)) nodes.push(walker.currentNode)
        nodes.forEach(translate)
    }
    translateAll(document.body)
    const observer = new MutationObserver(() => translateAll(document.body))
    observer.observe(document.body, {childList: true, characterData: true, subtree: true})
}"""


def test_where_the_browser_translates_the_page_every_text_that_changes_is_seen_to(open_phone, dog):
    phone = open_phone(locale="en-US")
    phone.button("camera").wait_for()
    phone.page.evaluate(TRANSLATE)
    expect(phone.screen.locator(".headline")).to_have_text("*Which dog is this?*")
    phone.page.evaluate("location.hash = '#/pages/breeds/breeds'")
    line = phone.screen.locator(".hint")
    phone.screen.locator(".choice").first.wait_for()
    phone.screen.locator(".search input").fill("zzz")
    expect(line).to_have_text("*No breed called “zzz” is known here.*")
    phone.screen.locator(".search input").fill("")
    expect(line).to_contain_text("*Breeds the app knows")
    phone.back()
    phone.page.route("**/api/classify", lambda route: route.abort(), times=1)
    with phone.page.expect_file_chooser() as chooser:
        phone.tap(phone.screen.locator(".button.primary"))
    chooser.value.set_files(dog)
    phone.screen.get_by_text("trying again").wait_for()
    phone.screen.locator(".state-breed").wait_for()
    assert phone.headline().startswith("*")
    expect(phone.screen.locator("h1")).to_have_text("*Result*")
    phone.back()
    assert phone.screen.locator(".recent-name").inner_text().startswith("*")
