"""What is chosen is exported as YAML and applied again: idempotent, by one switch, and refused if it is wrong."""

import shutil
from pathlib import Path

import pytest
import yaml
from support.command_line import dogsnap, output_of, refused
from support.refusals import assert_refused
from support.tiny_models import half_plus
from support.waiting import wait_until

STATE = """
format: 1
models:
  half:
    default: 1
    labels: {stable: 1, canary: 2}
    splits: [{label: stable, version: 2, percent: 5}, {version: 2, percent: 10}]
    shadow: 2
    loaded: [3]
    unloaded: []
  other:
    labels: {live: 1}
"""


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for number in (1, 2, 3):
        half_plus(number, folder / "half" / str(number))
    half_plus(1, folder / "other" / "1")
    return start_server(folder)


@pytest.fixture
def run(server, tmp_path):
    """Runs `dogsnap models`; `state` is written to the file that `apply` reads."""

    def run(*arguments: str, state: str = ""):
        file = Path(tmp_path / "state.yaml")
        file.write_text(state)
        named = [str(file) if argument == "FILE" else argument for argument in arguments]
        return dogsnap("models", *named, "--url", server.url)

    return run


def newest(server) -> int:
    switches = server.get("/api/admin/switches").json()["switches"]
    return switches[0]["id"] if switches else 0


def test_a_state_is_applied_by_one_switch_which_undo_takes_back_and_twice_changes_nothing(
    server, run
):
    before, id_before = output_of(run("export")), newest(server)
    would = output_of(run("apply", "FILE", "--dry-run", state=STATE))
    assert "would change split of label stable of half: none -> 5 % to 2" in would
    assert newest(server) == id_before
    made = output_of(run("apply", "FILE", state=STATE))
    assert "default of half: not chosen -> 1" in made
    assert "label live of other: none -> 1" in made
    assert newest(server) == id_before + 1
    assert "nothing to change" in output_of(run("apply", "FILE", state=STATE))
    exported = output_of(run("export"))
    wanted, found = yaml.safe_load(STATE), yaml.safe_load(exported)
    assert found["models"]["half"].pop("splits") == list(
        reversed(wanted["models"]["half"].pop("splits"))
    )
    assert found["models"]["half"] == wanted["models"]["half"]
    assert found["models"]["other"]["labels"] == {"live": 1}
    assert "nothing to change" in output_of(run("apply", "FILE", state=exported))
    output_of(run("undo"))
    assert output_of(run("export")) == before
    assert newest(server) == id_before + 2


def test_what_is_not_named_stays_and_what_is_named_is_exactly_that(server, run):
    output_of(run("apply", "FILE", state=STATE))
    labels = "format: 1\nmodels: {half: {labels: {canary: 2}}}"
    made = output_of(run("apply", "FILE", state=labels.replace("half", "other")))
    assert "label live of other: 1 -> none" in made
    refused(run("apply", "FILE", state=labels), "label stable of half has a split")
    nothing = "{default: null, labels: {}, splits: [], shadow: null, loaded: [], unloaded: []}"
    empty = f"format: 1\nmodels: {{half: {nothing}, other: {nothing}}}"
    output_of(run("apply", "FILE", state=empty))
    state = server.get("/api/admin/state").json()
    assert state["models"]["half"] == yaml.safe_load(nothing)


