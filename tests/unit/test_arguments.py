"""Options that several commands share: files with the classes of a model."""

import json
from pathlib import Path

import click
import pytest
from dogsnap.commands.helpers.arguments import class_labels


def read(folder: Path, text: str, name: str = "labels.txt") -> list[dict]:
    (folder / name).write_text(text, encoding="utf-8")
    return class_labels(folder / name)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("red dog\ngreen dog\n", {"red dog": "red dog", "green dog": "green dog"}),
        ("c1:red dog\nc2: green dog\n\n", {"c1": "red dog", "c2": "green dog"}),
        (
            "n02085620 toy\nn02085782-Japanese_spaniel",
            {"n02085620": "toy", "n02085782": "Japanese_spaniel"},
        ),
        ("\ufeffred\r\ngreen\r\n", {"red": "red", "green": "green"}),
    ],
)
def test_classes_come_one_a_line_with_or_without_an_id(tmp_path, text, labels) -> None:
    assert read(tmp_path, text) == [{"id": name, "name": label} for name, label in labels.items()]


def test_classes_come_as_json_with_all_that_it_says_of_them(tmp_path) -> None:
    labels = [{"id": "c1", "name": "red dog", "name_zh": "红犬"}, {"name": "green"}, "blue"]
    others = [{"id": name, "name": name} for name in ("green", "blue")]
    assert read(tmp_path, json.dumps(labels), "labels.json") == [labels[0], *others]
    assert class_labels(None) == []


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("", "labels.txt", "holds no class"),
        ("red\n\ngreen", "labels.txt", "class 2 has no name"),
        ("red\nred", "labels.txt", "red is there 2 times; expected it once"),
        *(
            (text, "labels.json", 'expected a list of names, or of {"id", "name"}, as')
            for text in ("{", '[{"id": 1}]', "7")
        ),
    ],
)
def test_a_file_without_whole_classes_is_refused_in_a_sentence(tmp_path, text, name, said) -> None:
    with pytest.raises(click.ClickException) as refused:
        read(tmp_path, text, name)
    assert said in refused.value.message
    assert name in refused.value.message
