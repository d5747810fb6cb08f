"""`dogsnap models` against a real server: what it prints, what it switches, and its one-sentence errors."""

import json
import shutil

import pytest
from click.testing import Result
from dogsnap.admin_token import find_token
from dogsnap.commands.helpers.admin_client import port_here
from dogsnap.settings import Settings
from support import tiny_models
from support.command_line import dogsnap, output_of, refused
from support.grpc_client import SECONDS, connected
from support.stub_service import StubService
from support.waiting import wait_until
from tensorflow_serving.apis import get_model_status_pb2

TOKEN = "a-long-random-text"


@pytest.fixture(scope="module")
def server(start_server, made_half, tmp_path_factory):
    """A server of versions 1 and 2 of half, which asks for a token."""
    models = tmp_path_factory.mktemp("models")
    for number in "12":
        shutil.copytree(made_half, models / "half" / number)
    server = start_server(models, "--poll-seconds", "0.2", environ={"DOGSNAP_ADMIN_TOKEN": TOKEN})
    server.models = models
    return server


def run(server, *arguments: str, token: str = TOKEN) -> Result:
    url = server if isinstance(server, str) else server.url
    return dogsnap("models", *arguments, "--url", url, DOGSNAP_ADMIN_TOKEN=token)


def said(server, *arguments: str) -> str:
    result = run(server, *arguments)
    assert result.exit_code == 0, result.output
    return result.output


def refusal(server, *arguments: str, token: str = TOKEN) -> str:
    """The one sentence of a command that fails."""
    result = run(server, *arguments, token=token)
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1
    return result.output.removeprefix("Error: ").strip()


def test_a_password_in_netrc_takes_the_place_of_no_token(server, tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password of-another\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "half" in said(server, "list")
    address = server.url.replace("http://", "http://somebody:of-the-url@")
    assert "token" in refusal(address, "list", token="")


@pytest.mark.parametrize("rest", ["?sig=hidden", "#hidden", "/path?next=me@hidden"])
def test_no_sentence_shows_the_query_of_a_url(rest):
    output = run(f"http://127.0.0.1:1{rest}", "list").output
    assert "no server answers" in output
    assert "hidden" not in output.replace("http://hidden;", "")


@pytest.mark.parametrize("scheme", ["", "http://", "https://"])
def test_no_sentence_shows_a_password_in_which_a_slash_stands(scheme):
    output = run(f"{scheme}me:se/cret@127.0.0.1:1", "list").output
    assert "127.0.0.1" in output
    assert "se/" not in output
    assert "cret" not in output


def test_the_list_shows_every_version_and_what_sends_requests_to_it(server):
    said(server, "label", "set", "listed", "1")
    lines = [line.split() for line in said(server, "list").splitlines()]
    assert [line[:3] for line in lines[:3]] == [
        ["half"],
        ["version", "state", "used"],
        ["2", "AVAILABLE", "default"],
    ]
    assert lines[3][:2] == ["1", "AVAILABLE"]
    assert "listed" in lines[3]


def test_a_label_is_set_moved_removed_and_brought_back(server):
    assert "label beta of half: none -> 1 (switch" in said(server, "label", "set", "beta", "1")
    assert "label beta of half: 1 -> 2 (switch" in said(server, "label", "move", "beta", "2")
    assert "nothing to change" in said(server, "label", "set", "beta", "2")
    assert "label beta of half: 2 -> none" in said(server, "label", "remove", "beta")
    assert "label beta of half: none -> 2" in said(server, "undo")
    assert "label beta of half: 2 -> 1" in said(server, "undo")


def test_a_label_that_waits_says_so_until_its_version_is_there(server, made_half):
    waits = said(server, "label", "set", "next", "3")
    assert "label next waits for version 3, which does not exist yet; there are: 1, 2" in waits
    assert "label next waits for version 3" in said(server, "list")
    shutil.copytree(made_half, server.models / "half" / "3")
    assert said(server, "load", "3") == "version 3 of half is available\n"
    assert "next" in said(server, "show")
    said(server, "label", "remove", "next")
    assert said(server, "unload", "3") == "version 3 of half is unloaded\n"
    assert (
        server.post("/v1/models/half/versions/3:predict", json={"instances": [0.0]}).status_code
        == 404
    )
    assert "END" in said(server, "list")
    assert "version 3 of half was unloaded by hand; load it again first" in refusal(
        server, "label", "set", "next", "3"
    )


@pytest.mark.parametrize(
    ("graph", "said_of_load", "listed"),
    [
        (b"no model", "version 7 of half failed to load: ", "version 7: "),
        (
            None,
            "/half/7 lacks saved_model.pb; expected all files of a SavedModel",
            "version 7: half/7 lacks saved_model.pb;",
        ),
    ],
)
def test_a_version_that_cannot_be_loaded_gives_its_reason(server, graph, said_of_load, listed):
    broken = server.models / "half" / "7"
    broken.mkdir()
    if graph:
        (broken / "saved_model.pb").write_bytes(graph)
    try:
        assert said_of_load in refusal(server, "load", "7")
        wait_until(lambda: listed in said(server, "show", "half"))
        assert_no_folder_is_told(server)
    finally:
        shutil.rmtree(broken)
        wait_until(lambda: "version 7: " not in said(server, "show", "half"))


def assert_no_folder_is_told(server) -> None:
    """Why version 7 cannot be loaded is for everybody, where it lies for nobody."""
    told = [server.get(path).text for path in ("/api/models", "/v1/models/half", "/readyz", "/")]
    path = "/v1/models/half/versions/7:predict"
    told.append(server.post(path, json={"instances": [1.0]}).text)
    told.append(server.post("/", json={"model_version": 7, "data": [1.0]}).text)
    with connected(server.grpc_port) as client:
        request = get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "half"})
        told.append(str(client.models.GetModelStatus(request, SECONDS)))
    assert not [text for text in told if str(server.models) in text]


