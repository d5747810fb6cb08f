"""Checks that models/breeds.json describes every class of the network completely, in both languages.

It does not check that the facts are true: that took reading, and a program cannot do it.
"""

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from dogsnap.networks.groups import named_groups

MODELS = Path(__file__).parents[2] / "models"
BREEDS = json.loads((MODELS / "breeds.json").read_text(encoding="utf-8"))
LABELS = MODELS / "inception_v3" / "labels.json"
TAUGHT = json.loads((MODELS / "inception_v3" / "taught.json").read_text(encoding="utf-8"))["taught"]
TRAINED = BREEDS[: -len(TAUGHT)]  # the classes of the weights; behind them those that were taught
BY_ID = {breed["id"]: breed for breed in BREEDS}
WILD = {"n02115641", "n02115913", "n02116738"}  # dingo, dhole, African hunting dog

KEYS = [
    *("id", "name", "name_zh", "other_names", "other_names_zh", "wild", "origin", "size"),
    *(
        "weight_kg",
        "height_cm",
        "life_span_years",
        "temperament",
        "coat",
        "care",
        "description",
        "look_alikes",
        "looks",
    ),
]
TEXTS = ("origin", "coat", "care", "description")
SENTENCES = {"coat": (1, 1), "care": (1, 2), "description": (2, 4)}  # how many
PLAUSIBLE = {"weight_kg": (1, 120), "height_cm": (10, 100), "life_span_years": (4, 20)}
# Where the middle of the weight range may lie. The bands overlap: height and build count for size too.
MIDDLE_KG = {
    "toy": (1, 6),
    "small": (4, 15),
    "medium": (10, 28),
    "large": (20, 55),
    "giant": (45, 90),
}
MOST_UNKNOWN_NUMBERS = 3  # a null says "not known for sure"; more of them than this would be a gap
HAN = re.compile(r"[\u4e00-\u9fff]")
HALF_WIDTH_MARK = re.compile(
    r"[,;:?!()]|\.(?!\d)"
)  # Chinese text has marks of its own: ，；：？！（）。


def test_the_120_trained_classes_are_the_networks_and_those_that_were_taught_come_behind_them():
    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    ids = [breed["id"] for breed in TRAINED]
    assert len(ids) == 120
    assert ids == sorted(set(ids)) == [label["id"] for label in labels]
    assert all(re.fullmatch(r"n\d{8}", wnid) for wnid in ids)
    names = ("id", "name", "name_zh")
    described = [tuple(breed[key] for key in names) for breed in BREEDS[len(TRAINED) :]]
    assert described == [tuple(each[key] for key in names) for each in TAUGHT]


def test_every_entry_has_the_same_keys_in_the_same_order_and_other_breeds_as_look_alikes():
    for breed in BREEDS:
        assert list(breed) == KEYS, breed["id"]
        assert breed["wild"] is (breed["id"] in WILD), breed["id"]
        others = set(breed["look_alikes"])
        assert len(others) == len(breed["look_alikes"]) <= 4, breed["id"]
        assert others <= BY_ID.keys() - {breed["id"]}, breed["id"]
        for key in (*TEXTS, "temperament"):
            assert list(breed[key]) == ["en", "zh"], (breed["id"], key)


@pytest.mark.parametrize(("language", "chinese"), [("", False), ("_zh", True)])
def test_every_class_has_names_of_its_own_in_their_own_script(language, chinese):
    names = Counter(breed[f"name{language}"].casefold() for breed in BREEDS)
    assert set(names.values()) == {1}
    for breed in BREEDS:
        others = [other.casefold() for other in breed[f"other_names{language}"]]
        assert others, breed["id"]
        assert len(set(others)) == len(others), others
        assert not names.keys() & set(others), breed["id"]
        for name in (breed[f"name{language}"], *others):
            assert name == name.strip() != "", breed["id"]
            assert bool(HAN.search(name)) is chinese, name


def test_ranges_are_ordered_and_plausible_in_their_unit_and_few_are_unknown():
    for key, (least, most) in PLAUSIBLE.items():
        for low, high in filter(None, (breed[key] for breed in BREEDS)):
            assert all(type(number) in (int, float) for number in (low, high)), (key, low, high)
            assert least <= low <= high <= most, (key, low, high)
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


