"""Checks that models/breeds.json describes every class of the network completely, in both languages.

It does not check that the facts are true: that took reading, and a program cannot do it.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[2] / "models"
BREEDS = json.loads((MODELS / "breeds.json").read_text(encoding="utf-8"))
LABELS = MODELS / "inception_v3" / "labels.json"
TAUGHT = json.loads((MODELS / "inception_v3" / "taught.json").read_text(encoding="utf-8"))["taught"]
TRAINED = BREEDS[: -len(TAUGHT)]  # the classes of the weights; behind them those that were taught
BY_ID = {breed["id"]: breed for breed in BREEDS}
WILD = {"n02115641", "n02115913", "n02116738"}  # dingo, dhole, African hunting dog

KEYS = [
    *("id", "name", "name_zh", "other_names", "other_names_zh", "wild", "origin", "size"),
    *("weight_kg", "height_cm", "life_span_years", "temperament", "coat", "care", "description", "look_alikes"),
]
TEXTS = ("origin", "coat", "care", "description")
PLAUSIBLE = {"weight_kg": (1, 120), "height_cm": (10, 100), "life_span_years": (4, 20)}
# Where the middle of the weight range may lie. The bands overlap: height and build count for size too.
MIDDLE_KG = {"toy": (1, 6), "small": (4, 15), "medium": (10, 28), "large": (20, 55), "giant": (45, 90)}
MOST_UNKNOWN_NUMBERS = 3  # a null says "not known for sure"; more of them than this would be a gap
HAN = re.compile(r"[\u4e00-\u9fff]")
HALF_WIDTH_MARK = re.compile(r"[,;:?!()]|\.(?!\d)")  # Chinese text has marks of its own: ，；：？！（）。


def sentences(text, language):
    """Return the sentences of a text that must end where its last sentence ends."""
    end = r"(?<=[.!?])\s+" if language == "en" else r"(?<=[。！？])"
    return [part for part in re.split(end, text) if part]


def test_there_are_120_trained_classes_each_once_and_sorted():
    ids = [breed["id"] for breed in TRAINED]
    assert len(ids) == 120
    assert ids == sorted(set(ids))
    assert all(re.fullmatch(r"n\d{8}", wnid) for wnid in ids)


def test_the_breeds_that_were_taught_come_behind_them_under_the_same_names():
    names = ("id", "name", "name_zh")
    described = [tuple(breed[key] for key in names) for breed in BREEDS[len(TRAINED) :]]
    assert described == [tuple(each[key] for key in names) for each in TAUGHT]


def test_the_class_order_equals_the_networks():
    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    assert [breed["id"] for breed in TRAINED] == [label["id"] for label in labels]


def test_the_class_order_and_names_follow_the_data_set():
    if "DOGSNAP_TEST_DATA" not in os.environ:
        pytest.skip("DOGSNAP_TEST_DATA is not set, so there are no photo folders to compare the order with")
    images = Path(os.environ["DOGSNAP_TEST_DATA"]) / "stanford_dogs" / "images"
    folders = sorted(folder.name for folder in images.iterdir() if folder.is_dir())
    assert [breed["id"] for breed in TRAINED] == [folder.split("-", 1)[0] for folder in folders]
    for breed, folder in zip(TRAINED, folders, strict=True):
        known = {name.casefold() for name in [breed["name"], *breed["other_names"]]}
        assert folder.split("-", 1)[1].replace("_", " ").casefold() in known


def test_every_entry_has_the_same_keys_in_the_same_order():
    for breed in BREEDS:
        assert list(breed) == KEYS, breed["id"]
        for key in (*TEXTS, "temperament"):
            assert list(breed[key]) == ["en", "zh"], (breed["id"], key)


@pytest.mark.parametrize(("key", "chinese"), [("name", False), ("name_zh", True)])
def test_every_class_has_a_name_of_its_own_in_its_own_script(key, chinese):
    names = [breed[key] for breed in BREEDS]
    assert all(name == name.strip() != "" for name in names)
    assert [name for name in names if bool(HAN.search(name)) is not chinese] == []
    assert [name for name, times in Counter(map(str.casefold, names)).items() if times > 1] == []


@pytest.mark.parametrize(
    ("key", "name", "chinese"), [("other_names", "name", False), ("other_names_zh", "name_zh", True)]
)
def test_other_names_are_filled_in_and_never_name_another_class(key, name, chinese):
    names = {breed[name].casefold() for breed in BREEDS}
    for breed in BREEDS:
        others = [other.casefold() for other in breed[key]]
        assert others, breed["id"]
        assert all(other == other.strip() != "" for other in others), others
        assert len(set(others)) == len(others), others
        assert not names & set(others), breed["id"]
        assert all(bool(HAN.search(other)) is chinese for other in others), others


def test_exactly_the_three_wild_dogs_are_wild():
    assert {breed["id"] for breed in BREEDS if breed["wild"] is True} == WILD
    assert {breed["id"] for breed in BREEDS if breed["wild"] is False} == BY_ID.keys() - WILD


@pytest.mark.parametrize("wnid", sorted(WILD))
def test_a_wild_dog_is_described_as_one_and_never_as_a_pet(wnid):
    english, chinese = (BY_ID[wnid]["description"][tongue] + BY_ID[wnid]["care"][tongue] for tongue in ("en", "zh"))
    assert "wild" in english
    assert re.search(r"no pet|never be a pet|nobody may keep", english)
    assert "野生" in chinese
    assert re.search(r"不是宠物|不能当宠物|不能家养", chinese)


@pytest.mark.parametrize("key", PLAUSIBLE)
def test_ranges_are_ordered_and_plausible_in_their_unit(key):
    least, most = PLAUSIBLE[key]
    for breed in BREEDS:
        if breed[key] is None:
            continue  # how many of these there may be is tested below
        low, high = breed[key]
        assert all(type(number) in (int, float) for number in (low, high)), breed["id"]
        assert least <= low <= high <= most, breed["id"]


def test_few_numbers_are_unknown():
    unknown = [(breed["name"], key) for breed in BREEDS for key in PLAUSIBLE if breed[key] is None]
    assert len(unknown) <= MOST_UNKNOWN_NUMBERS, unknown


def test_size_agrees_with_weight():
    for breed in BREEDS:
        least, most = MIDDLE_KG[breed["size"]]
        if breed["weight_kg"] is not None:
            assert least <= sum(breed["weight_kg"]) / 2 <= most, breed["name"]


def test_temperament_has_three_to_five_words_matching_in_both_languages():
    for breed in BREEDS:
        english, chinese = breed["temperament"]["en"], breed["temperament"]["zh"]
        assert 3 <= len(english) == len(chinese) <= 5, breed["id"]
        assert len(set(english)) == len(set(chinese)) == len(english), breed["id"]
        assert all(word and not HAN.search(word) for word in english), breed["id"]
        assert all(HAN.search(word) for word in chinese), breed["id"]


@pytest.mark.parametrize(("key", "least", "most"), [("coat", 1, 1), ("care", 1, 2), ("description", 2, 4)])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_texts_have_the_right_number_of_whole_sentences(key, least, most, language):
    for breed in BREEDS:
        text = breed[key][language]
        assert text == text.strip(), breed["id"]
        assert text.endswith("." if language == "en" else "。"), breed["id"]
        assert least <= len(sentences(text, language)) <= most, breed["id"]


@pytest.mark.parametrize("key", TEXTS)
def test_each_language_is_written_in_its_own_script(key):
    for breed in BREEDS:
        english, chinese = breed[key]["en"], breed[key]["zh"]
        assert english, breed["id"]
        assert not HAN.search(english), breed["id"]
        assert len(HAN.findall(chinese)) >= 2, breed["id"]
        assert not HALF_WIDTH_MARK.search(chinese), breed["id"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_two_classes_share_a_sentence(language):
    said = Counter(
        sentence
        for breed in BREEDS
        for key in ("coat", "care", "description")
        for sentence in sentences(breed[key][language], language)
    )
    assert [sentence for sentence, times in said.items() if times > 1] == []


def test_look_alikes_are_other_known_classes():
    for breed in BREEDS:
        others = breed["look_alikes"]
        assert len(set(others)) == len(others) <= 4, breed["id"]
        assert set(others) <= BY_ID.keys() - {breed["id"]}, breed["id"]


def test_groups_of_look_alikes_are_described_in_both_languages() -> None:
    groups = json.loads((MODELS / "groups.json").read_text(encoding="utf-8"))
    known = {breed["id"] for breed in BREEDS}
    assert len({group["id"] for group in groups}) == len(groups)
    for group in groups:
        assert len(group["members"]) >= 2, group["id"]
        assert set(group["members"]) <= known, group["id"]
        assert ("name" in group) == ("name_zh" in group), group["id"]
        assert 20 < len(group["difference"]) <= 230, group["id"]
        assert 5 < len(group["difference_zh"]) <= 120, group["id"]
        assert not re.search(r"[\u4e00-\u9fff]", group["difference"]), group["id"]
        assert re.search(r"[\u4e00-\u9fff]", group["difference_zh"]), group["id"]


def test_each_group_of_a_version_that_ships_is_described() -> None:
    described = [set(group["members"]) for group in json.loads((MODELS / "groups.json").read_text(encoding="utf-8"))]
    for file in ("scores.json", "taught.json"):
        stored = json.loads((MODELS / "inception_v3" / file).read_text(encoding="utf-8"))
        for group in stored.get("scores", stored)["calibration"]["groups"]:
            assert set(group) in described, f"{file}: {group} has no name and no difference in groups.json"
