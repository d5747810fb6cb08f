"""The app in front of a model whose classes are no breeds of dogs: its list, its pages and its words."""

import re
import shutil

import pytest
from dogsnap.exporting.merging.merge import merge
from dogsnap.exporting.merging.options import Options
from phone import serious_violations
from playwright.sync_api import expect
from support import colour_photos, own_models, several_labels
from support.real_model import ROOT, built_models

DOUBLE_TAP_MS = 500  # two taps in one place within less are taken for one
DOG_WORDS = {"en-US": r"\bdogs?\b|breed", "zh-CN": "狗|犬|品种"}
NAMES = [name.capitalize() for name, _ in own_models.COLOURS.values()]


@pytest.fixture(scope="module")
def shapes_server(start_server, tmp_path_factory):
    """One model of other classes beside the facts about dogs, which do not fit it."""
    built_models()
    models = tmp_path_factory.mktemp("models")
    own_models.export(models / "squares", 1)
    shutil.copy(ROOT / "models" / "breeds.json", models)
    return start_server(models, "--feedback", str(models / "feedback.db"))


@pytest.fixture(scope="module")
def labels_server(start_server, tmp_path_factory):
    """One model of five independent classes, on a server that takes feedback."""
    built_models()
    models = tmp_path_factory.mktemp("models")
    several_labels.network().export(models / "colours" / "1", verbose=False)
    merge(models / "colours" / "1", Options(labels=several_labels.LABELS, sigmoid=True))
    return start_server(models, "--feedback", str(models / "feedback.db"))


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    file = tmp_path_factory.mktemp("photos") / "red.png"
    colour = own_models.COLOURS["s1"][1]
    file.write_bytes(colour_photos.encode(colour_photos.plain(colour, (160, 120)), "PNG"))
    return file


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_every_page_names_the_classes_that_there_are_and_speaks_of_no_dog(
    open_phone, shapes_server, photo, locale
):
    phone = open_phone(server=shapes_server, locale=locale)

    def check_words():
        shown = phone.screen.inner_text() + phone.title()
        assert not re.search(DOG_WORDS[locale], shown, re.IGNORECASE), shown
        assert serious_violations(phone.page) == []

    lead = "拍张照，马上知道是什么" if locale == "zh-CN" else "Snap something to learn what it is"
    expect(phone.screen.locator(".lead")).to_have_text(lead)
    check_words()
    phone.page.reload()  # it knows now, and begins with these words
    expect(phone.screen.locator(".lead")).to_have_text(lead)
    phone.snap(photo)
    expect(phone.screen.locator(".row").first).to_contain_text("Square red")
    check_words()
    phone.open(phone.screen.locator(".feedback wx-button").last, ".choice")
    names = phone.screen.locator(".choice .name")
    expect(names).to_have_count(5)  # the classes, and "something that is not here"
    check_words()
    phone.tap(names.filter(has_text="Square grey"))
    expect(phone.screen.locator(".said")).to_contain_text("Square grey")
    check_words()
    for path, shows in (
        ("breeds/breeds", ".choice"),
        ("breed/breed?id=s2", ".headline"),
        ("breed/breed?id=n02085620", ".lead"),
        ("history/history", ".list"),
        ("settings/settings", ".models"),
    ):
        phone.page.evaluate(f"location.hash = '#/pages/{path}'")
        phone.screen.locator(shows).first.wait_for()
        check_words()
    phone.tap(phone.screen.locator(".more"))
    phone.page.wait_for_timeout(DOUBLE_TAP_MS)
    phone.open(".models", ".option.model")
    check_words()
    phone.page.evaluate("location.hash = '#/pages/breeds/breeds'")
    expect(phone.screen.locator(".choice .name")).to_have_text(sorted(NAMES))


@pytest.mark.parametrize(
    ("shown", "headline", "rows"),
    [("red|blue", r"(Red.*Blue|Blue.*Red)", 2), ("", "Nothing I recognise", 0)],
)
def test_all_labels_of_a_photo_are_shown_or_that_there_is_none_and_nothing_is_asked(
    open_phone, labels_server, tmp_path, shown, headline, rows
):
    several_labels.picture(shown).resize((160, 120)).save(tmp_path / "photo.png")
    phone = open_phone(server=labels_server, locale="en-US")
    phone.snap(tmp_path / "photo.png")
    expect(phone.screen.locator(".panel .headline")).to_have_text(re.compile(headline))
    expect(phone.screen.locator(".rows .row")).to_have_count(rows)
    expect(phone.screen.locator(".feedback")).to_have_count(0)
    assert serious_violations(phone.page) == []


def test_the_words_follow_the_version_that_is_chosen_in_the_settings(
    open_phone, start_server, colour_models, tmp_path_factory
):
    models = tmp_path_factory.mktemp("models")
    shutil.copytree(colour_models / "inception_v3", models / "inception_v3")
    own_models.export(models / "squares", 1)
    phone = open_phone(server=start_server(models), locale="en-US")
    for choice, headline, count in (
        ("squares, version 2", "What is this?", 4),
        ("The server's default", "Which dog is this?", 3),
    ):
        phone.page.evaluate("location.hash = '#/pages/settings/settings'")
        phone.page.wait_for_timeout(DOUBLE_TAP_MS)
        phone.open(".models", ".option.model")
        phone.page.wait_for_timeout(DOUBLE_TAP_MS)
        phone.tap(phone.screen.locator(".option.model", has_text=choice))
        phone.page.evaluate("location.hash = '#/pages/home/home'")
        expect(phone.screen.locator(".headline")).to_have_text(headline)
        phone.page.evaluate("location.hash = '#/pages/breeds/breeds'")
        expect(phone.screen.locator(".choice")).to_have_count(count)
