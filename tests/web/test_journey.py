"""The whole way of a user, in a real browser against the real server with the real model: by touch and by mouse."""

import re

import pytest
from phone import DEVICE
from support.real_model import built_models

SPOKEN_LANGUAGE = "document.documentElement.lang"


@DEVICE
def test_snap_result_breed_history_reload_and_delete(open_phone, dog, device):
    phone = open_phone(device)
    phone.button("camera").wait_for()

    assert phone.snap(dog) == "breed"
    breeds = phone.rows()
    assert len(breeds) in (1, 2, 3)  # less than 1 % gets no row
    assert phone.headline() == breeds[0]
    assert phone.shown_picture(".photo")["width"] > 0

    phone.open(".row", ".facts")
    assert phone.title() == phone.headline() == breeds[0]
    assert len(phone.screen.locator(".fact").all()) >= 2
    assert len(phone.screen.locator(".body").first.inner_text()) > 40
    phone.page.wait_for_timeout(500)  # two taps in one place within less are taken for one
    phone.tap(phone.screen.locator(".look-alike").first)
    phone.screen.locator(".headline", has_not_text=breeds[0]).wait_for()
    phone.back()
    phone.screen.locator(".headline", has_text=breeds[0]).wait_for()
    phone.back()
    assert phone.rows() == breeds
    phone.back()
    phone.screen.locator(".recent-item").wait_for()

    phone.open("history", ".entry")
    assert breeds[0] in phone.screen.locator(".entry").inner_text()
    phone.page.reload()
    assert phone.screen.locator(".entry").count() == 1
    assert phone.shown_picture(".thumb")["width"] > 0

    phone.open(".open", ".row")
    assert phone.rows() == breeds
    assert phone.shown_picture(".photo")["width"] > 0
    assert phone.classify_requests() == 1
    phone.back()

    assert phone.button("remove").count() == 0
    phone.tap("edit")
    phone.tap("remove")
    phone.page.get_by_role("dialog").wait_for()
    phone.confirm("no")
    assert phone.screen.locator(".entry").count() == 1
    phone.tap("remove")
    phone.confirm("delete")
    phone.screen.locator(".empty").wait_for()
    phone.page.reload()
    phone.screen.locator(".empty").wait_for()


HEADLINES = {
    "unsure": ("不太确定", "Not sure"),
    "unknown": ("可能是我不认识的品种", "Perhaps a breed I don't know"),
    "no_dog": ("没看到狗", "No dog seen"),
}


@DEVICE
@pytest.mark.parametrize("state", HEADLINES)
def test_an_answer_that_is_not_sure_says_so_and_what_to_do(
    open_phone, photo_that_is, unsure_server, device, state
):
    server, photo = (unsure_server, "group") if state == "unsure" else (None, state)
    phone, path = open_phone(device, server=server), photo_that_is(photo)
    with phone.page.expect_response("**/api/classify") as response:
        assert phone.snap(path) == state
    is_english = device == "desktop"
    assert phone.headline() == HEADLINES[state][is_english]
    likeliest = [
        breed["name" if is_english else "name_zh"] for breed in response.value.json()["breeds"][:3]
    ]
    shown = [] if state == "no_dog" else likeliest
    assert [name.casefold() for name in phone.rows()] == [name.casefold() for name in shown]
    assert phone.screen.locator(".tip").count() == 4
    assert phone.screen.get_by_role("button", name=phone.words["share"], exact=True).count() == 0


@DEVICE
def test_a_group_is_named_with_its_members_and_how_to_tell_them_apart(
    open_phone, photo_that_is, device
):
    phone = open_phone(device)
    with phone.page.expect_response("**/api/classify") as response:
        assert phone.snap(photo_that_is("group")) == "group"
    answer, chinese = response.value.json(), "_zh" if device == "phone" else ""
    group = answer["group"]
    assert phone.headline().casefold() == group[f"name{chinese}"].casefold()
    named = [
        breed[f"name{chinese}"].casefold()
        for breed in answer["breeds"]
        if breed["id"] in group["members"]
    ]
    assert [name.casefold() for name in phone.rows()] == named
    phone.screen.locator(".difference").first.wait_for()
    told = phone.screen.locator(".difference").all_inner_texts()
    assert len("".join(told)) > 10
    if group["difference"] and len(named) == len(
        group["members"]
    ):  # else it is about breeds that are not shown, too
        assert told == [group[f"difference{chinese}"]]
    phone.button("share").wait_for()


def test_the_history_keeps_what_was_told_of_every_photo(open_phone, photo_that_is):
    phone = open_phone()
    told = {}
    for state in ("breed", "group", "set", "unknown", "no_dog"):
        phone.snap(photo_that_is(state))
        told[state] = (
            phone.headline(),
            phone.rows(),
            phone.screen.locator(".difference").all_inner_texts(),
        )
        phone.back()
    newest = list(reversed(told))
    captions = [("可能是" if state == "set" else "") + told[state][0] for state in newest]
    short = [told["no_dog"][0], "不认识的品种", f"{told['set'][1][0]}？", told["group"][0]]
    assert phone.texts(".recent-name") == short
    phone.tap("history")
    names = phone.texts(".entry .name")
    assert [name.replace("可能是 ", "可能是") for name in names] == captions
    for number, state in enumerate(newest):
        phone.tap(phone.screen.locator(".open").nth(number))
        assert phone.wait_for_answer() == state
        phone.page.wait_for_timeout(200)
        assert (phone.headline(), phone.rows()) == told[state][:2]
        assert phone.shown_picture(".photo-picture")["width"] > 0
        phone.back()
    assert phone.classify_requests() == len(told)
    phone.tap("edit")
    phone.tap(phone.button("remove").first)
    phone.confirm("delete")
    phone.screen.locator(".entry").nth(4).wait_for(state="detached")
    assert phone.screen.locator(".entry").count() == 4