def state(server, version: int) -> str:
    rows = [line.split() for line in said(server, "list").splitlines()]
    states = [row[1] for row in rows if row[0] == str(version)]
    return states[0] if states else "missing"


def test_a_version_that_failed_to_load_is_called_failed_until_it_is_unloaded(server):
    broken = server.models / "half" / "8"
    broken.mkdir()
    (broken / "saved_model.pb").write_bytes(b"no model")
    try:
        wait_until(lambda: state(server, 8) == "FAILED")
        assert said(server, "unload", "8") == "version 8 of half is unloaded\n"
        assert state(server, 8) == "END"
        assert "version 8: " not in said(server, "list")
    finally:
        shutil.rmtree(broken)


def test_a_default_a_split_and_a_shadow_are_chosen_and_given_back(server):
    assert "default of half: not chosen -> 1" in said(server, "default", "1")
    assert "default: version 1, as chosen" in said(server, "show")
    assert "default of half: 1 -> 2" in said(server, "default", "latest")
    said(server, "label", "set", "stable", "1")
    assert "5 % to 2" in said(server, "split", "--label", "stable", "--to", "2", "--percent", "5")
    assert "shadow of half: none -> 1" in said(server, "shadow", "1")
    shown = said(server, "show")
    assert "5 % of stable" in shown
    assert "shadow: version 1: 0 agree, 0 differ, 0 dropped, 0 failed" in shown
    assert "5 % to 2 -> none" in said(server, "split", "--label", "stable", "--percent", "0")
    assert "1 -> none" in said(server, "shadow", "off")


def test_list_log_and_verdict_print_json(server):
    listed, logged = (json.loads(said(server, name, "--json")) for name in ("list", "log"))
    assert listed["default_model"] == "half"
    assert "AVAILABLE" in [version["state"] for version in listed["models"][0]["versions"]]
    assert set(logged) == {"switches"}
    assert json.loads(said(server, "verdict", "--json"))["model"] == "half"


def test_what_authors_write_moves_no_cursor(server):
    author = "mallory\x1b[2J\x9b1A\u202e"
    body = {"version": 1, "by": author}
    assert server.post("/api/admin/models/half/shadow", json=body).ok
    line = said(server, "log").splitlines()[0]
    assert "mallory\\x1b[2J\\x9b1A\\u202e" in line
    assert json.loads(said(server, "log", "--json"))["switches"][0]["by"]["name"] == author
    said(server, "undo")


def test_the_log_has_a_line_for_each_switch_and_any_of_them_is_undone_by_its_number(server):
    said(server, "label", "set", "logged", "1")
    newest = said(server, "log").splitlines()[0]
    number = newest.split()[0]
    assert ("label logged of half: none -> 1" in newest, "127.0.0.1" in newest) == (True, True)
    said(server, "default", "1")
    said(server, "undo", number)
    lines = said(server, "log", "--model", "half").splitlines()
    assert f"(undoes {number})" in lines[0]
    assert "(undone by switch " in next(line for line in lines if line.split()[0] == number)
    said(server, "default", "latest")
    assert said(server, "log", "--model", "other") == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["default", "9"], "version 9 of half is not available"),
        (["load", "9"], "half has no version 9"),
        (["undo", "99999"], "there is no switch 99999"),
        (["show", "gone"], "models served here: half"),
        (["label", "set", "a/b", "1"], "label is 'a/b'; expected 1 to 64 of the characters"),
        (["label", "set", "", "1"], "label is ''; expected 1 to 64 of the characters"),
        (["label", "remove", ""], "label is ''; expected 1 to 64 of the characters"),
        (["label", "move", "gamma", "1"], "has no label gamma"),
        (["label", "move", "delta", "2", "--from", "2"], "points to 1, not 2"),
    ],
)
def test_what_the_server_refuses_is_said_in_its_own_sentence(server, arguments, sentence):
    said(server, "label", "set", "delta", "1")
    assert sentence in refusal(server, *arguments)