def test_texts_are_whole_sentences_of_their_own_in_each_language_and_its_script():
    said = Counter()
    for key, breed in itertools.product(TEXTS, BREEDS):
        english, chinese = breed[key]["en"], breed[key]["zh"]
        assert english, breed["id"]
        assert not HAN.search(english), breed["id"]
        assert len(HAN.findall(chinese)) >= 2, breed["id"]
        assert not HALF_WIDTH_MARK.search(chinese), breed["id"]
        if key in SENTENCES:
            least, most = SENTENCES[key]
            assert (english, chinese) == (english.strip(), chinese.strip()), breed["id"]
            assert (english[-1], chinese[-1]) == (".", "。"), breed["id"]
            for parts in (
                re.split(r"(?<=[.!?])\s+", english),
                re.findall(r"[^。！？]+[。！？]?", chinese),
            ):
                assert least <= len(parts) <= most, breed["id"]
                said.update(parts)
    assert [sentence for sentence, times in said.items() if times > 1] == []


def test_groups_of_look_alikes_are_described_in_both_languages_and_each_of_a_version_that_ships_is() -> (
    None
):
    groups = json.loads((MODELS / "groups.json").read_text(encoding="utf-8"))
    assert len({group["id"] for group in groups}) == len(groups)
    for group in groups:
        assert len(group["members"]) >= 2, group["id"]
        assert set(group["members"]) <= BY_ID.keys(), group["id"]
        assert ("name" in group) == ("name_zh" in group), group["id"]
        assert 20 < len(group["difference"]) <= 230, group["id"]
        assert 5 < len(group["difference_zh"]) <= 120, group["id"]
        assert not HAN.search(group["difference"]), group["id"]
        assert HAN.search(group["difference_zh"]), group["id"]
    described = [set(group["members"]) for group in groups]
    for file in ("scores.json", "taught.json"):
        stored = json.loads((MODELS / "inception_v3" / file).read_text(encoding="utf-8"))
        for group in stored.get("scores", stored)["calibration"]["groups"]:
            assert set(group) in described, (
                f"{file}: {group} has no name and no difference in groups.json"
            )


# What a word in the name of a group is true of, beside the breeds whose own names have it.
KINDS = {
    "sighthound": {"n02091032", "n02091134", "n02091244", "n02091831"},
    "hound": {"n02087394", "n02088238", "n02088466", "n02089078", "n02090379"},
    "water": {"n02099429", "n02102973"},
}
LISTING = re.compile(r",| or |: ")
DESCRIPTION_ENDS = ("dog", "any size", "large or small", "black and tan or red")


def test_a_group_that_is_called_after_breeds_is_called_after_all_of_them():
    names = {breed: [BY_ID[breed]["name"], *BY_ID[breed]["other_names"]] for breed in BY_ID}
    for group in json.loads((MODELS / "groups.json").read_text(encoding="utf-8")):
        name = group.get("name", "")
        said = set(words(name))
        if not LISTING.search(name) or name.endswith(DESCRIPTION_ENDS):
            continue
        for member in group["members"]:
            own = set(words(" ".join(names[member]))) - {"dog"}
            kinds = {word for word, breeds in KINDS.items() if member in breeds}
            assert said & (own | kinds), f"{group['name']} does not name {names[member][0]}"


def test_each_group_of_a_version_that_ships_names_its_members_or_is_described_by_hand():
    described = json.loads((MODELS / "groups.json").read_text(encoding="utf-8"))
    written = {frozenset(group["members"]): group for group in described}
    labels = [{key: breed[key] for key in ("id", "name", "name_zh")} for breed in BREEDS]
    for file in ("scores.json", "taught.json"):
        stored = json.loads((MODELS / "inception_v3" / file).read_text(encoding="utf-8"))
        groups = stored.get("scores", stored)["calibration"]["groups"]
        for group in named_groups(groups, described, labels):
            if "name" not in written[frozenset(group.members)]:
                assert all(BY_ID[member]["name"] in group.name for member in group.members)


def words(text: str) -> list[str]:
    return re.findall(r"[a-zé]+", text.lower())
