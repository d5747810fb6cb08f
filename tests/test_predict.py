"""`dogsnap predict`: the same photo or file of instances gets the same answer here and by a server."""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_models
from click.testing import CliRunner, Result
from colour_photos import BLUE, GREEN, encode, huge_png, plain

from backend.commands.predict import predict

DOGSNAP = Path(sys.executable).with_name("dogsnap")


@pytest.fixture(scope="module")
def models(tmp_path_factory, colour_models) -> Path:
    models = tmp_path_factory.mktemp("predict_models")
    shutil.copytree(colour_models / "inception_v3", models / "inception_v3")
    tiny_models.several(models / "several" / "1")
    tiny_models.texts(models / "texts" / "1")
    return models


@pytest.fixture(scope="module")
def server(start_server, models):
    return start_server(models)


@pytest.fixture
def photo(tmp_path) -> Path:
    file = tmp_path / "dog.jpg"
    file.write_bytes(encode(plain(GREEN), "JPEG"))
    return file


def run(*arguments) -> Result:
    return CliRunner().invoke(predict, [str(each) for each in arguments])


def answer(*arguments) -> dict:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_command_prints_the_answer_and_nothing_else_on_standard_output(models, photo):
    command = [DOGSNAP, "predict", photo, "--models", models, "--top-k", "1"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    breed = json.loads(result.stdout)["breeds"]
    assert [each["name_zh"] for each in breed] == ["绿犬"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_photo_gets_the_same_answer_here_and_by_a_server(models, server, photo, version):
    here = answer(photo, "--models", models, "--version", version)
    assert here["model"] == {"name": "inception_v3", "version": version}
    assert here["breeds"][0]["id"] == "c2"
    assert here == answer(photo, "--url", server.url, "--version", version)


INSTANCES = {
    "long form": ("several", '{"a": 1.5, "b": 2}\n{"a": 3, "b": 4}\n'),
    "bytes": ("texts", '{"bin": {"b64": "YQ=="}}\n{"bin": {"b64": "Yg=="}}\n'),
    "shorthand": ("texts", '{"b64": "YQ=="}\n\n{"b64": "Yg=="}'),
    "one line": ("texts", '"text"\n'),
}


@pytest.mark.parametrize("form", INSTANCES)
def test_a_file_of_instances_gets_the_same_answer_here_and_by_a_server(models, server, tmp_path, form):
    model, text = INSTANCES[form]
    file = tmp_path / "instances.json"
    file.write_text(text, encoding="utf-8")
    here = answer("--json-instances", file, "--model", model, "--models", models)
    assert len(here["predictions"]) == len([line for line in text.splitlines() if line])
    assert here == answer("--json-instances", file, "--model", model, "--url", server.url)


def test_photos_as_instances_reach_the_signature_that_is_named(models, server, tmp_path):
    file = tmp_path / "instances.json"
    rows = [
        {"image_bytes": {"b64": base64.b64encode(encode(plain(colour), "JPEG")).decode()}} for colour in (BLUE, GREEN)
    ]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    arguments = ("--json-instances", file, "--signature-name", "scores", "--version", 2)
    here = answer(*arguments, "--models", models)
    assert [max(range(3), key=row["prediction"].__getitem__) for row in here["predictions"]] == [2, 1]
    assert here == answer(*arguments, "--url", server.url)


WRONG = {
    "a line that is no JSON": ('{"a": 1}\n{"a"\n', "line 2 of"),
    "a whole request": ('{"instances": [1]}', "holds a whole request; expected one instance per line"),
    "an empty file": ("\n", "is empty; expected one JSON instance per line"),
    "an unknown input": ('{"image_byte": {"b64": "YQ=="}}', "does not have named input: image_byte"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("here", [True, False])
def test_a_wrong_file_is_told_in_one_sentence(models, server, tmp_path, case, here):
    text, sentence = WRONG[case]
    file = tmp_path / "instances.json"
    file.write_text(text, encoding="utf-8")
    result = run(
        "--json-instances", file, "--model", "texts", *(("--models", models) if here else ("--url", server.url))
    )
    assert result.exit_code == 1
    assert sentence in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("here", [True, False])
def test_a_wrong_photo_is_told_in_one_sentence(models, server, tmp_path, here):
    file = tmp_path / "huge.png"
    file.write_bytes(huge_png(9000, 9000))
    result = run(file, *(("--models", models) if here else ("--url", server.url)))
    assert result.exit_code == 1
    assert "the photo has 81.0 megapixels (9000 x 9000); at most 50 are taken" in result.output


@pytest.mark.parametrize("here", [True, False])
def test_an_unknown_model_or_version_is_told_in_one_sentence(models, server, photo, here):
    where = ("--models", models) if here else ("--url", server.url)
    for arguments, sentence in ((("--version", 9), "Specific(inception_v3, 9)"), (("--model", "nope"), "Latest(nope)")):
        result = run(photo, *arguments, *where)
        assert result.exit_code == 1
        assert sentence in result.output


def test_a_server_that_is_not_there_is_told_in_one_sentence(photo):
    result = run(photo, "--url", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "http://127.0.0.1:9/api/classify gives no answer that can be read" in result.output


def test_a_photo_or_a_file_of_instances_is_needed_and_not_both(photo):
    for arguments in ((), (photo, "--json-instances", photo)):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "expected either PHOTO or --json-instances FILE" in result.output
