"""Options that several commands share: files with the classes of a model."""

import json
from pathlib import Path

import click
import pytest

from backend.commands.helpers.arguments import class_labels

RED, GREEN = {"id": "c1", "name": "red dog"}, {"id": "c2", "name": "green dog"}


def written(folder: Path, text: str, name: str = "labels.txt") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("red dog\ngreen dog\n", [{"id": "red dog", "name": "red dog"}, {"id": "green dog", "name": "green dog"}]),
        ("c1:red dog\nc2: green dog\n\n", [RED, GREEN]),
        (
            "n02085620 chihuahua\nn02085782-Japanese_spaniel",
            [{"id": "n02085620", "name": "chihuahua"}, {"id": "n02085782", "name": "Japanese_spaniel"}],
        ),
        ("\ufeffred\r\ngreen\r\n", [{"id": "red", "name": "red"}, {"id": "green", "name": "green"}]),
    ],
)
def test_classes_come_one_a_line_with_or_without_an_id(tmp_path, text, labels) -> None:
    assert class_labels(written(tmp_path, text)) == labels


def test_classes_come_as_json_with_all_that_it_says_of_them(tmp_path) -> None:
    labels = [{**RED, "name_zh": "红犬"}, {"name": "green"}, "blue"]
    assert class_labels(written(tmp_path, json.dumps(labels), "labels.json")) == [
        labels[0],
        {"id": "green", "name": "green"},
        {"id": "blue", "name": "blue"},
    ]
    assert class_labels(None) == []


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("", "labels.txt", "holds no class"),
        ("red\n\ngreen", "labels.txt", "class 2 has no name"),
        ("red\nred", "labels.txt", "red is there 2 times; expected it once"),
        ("{", "labels.json", 'expected a list of names, or of {"id", "name"}, as JSON'),
        ('[{"id": "c1"}]', "labels.json", 'expected a list of names, or of {"id", "name"}, as JSON'),
        ("7", "labels.json", 'expected a list of names, or of {"id", "name"}, as JSON'),
    ],
)
def test_a_file_without_whole_classes_is_refused_in_a_sentence(tmp_path, text, name, said) -> None:
    with pytest.raises(click.ClickException) as refused:
        class_labels(written(tmp_path, text, name))
    assert said in refused.value.message
    assert name in refused.value.message