def test_a_default_of_null_is_the_largest_then_compared_with_the_one_before_and_stays(
    start_server, tmp_path
):
    made = tmp_path / "made"
    half_plus(1, made / "half" / "1")
    server = start_server(made, "--poll-seconds", "0.2")
    for number in (2, 3):
        half_plus(number, made / "half" / str(number))
        wait_until(lambda number=number: version_there(server, number))
    wanted = {"format": 1, "models": {"half": {"default": None}}}

    def apply(**fields) -> dict:
        answer = server.post("/api/admin/apply", json={"state": wanted, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert (apply()["switch"], answering(server)) == (None, 1)
    server.post("/api/admin/models/half/default", json={"version": 1}).raise_for_status()
    assert apply(dry_run=True)["would"] == ["default of half: 1 -> not chosen"]
    apply()
    assert answering(server) == 3
    half_plus(4, made / "half" / "4")
    wait_until(lambda: version_there(server, 4))
    assert (apply()["switch"], answering(server)) == (None, 3)
    server.post("/api/admin/undo", json={}).raise_for_status()
    assert answering(server) == 1


def version_there(server, number: int) -> bool:
    answer = server.get(f"/v1/models/half/versions/{number}")
    return answer.ok and answer.json()["model_version_status"][0]["state"] == "AVAILABLE"


def answering(server) -> int:
    answer = server.post("/v1/models/half:predict", json={"instances": [2.0]})
    return int(answer.headers["X-Dogsnap-Model-Version"])


def test_a_state_unloads_what_it_no_longer_uses_and_nothing_that_it_uses(server, run):
    moves = "format: 1\nmodels: {half: {default: %d, labels: {stable: %d}, unloaded: [3]}}"
    output_of(run("apply", "FILE", state=(moves % (3, 3)).replace("[3]", "[]")))
    refused(run("apply", "FILE", state=moves % (3, 2)), "version 3 of half is in use: default;")
    refused(run("apply", "FILE", state=moves % (1, 3)), "version 3 of half is in use: stable;")
    made = output_of(run("apply", "FILE", state=moves % (1, 2)))
    assert "default of half: 3 -> 1; label stable of half: 3 -> 2; version 3 of half" in made
    refused(run("undo"), "version 3 of half is not available")  # it would have to be loaded first
    output_of(run("apply", "FILE", state=(moves % (1, 2)).replace("[3]", "[], loaded: []")))


def test_what_is_as_wanted_stays_where_its_version_is_gone_since(start_server, tmp_path):
    for number in (1, 2):
        half_plus(number, tmp_path / "half" / str(number))
    server = start_server(tmp_path, "--poll-seconds", "0.1")

    def state() -> dict:
        return server.get("/api/admin/state").json()

    def apply(state: dict):
        return server.post("/api/admin/apply", json={"state": state})

    wanted = {
        "labels": {"canary": 2, "stable": 1},
        "splits": [{"version": 2, "percent": 5}, {"label": "stable", "version": 2, "percent": 5}],
        "shadow": 2,
        "loaded": [2],
    }
    apply({"format": 1, "models": {"half": wanted}}).raise_for_status()
    shutil.rmtree(tmp_path / "half" / "2")
    wait_until(lambda: "unloaded half version 2" in server.log())
    kept = state()
    assert apply(kept).json()["switch"] is None
    kept["models"]["half"]["labels"] = {"stable": 1}
    assert apply(kept).json()["switch"]["text"] == "label canary of half: 2 -> none"
    kept["models"]["half"]["splits"] = [{"version": 2, "percent": 6}]
    refusal = "version 2 of half is not available; available: 1"
    assert_refused(apply(kept), 400, refusal)


def test_a_model_that_was_unloaded_is_exported_and_applied_as_such(server, run):
    unloaded = "format: 1\nmodels: {other: {served: false}}"
    assert "all versions of other" in output_of(run("apply", "FILE", state=unloaded))
    assert yaml.safe_load(output_of(run("export")))["models"]["other"]["served"] is False
    output_of(run("apply", "FILE", state=unloaded.replace("false", "true")))
    assert "served" not in yaml.safe_load(output_of(run("export")))["models"]["other"]
    wait_until(lambda: server.get("/v2/models/other/ready").ok)


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("", "None is not of type 'object'"),
        ("format: 2\nmodels: {}", "has format 2, this release reads 1: a newer release wrote it"),
        ("models: {}", "'format' is a required property"),
        ("format: 1\nmodels: {half: {label: 1}}", "wrong: models.half: Additional properties"),
        ("format: 1\nmodels: {half: {default: x}}", "wrong: models.half.default"),
        ("format: 1\nmodels: {half: {default: 1.0}}", "wrong: models.half.default"),
        ("format: 1\nmodels: {half: {labels: {x: 2.0}}}", "2.0 is not of type 'integer'"),
        ("format: 1\nmodels: {half: {splits: [{version: 2}]}}", "'percent' is a required property"),
        (
            "format: 1\nmodels: {half: {splits: [{version: 2, percent: 101}]}}",
            "101 is greater than",
        ),
        (
            "format: 1\nmodels: {half: {labels: {on: 1}}}",
            "half.labels: True is not of type 'string'",
        ),
        ("format: 1\nmodels: {half: {loaded: [1], unloaded: [1]}}", "twice"),
        ("format: 1\nmodels: {half: {default: 9}}", "version 9 of half is not available"),
        ("format: 1\nmodels: {gone: {default: 1}}", "gone"),
        ("format: 1\nmodels: {'': {labels: {x: 1}}}", "Latest(); models served here"),
        ("format: 1\nmodels: {half: {unloaded: [1, 2, 3]}}", "in use"),
        ("a: [", "is no YAML"),
        ("a: \x00", "is no YAML"),
    ],
)
def test_a_wrong_state_is_refused_with_its_place_and_changes_nothing(server, run, state, sentence):
    before = newest(server)
    refused(run("apply", "FILE", state=state), sentence)
    assert newest(server) == before