def test_a_wrong_argument_is_refused_without_asking_the_server():
    for arguments, sentence in (
        (["default", "newest"], 'expected a number, or "latest"'),
        (["shadow", "on"], 'expected a number, or "off"'),
        (["split", "--percent", "5"], "expected --to"),
    ):
        assert sentence in refused(dogsnap("models", *arguments, "--url", "http://127.0.0.1:1"))


def test_on_its_machine_a_server_is_found_with_its_token_and_elsewhere_the_token_is_not_sent(
    start_server, made_half, tmp_path
):
    shutil.copytree(made_half, tmp_path / "half" / "1")
    own = start_server(tmp_path)
    port = {"DOGSNAP_PORT": str(own.port)}
    for where in ((), ("--url", own.url), ("--url", f"http://localhost:{own.port}/")):
        assert "half" in output_of(dogsnap("models", "list", *where, **port))
    link = output_of(dogsnap("console", "--no-open", **port)).strip()
    assert link.startswith(f"http://localhost:{own.port}/console#code=")
    code = {"code": link.partition("#code=")[2]}
    token = own.post("/console/login", json=code).json()["token"]
    assert own.post("/console/login", json=code).status_code == 401
    assert (token in link, token in own.log(), token == find_token(own.port)) == (
        False,
        False,
        True,
    )
    assert find_token(port_here(f"http://192.0.2.7:{own.port}", Settings())) == ""
    assert own.get("/metrics", headers={"Authorization": None}).status_code == 401


def test_a_wrong_token_or_none_is_refused_and_none_is_logged(server):
    assert "expected the header Authorization" in refusal(server, "list", token="")
    assert "the token is not this server's" in refusal(server, "list", token="wrong-one")
    without = server.get("/api/admin/models", headers={"Authorization": None})
    assert (without.status_code, without.headers["WWW-Authenticate"]) == (401, "Bearer")
    told = server.get("/api/admin/models", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (told.status_code, told.headers["Cache-Control"]) == (200, "no-store")
    assert server.get("/api/models").status_code == 200
    assert TOKEN not in server.log()
    assert "wrong-one" not in server.log()


def test_when_no_server_or_another_kind_of_server_answers_it_says_so():
    assert refusal("http://127.0.0.1:1", "list") == (
        "no server answers at http://127.0.0.1:1; start one with `dogsnap serve`, or name another with --url"
    )
    assert "expected http:// or https://" in refusal("no url", "list")
    for url in ("http://me:secret@127.0.0.1:1", "me:secret@127.0.0.1:1", "http://me:secret@h:x"):
        assert "secret" not in refusal(url, "list")
    with StubService() as other:
        assert "answers, but not as a dogsnap server does (status 501)" in refusal(
            other.url, "list"
        )


def test_a_version_that_is_exported_again_into_its_folder_is_noticed_and_loaded_when_told_so(
    start_server, made_half, tmp_path
):
    folder = shutil.copytree(made_half, tmp_path / "half" / "1")
    token = {"DOGSNAP_ADMIN_TOKEN": TOKEN}
    server = start_server(tmp_path, "--poll-seconds", "0.2", environ=token)
    note = "its folder holds another export than the one that answers"

    def answer() -> float:
        predictions = server.post("/v1/models/half:predict", json={"instances": [2.0]}).json()
        return predictions["predictions"][0]

    def is_noticed() -> bool:
        return note in said(server, "list")

    before = answer()
    for file in folder.rglob("*"):
        file.touch()  # the same export with other times is not another one
    tiny_models.half_plus(7, tmp_path / "made")
    shutil.copytree(tmp_path / "made", folder, dirs_exist_ok=True)
    wait_until(is_noticed)
    assert f"half version 1: {note}; `dogsnap models load 1 --model half` takes it" in server.log()
    assert server.log().count(note) == 1
    assert answer() == before
    assert "is available" in said(server, "load", "1", "--model", "half")
    assert (answer(), is_noticed()) == (8.0, False)
    (folder / "saved_model.pb").write_bytes(b"damaged")
    wait_until(is_noticed)
    assert "it answers as it was loaded before, since loading it again failed: " in refusal(
        server, "load", "1", "--model", "half"
    )
    assert answer() == 8.0
    shutil.copytree(tmp_path / "made", folder, dirs_exist_ok=True)
    wait_until(lambda: not is_noticed())
