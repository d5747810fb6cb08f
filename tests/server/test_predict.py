"""`dogsnap predict`: the same photo or file of instances gets the same answer here and by a server."""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from dogsnap.server.middleware import api_keys
from support import tiny_models
from support.colour_photos import BLUE, GREEN, encode, huge_png, plain
from support.command_line import dogsnap, output_of, refused
from support.ports import LOST_PROXY
from support.refusals import assert_refused
from support.stub_service import StubService

pytestmark = pytest.mark.early

DOGSNAP = Path(sys.executable).with_name("dogsnap")


@pytest.fixture
def photo(tmp_path) -> Path:
    file = tmp_path / "dog.jpg"
    file.write_bytes(encode(plain(GREEN), "JPEG"))
    return file


def run(*arguments, **environ: str) -> Result:
    return dogsnap("predict", *arguments, **environ)


def answer(*arguments, **environ: str) -> dict:
    result = run(*arguments, **environ)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_command_prints_the_answer_and_nothing_else_on_standard_output(colour_models, photo):
    command = [DOGSNAP, "predict", photo, "--models", colour_models, "--top-k", "1"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    breed = json.loads(result.stdout)["breeds"]
    assert [each["name_zh"] for each in breed] == ["绿犬"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_photo_gets_the_same_answer_here_and_by_a_server(
    colour_models, colour_server, photo, version
):
    here = answer(photo, "--models", colour_models, "--version", version)
    assert here["model"] == {"name": "inception_v3", "version": version}
    assert here["breeds"][0]["id"] == "c2"
    assert here == answer(photo, "--url", colour_server.url, "--version", version)


@pytest.mark.parametrize("form", ["instances", "inputs"])
def test_where_no_signature_is_named_the_one_with_the_inputs_of_the_request_answers(
    colour_server, form
):
    row = {"image_bytes": {"b64": base64.b64encode(encode(plain(BLUE), "JPEG")).decode()}}
    body = {form: [row] if form == "instances" else {"image_bytes": [row["image_bytes"]]}}
    path = "/v1/models/inception_v3/versions/2:predict"
    named = colour_server.post(path, json={**body, "signature_name": "image_bytes"})
    unnamed = colour_server.post(path, json=body)
    assert (named.status_code, unnamed.json()) == (200, named.json())
    said = '; for image_bytes set signature_name to "image_bytes"'
    other = {**body, "signature_name": "serving_default"}
    assert_refused(colour_server.post(path, json=other), 400, said)
    wrong = {form: [{"picture": "x"}] if form == "instances" else {"picture": ["x"]}}
    assert_refused(colour_server.post(path, json=wrong), 400, "image")


def test_that_signature_answers_by_post_to_the_root_and_the_command_too(
    colour_models, colour_server, tmp_path
):
    row = {"image_bytes": {"b64": base64.b64encode(encode(plain(BLUE), "JPEG")).decode()}}
    body = {"model_name": "inception_v3", "model_version": 2, "data": row}
    named = colour_server.post("/", json={**body, "signature_name": "image_bytes"})
    unnamed = colour_server.post("/", json=body)
    assert (named.status_code, unnamed.json()) == (200, named.json())
    file = tmp_path / "instances.json"
    file.write_text(json.dumps(row), encoding="utf-8")
    flags = ("--json-instances", file, "--models", colour_models, "--version", "2")
    assert answer(*flags) == answer(*flags, "--signature-name", "image_bytes")


def test_a_model_without_classes_is_said_to_take_tensors(photo, tmp_path):
    tiny_models.half_plus(2, tmp_path / "models/half/1")
    said = "call it by its tensors, /v1/models/half:predict or --json-instances FILE --model half"
    refused(run(photo, "--model", "half", "--models", tmp_path / "models"), said)


def test_a_wrong_photo_model_version_or_url_is_told_in_one_sentence(
    colour_models, colour_server, photo, tmp_path
):
    file, url = tmp_path / "huge.png", colour_server.url
    file.write_bytes(huge_png(9000, 9000))
    too_large = "the photo has 81.0 megapixels (9000 x 9000); at most 50 are taken"
    no_server = "no server answers at http://127.0.0.1:9; start one with `dogsnap serve`"
    schemes = "expected http:// or https:// before the host"
    no_tls = f"does not speak TLS; if it is a server without HTTPS, ask it at {url}"
    for arguments, sentence in (
        ((file, "--models", colour_models), too_large),
        ((file, "--url", url), too_large),
        ((photo, "--url", url, "--version", 9), "Specific(inception_v3, 9)"),
        ((photo, "--url", url, "--model", "nope"), "Latest(nope)"),
        ((photo, "--url", "http://127.0.0.1:9"), no_server),
        ((photo, "--url", "localhost:8501"), f"{schemes}, such as http://localhost:8501"),
        ((photo, "--url", "ftp://me:secret@lab/dogs"), f"{schemes}, such as http://lab"),
        ((photo, "--url", url.replace("http:", "https:")), no_tls),
    ):
        said = refused(dogsnap("predict", *arguments))
        assert (sentence in said, "certificate" in said) == (True, False), said


def test_a_server_on_this_machine_is_asked_without_the_proxy_and_another_names_it(
    colour_server, photo
):
    assert "green dog" in output_of(
        dogsnap("predict", photo, "--url", colour_server.url, **LOST_PROXY)
    )
    said = refused(dogsnap("predict", photo, "--url", "http://192.0.2.1:8501", **LOST_PROXY))
    assert (
        "through the proxy 127.0.0.1:9 (http_proxy, https_proxy): add 192.0.2.1 to no_proxy" in said
    )
    assert "secret" not in said


@pytest.mark.parametrize("asked", ["a photo", "instances", "pictures"])
def test_what_another_server_says_moves_no_cursor(asked, photo, tmp_path):
    instances = tmp_path / "instances.json"
    instances.write_text("[1]", encoding="utf-8")
    folder = tmp_path / "pictures"
    folder.mkdir()
    shutil.copy(photo, folder)
    arguments = {
        "a photo": (photo,),
        "instances": ("--json-instances", instances),
        "pictures": (folder, "--out", tmp_path / "out"),
    }[asked]
    with StubService() as service:
        service.set({"error": "no room\x1b[2J for it"}, status=503)
        said = refused(dogsnap("predict", *arguments, "--url", service.url))
    assert said.endswith("no room\\x1b[2J for it\n")


WITHOUT_TENSORFLOW = {
    "version": (("--version", 9), "Specific(inception_v3, 9); versions on disk: 1, 2"),
    "model": (("--model", "nosuch"), "Latest(nosuch); models on disk: inception_v3"),
    "label": (
        ("--label", "stable"),
        "label: stable; versions of inception_v3 on disk: 1, 2; labels: none here",
    ),
    "no photo": ((), "README.md is no photo: expected JPEG"),
}


@pytest.mark.parametrize("case", WITHOUT_TENSORFLOW)
def test_what_is_not_on_disk_is_told_with_what_is_before_tensorflow_is_loaded(
    colour_models, photo, tmp_path, case
):
    arguments, sentence = WITHOUT_TENSORFLOW[case]
    (tmp_path / "README.md").write_text("# no photo")
    file = tmp_path / "README.md" if case == "no photo" else photo
    code = "import atexit, sys; atexit.register(lambda: print('tensorflow' in sys.modules))\n"
    code += "from dogsnap.cli import main; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "predict",
        str(file),
        "--models",
        str(colour_models),
        *map(str, arguments),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stdout) == (1, "False\n")
    assert sentence in result.stderr


def test_a_newest_version_that_cannot_be_loaded_leaves_the_answer_to_the_one_before(
    colour_models, photo, tmp_path
):
    shutil.copytree(colour_models / "inception_v3", tmp_path / "models" / "inception_v3")
    (tmp_path / "models/inception_v3/3").mkdir()
    (tmp_path / "models/inception_v3/3/saved_model.pb").write_bytes(b"corrupt")
    result = run(photo, "--models", tmp_path / "models")
    assert json.loads(result.stdout)["model"]["version"] == 2
    said = result.stderr.splitlines()
    assert said[0] == "loading inception_v3 version 3 ..."
    assert said[1].startswith("inception_v3 version 3 failed to load: ")
    assert said[2] == "loading inception_v3 version 2 ..."
    alone = refused(dogsnap("predict", photo, "--models", tmp_path / "models", "--version", 3))
    assert "no version of inception_v3 that was asked for can be loaded: 3" in alone


def test_labels_and_names_of_a_configuration_file_are_known(colour_models, photo, tmp_path):
    file = tmp_path / "models.config"
    label = 'version_labels { key: "stable" value: 1 }'
    base_path = colour_models / "inception_v3"
    file.write_text(
        f'model_config_list {{ config {{ name: "inception_v3" base_path: "{base_path}" {label} }} }}'
    )
    labelled = answer(photo, "--model-config-file", file, "--label", "stable")
    assert labelled["model"] == {"name": "inception_v3", "version": 1}
    wrong = run(photo, "--model-config-file", file, "--label", "canary")
    assert "versions of inception_v3 on disk: 1, 2; labels: stable" in wrong.output


@pytest.fixture(scope="module")
def keyed(start_server, colour_models, tmp_path_factory):
    """A server that wants a key, with a default model that no client knows of, and that key."""
    folder = tmp_path_factory.mktemp("keyed")
    shutil.copytree(colour_models / "inception_v3", folder / "models" / "ours")
    key = api_keys.add(folder / "keys.json", "phone")
    return start_server(
        folder / "models", "--default-model", "ours", "--api-keys", folder / "keys.json"
    ), key


def test_a_server_that_wants_a_key_gets_it_by_flag_or_environment_and_its_default_model_answers(
    keyed, photo, tmp_path
):
    server, key = keyed
    for arguments, environ in ((("--key", key), {}), ((), {"DOGSNAP_KEY": key})):
        answered = answer(photo, "--url", server.url, *arguments, **environ)
        assert answered["model"] == {"name": "ours", "version": 2}
    file = tmp_path / "instances.json"
    file.write_text(json.dumps(base64.b64encode(photo.read_bytes()).decode()), encoding="utf-8")
    arguments = ("--json-instances", file, "--model", "ours", "--url", server.url)
    assert len(answer(*arguments, "--key", key)["predictions"]) == 1
    assert "expected a key of this server" in run(*arguments).output


def test_what_can_be_no_key_is_not_shown_and_a_photo_or_a_file_of_instances_is_needed_and_not_both(
    photo,
):
    for wrong in ("dogsnap_1\n", "dogsnap 1", "dogsnap_狗"):
        said = refused(dogsnap("predict", photo, "--url", "http://127.0.0.1:9", "--key", wrong))
        assert ("expected a key as `dogsnap keys add` prints it" in said, wrong in said) == (
            True,
            False,
        ), said
    for arguments in ((), (photo, "--json-instances", photo)):
        said = refused(dogsnap("predict", *arguments))
        assert "expected one of PHOTO, --example and --json-instances FILE" in said


def test_the_example_is_a_drawn_dog_and_takes_the_place_of_a_photo(photo, colour_models):
    answered = answer("--example", "--models", colour_models)
    assert answered["breeds"]
    said = refused(dogsnap("predict", photo, "--example", "--models", colour_models))
    assert "expected either PHOTO or --example" in said
