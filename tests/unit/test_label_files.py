"""Files with the classes of a model, as people and other tools write them."""

import json
from pathlib import Path

import click
import pytest
from dogsnap.commands.helpers.label_files import class_labels


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
            (text, "labels.json", 'expected as JSON a list of names, of {"id", "name"} or of pairs')
            for text in ("{", '[{"id": 1}]', "7")
        ),
    ],
)
def test_a_file_without_whole_classes_is_refused_in_a_sentence(tmp_path, text, name, said) -> None:
    with pytest.raises(click.ClickException) as refused:
        read(tmp_path, text, name)
    assert said in refused.value.message
    assert name in refused.value.message


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ('[{"name": "red"}, {"label": "green"}]', "class 2 as {'label': 'green'}"),
        ('[{"name": null}]', "class 1 as {'name': None}"),
        ('[{"id": ["c1"], "name": "red"}]', "class 1 as {'id': ['c1'], 'name': 'red'}"),
        ('[["c1", "red"], ["c2", "green", "blue"]]', "class 2 as ['c2', 'green', 'blue']"),
        ('{"circle": "round"}', "'circle': 'round'"),
        ('"red"', "'red'"),
        ("7", "7"),
    ],
)
def test_what_cannot_be_read_of_json_is_shown_as_it_was_received(tmp_path, text, received) -> None:
    (tmp_path / "labels.json").write_text(text, encoding="utf-8")
    with pytest.raises(click.ClickException, match="expected") as refused:
        class_labels(tmp_path / "labels.json")
    assert refused.value.message.endswith(f"; received {received}")


TO_NINE = "".join(f', "{number}": "{number}th"' for number in range(3, 10))
SHAPES = ["circle", "square", "stripes"]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('{"stripes": 2, "circle": 0, "square": 1}', SHAPES),
        ('{"2": "stripes", "10": "x", "0": "circle", "1": "square"' + TO_NINE + "}", None),
        ('{"2": "stripes", "0": "circle", "1": "square"}', SHAPES),
        ("{2: 'stripes', 0: 'circle', 1: 'square'}", SHAPES),
        (
            '{"1": ["n2", "square"], "0": ["n1", "circle"], "2": ["n3", "stripes"]}',
            ["n1", "n2", "n3"],
        ),
        (
            '{"model_type": "vit", "id2label": {"2": "stripes", "0": "circle", "1": "square"}}',
            SHAPES,
        ),
        ('{"labels": ["circle", "square", "stripes"]}', SHAPES),
        ('["circle", "square", "stripes"]', SHAPES),
        ('{"stripes": "2", "circle": "0", "square": "1"}', SHAPES),
        ('{"label2id": {"stripes": "2", "circle": "0", "square": "1"}}', SHAPES),
        ('[["stripes", 2], ["circle", 0], ["square", 1]]', SHAPES),
        ('[[2, "stripes"], [0, "circle"], [1, "square"]]', SHAPES),
        ('[["n1", "circle"], ["n2", "square"], ["n3", "stripes"]]', ["n1", "n2", "n3"]),
        (
            '[{"id": 2, "name": "stripes"}, {"id": 0, "name": "circle"}, {"id": 1, "name": "square"}]',
            SHAPES,
        ),
    ],
)
@pytest.mark.parametrize("name", ["labels.json", "labels.txt"])
def test_classes_with_numbers_stand_by_their_numbers(tmp_path, text, ids, name):
    labels = read(tmp_path, text, name)
    assert [label["name"] for label in labels][:3] == SHAPES
    assert ids is None or [label["id"] for label in labels] == ids


@pytest.mark.parametrize(
    "line",
    [
        *("{0} {1}", "{0}: {1}", "{0}:{1}", "{0},{1}", "{0};{1}", "{0} | {1}", "{0} -> {1}"),
        *("{1},{0}", "{1}\t{0}", "{1}|{0}", "{1} => {0}"),
        *('"{0}","{1}"', "'{0}';'{1}'", '"{1}","{0}"'),
    ],
)
@pytest.mark.parametrize("head", ["", "class,index\n"])
def test_lines_with_numbers_stand_by_them(tmp_path, line, head):
    lines = [line.format(number, SHAPES[number]) for number in (2, 0, 1)]
    assert [label["id"] for label in read(tmp_path, head + "\r\n".join(lines))] == SHAPES


