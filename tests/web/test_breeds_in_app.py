"""The page of all breeds in a browser: two orders, a search in both languages, and a way to each breed."""

import pytest
import requests
from phone import serious_violations
from playwright.sync_api import expect


@pytest.mark.parametrize("locale", ["zh-CN", "en-US"])
def test_all_breeds_are_listed_by_name_or_size_found_by_words_and_lead_to_their_pages(
    open_phone, locale
):
    phone = open_phone(locale=locale)
    chinese = locale == "zh-CN"
    phone.tap(phone.screen.get_by_role("button", name="品种" if chinese else "Breeds"))
    names = phone.screen.locator(".choice .name")
    count = len(requests.get(f"{phone.url}api/breeds", timeout=60).json()["breeds"])
    expect(names).to_have_count(count)
    assert names.first.inner_text() == ("阿富汗猎犬" if chinese else "Affenpinscher")
    assert serious_violations(phone.page) == []
    phone.tap(phone.screen.get_by_role("radio", name="按体型" if chinese else "By size"))
    expect(phone.screen.locator(".section-title").first).to_have_text(
        "超小型" if chinese else "Toy"
    )
    expect(names).to_have_count(count)
    second = phone.screen.locator(".second").first.inner_text()
    assert ("超小型" if chinese else "Toy") not in second  # the heading says it
    assert serious_violations(phone.page) == []
    search = phone.screen.locator(".search input")
    search.fill("puli")
    expect(phone.screen.locator(".hint")).to_contain_text(
        "没有找到“puli”" if chinese else "No breed called “puli”"
    )
    for words, english, own in (
        ("shiba", "Shiba Inu", "柴犬"),
        ("腊肠", "Dachshund", "腊肠犬"),
        ("斑点狗", "Dalmatian", "大麦町犬"),
        ("哈士奇", "Siberian husky", "西伯利亚雪橇犬"),
    ):
        search.fill(words)
        expect(names).to_have_text([own if chinese else english])
    phone.open(".choice", ".facts")


def drawn(phone) -> int:
    """How many heads of dogs are drawn on the page, no two alike."""
    pictures = phone.screen.locator("[class$='--picture']").evaluate_all(
        "all => all.map((each) => getComputedStyle(each).backgroundImage)"
    )
    assert all(picture.startswith('url("data:image/svg+xml') for picture in pictures)
    assert len(set(pictures)) == len(pictures)
    return len(pictures)


@pytest.mark.parametrize("locale", ["zh-CN", "en-US"])
def test_a_breed_that_was_met_shows_its_snaps_and_the_list_counts_it(open_phone, dog, locale):
    phone = open_phone(locale=locale)
    phone.snap(dog)
    phone.open(".row.about", ".facts")
    phone.open(".snap", ".best")
    phone.page.evaluate("location.hash = '#/pages/breeds/breeds'")
    phone.screen.locator(".choice").first.wait_for()
    count = phone.screen.locator(".choice").count()
    met = {"zh-CN": f"共 {count} 个品种，你遇见过 1 个", "en-US": f"You have met 1 of {count}"}
    expect(phone.screen.locator(".hint")).to_have_text(met[locale])
    assert phone.screen.locator(".choice img").count() == 1
    assert drawn(phone) == count - 1
    letters = phone.screen.locator(".letter").all_inner_texts()
    assert letters == sorted(set(letters))
    assert letters[0] == "A"
    assert serious_violations(phone.page) == []


def test_the_list_of_breeds_is_used_by_keyboard_and_with_text_of_twice_the_size(open_phone):
    phone = open_phone(
        "desktop", path="#/pages/breeds/breeds", viewport={"width": 390, "height": 844}
    )
    phone.enlarge_text(32)
    phone.page.reload()
    phone.screen.locator(".choice").first.wait_for()
    page = phone.screen.locator("wx-page")
    assert page.evaluate("each => each.scrollWidth <= each.clientWidth")
    phone.screen.locator(".search input").focus()
    for expected in ("By name", "By size", "Affenpinscher"):
        phone.page.keyboard.press("Tab")
        assert expected in phone.focused()
    phone.page.keyboard.press("Enter")
    phone.screen.locator(".facts").wait_for()


@pytest.mark.parametrize(
    ("locale", "credit"),
    [("zh-CN", "图片：王芳，CC BY 4.0"), ("en-US", "Picture: 王芳, CC BY 4.0")],
)
def test_a_breed_with_a_picture_shows_it_with_its_author_and_without_an_author_none(
    open_phone, locale, credit
):
    phone = open_phone(locale=locale)
    phone.button("camera").wait_for()
    manifest = requests.get(
        phone.page.locator("link[rel=manifest]").evaluate("each => each.href"), timeout=60
    ).json()
    given = {"path": f"/{manifest['icons'][0]['src']}", "author": "王芳", "licence": "CC BY 4.0"}

    def with_pictures(route):
        breeds = route.fetch().json()["breeds"]
        for breed in breeds:
            if breed["name"] in ("Siberian husky", "Alaskan malamute"):
                breed["image"] = {
                    **given,
                    "author": "王芳" if breed["name"] == "Siberian husky" else "",
                }
        route.fulfill(json={"breeds": breeds})

    phone.page.route("**/api/breeds", with_pictures)
    phone.page.evaluate("location.hash = '#/pages/breed/breed?id=n02110185'")
    expect(phone.screen.locator(".credit")).to_have_text(credit)
    assert phone.shown_picture(".picture")["width"] == 192
    assert serious_violations(phone.page) == []
    phone.page.evaluate("location.hash = '#/pages/breed/breed?id=n02110063'")
    phone.screen.locator(".facts").wait_for()
    assert phone.screen.locator(".picture").count() == 0
