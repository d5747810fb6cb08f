"""Files of instances, as gcloud takes them: what is read, and that errors name the line, here and by a server alike."""

import base64
import json
import re
import shutil
from pathlib import Path

import click
import pytest
from dogsnap.commands.helpers.json_instances import Instances, read_instances
from support import tiny_models
from support.colour_photos import GREEN, encode, plain
from support.command_line import dogsnap


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "instances.json"


def read(file: Path, contents: str | bytes) -> Instances:
    file.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return read_instances(file)


def test_every_line_is_an_instance_in_the_long_form_or_the_short_one(file):
    text = '{"image_bytes": {"b64": "YQ=="}}\n{"b64": "Yg=="}\n[1, 2.5]\n"text"\n7'
    assert read(file, text).values == [
        {"image_bytes": {"b64": "YQ=="}},
        {"b64": "Yg=="},
        [1, 2.5],
        "text",
        7,
    ]


def test_a_number_that_no_double_holds_is_refused_with_its_line(file):
    with pytest.raises(click.ClickException, match=r"line 2 of .*the number 1e400 is too big"):
        read(file, "1e308\n[1e400]")


def test_empty_lines_windows_line_ends_and_a_byte_order_mark_are_read_over_and_a_string_ends_no_line(
    file,
):
    instances = read(file, b"\xef\xbb\xbf1\r\n\r\n  \r\n2\r\n")
    assert (instances.values, instances.lines) == ([1, 2], [1, 4])
    assert read(file, '"a\u2028b\x85c"\n"d"').values == ["a\u2028b\x85c", "d"]


WRONG = {
    "no JSON": (b'1\n\n{"a"\n', "line 3 of {}: expected one JSON instance per line: "),
    "two values": (b"1 2", "line 1 of {}: expected one JSON instance per line: Extra data"),
    "an object over several lines": (
        b'{\n"a": 1\n}',
        "line 1 of {}: expected one JSON instance per line: ",
    ),
    "no UTF-8": (b'1\n"\xff"', "line 2 of {}: expected one JSON instance per line: 'utf-8'"),
    "nesting without end": (b"[" * 100_000, "line 1 of {}: expected one JSON instance per line: "),
    "a whole request": (
        b'{"instances": [1]}',
        "{} holds a whole request; expected one instance per line",
    ),
    "an empty file": (b"\n \n", "{} is empty; expected one JSON instance per line"),
}


@pytest.mark.parametrize(("contents", "sentence"), WRONG.values(), ids=WRONG)
def test_a_file_that_is_something_else_is_refused_with_the_line(file, contents, sentence):
    with pytest.raises(click.ClickException) as error:
        read(file, contents)
    assert error.value.message.startswith(sentence.format(file))
    assert "\n" not in error.value.message


@pytest.fixture(scope="module")
def models(tmp_path_factory, colour_models) -> Path:
    models = tmp_path_factory.mktemp("instances_models")
    shutil.copytree(colour_models / "inception_v3", models / "inception_v3")
    tiny_models.half_plus(2, models / "half" / "1")
    tiny_models.texts(models / "texts" / "1")
    tiny_models.several(models / "several" / "1")
    return models


def outcome(file: Path, *arguments: str) -> tuple[int, str]:
    """Exit code, and what it says but for the line about loading."""
    result = dogsnap("predict", "--json-instances", file, *arguments)
    return result.exit_code, re.sub(r"\Aloading .*\n", "", result.output)


SCORES = ("--version", "2", "--signature-name", "scores")
GOOD = json.dumps({"b64": base64.b64encode(encode(plain(GREEN), "JPEG")).decode()})
# Flags, a file, and how what is said of a refused one begins.
SAME = {
    "named inputs": (("--model", "several"), '{"a": 1.5, "b": 2}\n{"a": 3, "b": 4}\n', ""),
    "bytes": (("--model", "texts"), '{"bin": {"b64": "YQ=="}}\n\n{"b64": "Yg=="}', ""),
    "text": (("--model", "texts"), '"text"\n', ""),
    "numbers": (("--model", "half"), "1\n2.5\n\n1e39\nNaN\n-Infinity", ""),
    "rows of two sizes": (("--model", "half"), "[1, 2]\n\n[1, 2, 3]", "line 3 of {}: "),
    "a wrong type": (("--model", "half"), '1\n"2"', "line 2 of {}: "),
    "objects, then a value": (("--model", "half"), '{"x": 1}\n2', "line 2 of {}: "),
    "an unknown input": (
        ("--model", "texts"),
        '{"bin": "a"}\n\n{"image_byte": "b"}',
        "line 3 of {}: ",
    ),
    "no base64": (("--model", "texts"), '{"b64": "YQ=="}\n{"b64": "?"}', "line 2 of {}: "),
    "a whole request": (("--model", "texts"), '{"instances": [1]}', "{} holds a whole request"),
    "an unknown label": (("--model", "half", "--label", "nope"), "1", ""),
    "an unknown signature": (
        ("--model", "half", "--signature-name", "nope"),
        "1",
        "Serving signature",
    ),
    "photos that are none": (SCORES, '{"b64": "YQ=="}\n\n{"b64": "Yg=="}', "lines 1, 3 of {}: "),
    "one bad photo among good ones": (
        SCORES,
        f'{GOOD}\n\n{{"b64": "YQ=="}}\n{GOOD}',
        "line 3 of {}: ",
    ),
}


@pytest.mark.parametrize(("arguments", "text", "start"), SAME.values(), ids=SAME)
def test_a_file_has_the_same_outcome_here_and_by_a_server(
    models, server, file, arguments, text, start
):
    file.write_text(text, encoding="utf-8")
    here = outcome(file, *arguments, "--models", models)
    there = outcome(file, *arguments, "--url", server.url)
    if "--label" in arguments:  # only a server has labels, and each says where they are
        here, there = (here[0], here[1].partition(";")[0]), (there[0], there[1].partition(";")[0])
    assert here == there
    assert here[1]
    if start:
        assert here[0] == here[1].count("\n") == 1
        assert here[1].startswith(f"Error: {start.format(file)}")