def test_a_phone_keeps_its_random_key_until_all_is_deleted_and_then_nothing(open_phone, dog):
    def key_sent(phone) -> str:
        with phone.page.expect_request("**/api/classify") as request:
            phone.snap(dog)
        phone.back()
        return request.value.headers["x-request-key"]

    phone = open_phone()
    first = key_sent(phone)
    phone.page.reload()
    assert key_sent(phone) == first
    phone.tap("history")
    assert phone.screen.locator(".entry").count() == 2
    phone.tap("clear")
    phone.confirm("delete")
    phone.screen.locator(".empty").wait_for()
    assert phone.page.evaluate("localStorage.getItem('dogsnap:installKey')") is None
    left = phone.page.evaluate(
        """() => new Promise((resolve) => {
            indexedDB.open('dogsnap').onsuccess = ({target}) => {
                const count = target.result.transaction('files').objectStore('files').count()
                count.onsuccess = () => resolve([count.result, localStorage.getItem('dogsnap:history')])
            }
        })"""
    )
    assert left == [0, None]
    phone.back()
    assert len({first, key_sent(phone), key_sent(open_phone())}) == 3


def test_the_finger_that_asks_to_delete_all_does_not_say_yes_to_it_as_well(open_phone, dog):
    phone = open_phone(viewport={"width": 844, "height": 390})
    phone.snap(dog)
    phone.back()
    phone.tap("history")
    area = phone.button("clear").bounding_box()
    place = area["x"] + 0.6 * area["width"], area["y"] + area["height"] / 2
    phone.page.touchscreen.tap(*place)
    phone.page.get_by_role("dialog").wait_for()
    under = phone.page.evaluate("([x, y]) => document.elementFromPoint(x, y).textContent", place)
    assert under == phone.words["delete"]
    phone.confirm("no")
    assert phone.screen.locator(".entry").count() == 1


def test_language_and_theme_take_effect_at_once_and_stay(open_phone, dog):
    phone = open_phone()
    phone.snap(dog)
    chinese = phone.headline()
    assert phone.page.evaluate(SPOKEN_LANGUAGE) == "zh"
    phone.back()
    phone.tap("settings")
    phone.tap(phone.screen.get_by_role("radio", name="English"))
    assert phone.title() == "Settings"
    assert phone.page.evaluate(SPOKEN_LANGUAGE) == "en"
    phone.tap(phone.screen.get_by_role("radio", name="Dark"))
    background = (
        "getComputedStyle(document.querySelector('.wx-frame:not([hidden]) .page')).backgroundColor"
    )
    assert phone.page.evaluate(background) == "rgb(20, 25, 26)"
    assert (
        phone.page.evaluate("getComputedStyle(document.querySelector('.wx-nav')).color")
        == "rgb(255, 255, 255)"
    )
    phone.page.reload()
    assert phone.title() == "Settings"
    assert phone.page.evaluate(SPOKEN_LANGUAGE) == "en"
    assert phone.screen.get_by_role("radio", name="Dark").get_attribute("aria-checked") == "true"
    phone.back()
    assert phone.title() == "dogsnap"
    phone.tap(phone.screen.locator(".recent-item"))
    assert phone.headline() != chinese
    assert re.fullmatch(r"[A-Za-z' -]+", phone.headline())


def test_the_phones_theme_is_followed_while_the_app_is_open(open_phone):
    phone = open_phone(color_scheme="light")
    phone.screen.locator(".page.light").wait_for()
    phone.page.emulate_media(color_scheme="dark")
    phone.screen.locator(".page.dark").wait_for()


def test_the_version_chosen_in_the_settings_answers(open_phone, dog):
    phone = open_phone("desktop")
    newest = max(int(folder.name) for folder in (built_models() / "inception_v3").glob("[0-9]*"))
    for choice, version in (("inception_v3, version 1", 1), ("default", newest)):
        phone.tap("settings")
        if not phone.screen.locator(".option.model").count():  # the page is as it was left
            phone.tap(phone.screen.locator(".models"))
        phone.tap(phone.screen.get_by_role("radio", name=choice))
        phone.back()
        phone.snap(dog)
        assert (
            phone.screen.locator(".answered-by").inner_text()
            == f"Answered by inception_v3, version {version}"
        )
        phone.back()


def test_reload_back_forward_and_deep_links_work(open_phone, dog):
    phone = open_phone()
    phone.snap(dog)
    breeds = phone.rows()
    phone.page.reload()
    phone.screen.locator(".row").first.wait_for()
    assert phone.rows() == breeds
    phone.page.go_back()
    phone.button("camera").wait_for()
    phone.page.go_forward()
    phone.screen.locator(".row").first.wait_for()
    assert phone.rows() == breeds
    phone.open(".row", ".facts")
    link = phone.page.url
    assert phone.classify_requests() == 1

    friend = open_phone("desktop", path=link.split("/", 3)[3])
    friend.screen.locator(".facts").wait_for()
    assert friend.title() == friend.headline()
    friend.page.get_by_role("button", name="首页 Home").click()
    friend.button("camera").wait_for()


def test_again_shows_the_new_photo_with_its_own_answer(open_phone, dog, photo_that_is):
    phone = open_phone()
    assert phone.snap(dog) == "breed"
    assert phone.snap(photo_that_is("no_dog"), by="again") == "no_dog"
    phone.back()
    phone.button("camera").wait_for()  # the page of the first photo was replaced
    assert phone.screen.locator(".recent-item").count() == 2