def test_unicode_of_windows_is_read_and_other_encodings_are_refused(tmp_path):
    file = tmp_path / "labels.txt"
    file.write_bytes("猫\r\n狗\r\n".encode("utf-16"))
    assert [label["name"] for label in class_labels(file)] == ["猫", "狗"]
    for content in ("猫\r\n狗\r\n".encode("gbk"), "cat\r\ndog\r\n".encode("utf-16-le")):
        file.write_bytes(content)
        with pytest.raises(click.ClickException, match="save it as UTF-8"):
            class_labels(file)


def test_names_that_begin_with_a_number_stay_in_their_order(tmp_path):
    assert [label["name"] for label in read(tmp_path, "2 Euro\n1 Euro")] == ["2 Euro", "1 Euro"]
    assert [label["name"] for label in read(tmp_path, "Class 1\nClass 0")] == ["Class 1", "Class 0"]


def test_two_numbered_classes_of_one_name_have_their_numbers_as_ids(tmp_path):
    labels = read(tmp_path, '{"0": "crane", "1": "heron", "2": "crane"}')
    assert [label["id"] for label in labels] == ["0", "heron", "2"]


@pytest.mark.parametrize(
    "text",
    [
        '{"circle": 1, "square": 3}',
        '{"circle": 2, "square": 3}',
        '{"circle": 0, "square": 0}',
        '{"circle": "round", "square": "not"}',
        '{"circle": 0.5}',
        '{"circle": {"id": 0}}',
        "{}",
        '{"circle": true}',
        '{"0": ["a", "b", "c"]}',
    ],
)
def test_an_object_of_no_known_form_is_refused(tmp_path, text):
    with pytest.raises(click.ClickException, match="expected"):
        read(tmp_path, text, "labels.json")


@pytest.mark.parametrize(
    "text",
    [
        "1 cat\n2 dog\n",
        "1,cat\n2,dog",
        "1. cat\n2. dog",
        "1) cat\n2) dog",
        "1:cat\n2:dog",
        "cat 1\ndog 2",
        "id;name\n1;cat\n2;dog",
        '{"cat": 1, "dog": 2}',
        '{"categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]}',
        "item {\n  id: 2\n  name: 'dog'\n}\nitem {\n  id: 1\n  name: 'cat'\n}",
    ],
)
def test_what_counts_from_one_is_taken_in_its_order_and_that_is_said(tmp_path, text, capsys):
    assert [label["name"] for label in read(tmp_path, text)] == ["cat", "dog"]
    assert "counts from 1: cat is taken for the network's first class" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("quoted.txt", '"cat"\n"dog"'),
        ("listed.txt", "'cat',\n'dog',\n"),
        ("number_last.txt", "cat 0\ndog 1"),
        ("of_imagenet.csv", "0,n02123045,cat\n1,n02110341,dog"),
        ("of_open_images.csv", "/m/01yrx,cat\n/m/0bt9lr,dog"),
        ("more_columns.csv", "class_id,class_name,photos\n1,dog,6\n0,cat,5"),
        ("colours.csv", "name,r,g,b\ncat,1,2,3\ndog,4,5,6"),
        ("data.yaml", "nc: 2\nnames: [cat, dog]\n"),
        ("classes.json", '{"classes": ["cat", "dog"]}'),
        ("indices.json", '{"class_to_idx": {"dog": 1, "cat": 0}}'),
        ("numbered.yml", "names:\n  1: dog\n  0: cat\n"),
        ("shown.pbtxt", "# mine\nitem: { name: '/m/1' id: 0 display_name: 'cat' keypoints { id: 1 } }\n"
                        "item { name: '/m/2' id: 1 display_name: 'dog' }"),
    ],
)  # fmt: skip
def test_label_files_of_other_tools_are_read(tmp_path, name, text, capsys):
    assert [label["name"] for label in read(tmp_path, text, name)] == ["cat", "dog"]
    assert not capsys.readouterr().out


def test_numbers_that_are_part_of_the_names_stay(tmp_path):
    for names in (["boeing 747", "airbus 320"], ["1 Euro", "2 Euro"], ["0", "1"], ["1.5 l", "2 l"]):
        assert [label["name"] for label in read(tmp_path, "\n".join(names))] == names
    digits = [label["name"] for label in read(tmp_path, "0 3d printer\n1 7 up")]
    assert digits == ["3d printer", "7 up"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 cat\n3 dog", "expected the numbers 0 to 1, each once, received 1, 3"),
        ("item { id: 1 name: 'cat'", "expected a label map, item { id: 1 name: 'cat' }"),
        ("item { id: 1 }", "class 1 has no name"),
    ],
)
def test_numbers_that_do_not_count_and_broken_label_maps_are_refused(tmp_path, text, said):
    with pytest.raises(click.ClickException) as refused:
        read(tmp_path, text)
    assert said in refused.value.message
