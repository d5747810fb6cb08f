"""The repository: loads beside, warms up, switches, unloads after the last request, and survives whatever lies in a folder."""

import dataclasses
import logging
import re
import shutil
import time
from functools import partial
from pathlib import Path

import pytest
import tensorflow as tf
from dogsnap.commands.helpers.local_models import only_model
from dogsnap.errors import Aborted, FailedPrecondition, InvalidArgument, NotFound, Unavailable
from dogsnap.routing.planners import change_load
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.switch_log import Who
from dogsnap.serving.assembly import create_predictor
from dogsnap.serving.repository.local_repository import LocalRepository
from dogsnap.serving.repository.model import State
from dogsnap.serving.repository.switcher import Switcher
from dogsnap.serving.versions.model_configs import configs_in_file, model_source
from dogsnap.serving.versions.warmup import RECORDS_FILE
from dogsnap.settings import Settings
from support import tensorflow1_models, tiny_models
from support.waiting import wait_until
from support.watched_models import WatchedModels
from tensorflow_serving.apis import prediction_log_pb2


@pytest.fixture
def watched(made_half, tmp_path) -> WatchedModels:
    return WatchedModels(made_half, tmp_path / "models")


def test_the_largest_number_is_the_latest_and_what_is_not_there_is_not_found_naming_what_is(
    watched,
):
    with pytest.raises(Unavailable, match="still starting"):
        watched.answers()
    assert watched.repository.not_ready() == "the models are still loading"
    watched.put(2, 9, 10)
    watched.scan()
    assert watched.answers() == 10
    assert [watched.answers(number) for number in (2, 9, 10)] == [2, 9, 10]
    assert list(watched.states()) == [10, 9, 2]
    with pytest.raises(
        NotFound, match=r"not found for request: Specific\(half, 4\); available versions: 10, 9, 2"
    ):
        watched.answers(4)
    said = r"Servable not found for request: Latest\(whole\); models served here: half"
    with pytest.raises(NotFound, match=said), watched.repository.acquire(ModelSpec("whole")):
        pass


def test_a_removed_version_is_unloaded_by_its_last_request_without_a_scan_and_comes_back_when_it_is_put_back(
    watched,
):
    watched.put(1, 2)
    watched.repository.start(poll_seconds=30)
    wait_until(lambda: not watched.repository.not_ready())
    with watched.repository.acquire(ModelSpec("half", 2)) as servable:
        watched.remove(2)
        watched.repository.scan_soon()
        wait_until(lambda: watched.states()[2] == State.UNLOADING)
        assert watched.answers() == 1
        with pytest.raises(NotFound):
            watched.answers(2)
        assert servable.run(servable.signature(), {"x": [2.0]})["y"].tolist() == [3.0]
    wait_until(lambda: watched.states() == {1: State.AVAILABLE})
    watched.put(2)
    whole = {2: State.AVAILABLE, 1: State.AVAILABLE}
    wait_until(lambda: watched.repository.scan_soon() or watched.states() == whole)
    watched.repository.close()


def load_version_2(repository: LocalRepository) -> None:
    plan = Switcher(repository).plan({"half": partial(change_load, version=2, value=True)})
    Switcher(repository).apply(plan, Who("somebody"))


def test_a_plan_of_what_is_chosen_no_more_is_refused_also_where_no_switch_is_known(watched):
    watched.put(1, 2)
    watched.repository.scan(skip_settling=True)
    plan = watched.switcher.plan({"half": partial(change_load, version=2, value=True)})
    with pytest.raises(Aborted, match="what is chosen has changed meanwhile; look at it"):
        watched.switcher.apply(dataclasses.replace(plan, changes=()), Who("somebody"))


def test_without_polling_a_version_is_loaded_when_somebody_asks_for_it(watched):
    watched.config_text = "model_version_policy { specific { versions: 1 } }"
    watched.put(1)
    watched.repository.start(poll_seconds=0)
    wait_until(lambda: not watched.repository.not_ready())
    version = watched.put(2)
    graph = (version / "saved_model.pb").rename(version / "still_coming")
    said = r"version 2 of half cannot be loaded: .*/half/2 lacks saved_model\.pb"
    with pytest.raises(FailedPrecondition, match=said):
        load_version_2(watched.repository)
    graph.rename(version / "saved_model.pb")
    load_version_2(watched.repository)
    wait_until(lambda: watched.repository.available("half") == [2, 1], 30)
    watched.repository.close()


def test_a_model_folder_that_appears_or_goes_is_followed(watched):
    watched.put(1)
    watched.scan()
    shutil.copytree(watched.models / "half", watched.models / "other")
    watched.scan()
    assert watched.repository.models() == ["half", "other"]
    shutil.rmtree(watched.models / "other")
    watched.scan()
    assert watched.repository.models() == ["half"]
    with pytest.raises(NotFound), watched.repository.acquire(ModelSpec("other")):
        pass


def test_a_model_is_called_as_its_entry_whatever_that_links_to_and_goes_with_it(watched, tmp_path):
    for release in ("7", "8"):
        shutil.copytree(watched.made, tmp_path / "releases" / release / "1")
    link = watched.models / "dog"
    link.symlink_to(tmp_path / "releases/7")
    watched.put(1)
    source = model_source(Settings(models=watched.models))
    assert {config.name for config in source()} == {"dog", "half"}
    link.unlink()
    link.symlink_to(tmp_path / "releases/8")
    dog, _ = source()
    assert (dog.name, dog.base_path) == ("dog", str(tmp_path / "releases/8"))
    for one_model in (Settings(models=link), Settings(model_base_path=str(link))):
        assert [config.name for config in model_source(one_model)()] == ["dog"]
        assert only_model(one_model) == "dog"
    link.unlink()
    assert [config.name for config in source()] == ["half"]


def test_a_version_is_not_picked_up_while_a_file_is_missing_or_still_changes(watched):
    watched.put(1)
    watched.scan()
    made, target = watched.made, watched.models / "half" / "2"
    (target / "variables").mkdir(parents=True)
    shutil.copy(made / "saved_model.pb", target)
    shutil.copy(made / "variables" / "variables.index", target / "variables")
    shard = target / "variables" / "variables.data-00001-of-00002"
    for missing in (
        "half/2 lacks variables/variables.data-*;",
        "lacks some of the 2 files variables/variables.data-*;",
    ):
        for _ in range(3):
            watched.scan(trust=False)
            assert (watched.answers(), watched.states()[2]) == (1, State.START)
            assert missing in watched.repository.status(ModelSpec("half", 2))[0].error
            with pytest.raises(Unavailable, match=re.escape(missing)):
                watched.answers(2)
        shard.touch()
    shard.unlink()
    shutil.copy(made / "variables" / "variables.data-00000-of-00001", target / "variables")
    for number in range(3):
        (target / "variables" / f"{number}.json").write_text("{}", encoding="utf-8")
        watched.scan(trust=False)
        assert watched.states()[2] == State.START
        assert watched.repository.status(ModelSpec("half", 2))[0].error == ""
    watched.scan(trust=False)
    assert watched.answers(2) == 2


def test_a_version_that_failed_is_tried_again_after_a_while(
    made_half, tmp_path, caplog, monkeypatch
):
    watched = WatchedModels(made_half, tmp_path / "models", retry_seconds=60)
    later, now = 0.0, time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + later)
    watched.put(2)
    graph = watched.models / "half" / "2" / "saved_model.pb"
    graph.write_bytes(b"no graph")
    watched.scan()
    assert watched.repository.not_ready() == "no version available of: half"
    with pytest.raises(NotFound, match="none of its versions is available"):
        watched.answers()
    watched.put(1)
    with caplog.at_level(logging.ERROR, logger="dogsnap.repository"):
        for _ in range(3):
            watched.scan()
        assert caplog.text.count("half version 2 failed to load") == 1
        later = 60.0
        watched.scan()
        assert caplog.text.count("half version 2 failed to load") == 2
    (status, _) = watched.repository.status(ModelSpec("half"))
    assert (status.version, status.state, bool(status.error)) == (2, State.END, True)
    assert status.to_json()["state"] == "FAILED"
    with pytest.raises(NotFound, match="it failed to load"):
        watched.answers(2)
    assert (watched.answers(), watched.repository.not_ready()) == (1, "")
    shutil.copy(watched.made / "saved_model.pb", graph)
    watched.scan()
    assert (watched.answers(2), watched.answers()) == (2, 1)


def test_it_is_ready_without_a_model_that_was_only_found_and_never_ready(made_half, tmp_path):
    models = tmp_path / "models"
    shutil.copytree(made_half, models / "half" / "1")
    graph = models / "broken" / "1" / "saved_model.pb"
    graph.parent.mkdir(parents=True)
    graph.write_bytes(b"no graph")

    def scanned(**settings) -> LocalRepository:
        repository = create_predictor(Settings(models=models, **settings)).repository
        repository.scan(skip_settling=True)
        return repository

    found = scanned()
    assert found.not_ready() == ""
    with pytest.raises(NotFound, match="broken version 1 failed to load: "):
        found.acquire(ModelSpec("broken")).__enter__()
    assert scanned(default_model="broken").not_ready() == "no version available of: broken"
    assert scanned(default_model="other").not_ready() == ""
    file = tmp_path / "models.config"
    configs = [
        f"config {{ name: '{each}' base_path: '{models / each}' }}" for each in ("half", "broken")
    ]
    file.write_text(f"model_config_list {{ {' '.join(configs)} }}")
    assert scanned(model_config_file=str(file)).not_ready() == "no version available of: broken"


def test_a_model_that_was_ready_before_a_restart_is_missed(made_half, tmp_path):
    models = tmp_path / "models"
    for name in ("half", "other"):
        shutil.copytree(made_half, models / name / "1")
    settings = Settings(models=models, switch_log=str(tmp_path / "switches"))
    before = create_predictor(settings).repository
    before.scan(skip_settling=True)
    assert before.not_ready() == ""
    (models / "other" / "1" / "saved_model.pb").write_bytes(b"no graph")
    after = create_predictor(settings).repository
    after.scan(skip_settling=True)
    assert after.not_ready() == "no version available of: other"


def of_input(alias: str) -> prediction_log_pb2.PredictionLog:
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.inputs[alias].CopyFrom(tf.make_tensor_proto([1.0, 2.0]))
    return log


def of_example(value: float) -> prediction_log_pb2.PredictionLog:
    log = prediction_log_pb2.PredictionLog()
    log.regress_log.request.model_spec.signature_name = "regress_x_to_y"
    features = log.regress_log.request.input.example_list.examples.add().features
    features.feature["x"].float_list.value.append(value)
    return log


def write_records(version: Path, record: prediction_log_pb2.PredictionLog, count: int = 1) -> None:
    (version / "assets.extra").mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(version / RECORDS_FILE)) as writer:
        for _ in range(count):
            writer.write(record.SerializeToString())


def to_classify(value: float) -> prediction_log_pb2.PredictionLog:
    log = prediction_log_pb2.PredictionLog()
    log.classify_log.request.model_spec.signature_name = "classify_x_to_y"
    features = log.classify_log.request.input.example_list.examples.add().features
    features.feature["x"].float_list.value.append(value)
    return log


HALVES_OF_EXAMPLES = {
    "TensorFlow 1": tensorflow1_models.half_plus_two,
    "TensorFlow 2": tiny_models.half_plus_two_of_examples,
}
RECORDS = {"predict": of_input("x"), "regress": of_example(1.0), "classify": to_classify(1.0)}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize("make", HALVES_OF_EXAMPLES.values(), ids=HALVES_OF_EXAMPLES)
def test_the_warm_up_records_run_before_a_version_answers(watched, caplog, make, record):
    write_records(make(watched.models / "half" / "1"), record, count=3)
    with caplog.at_level(logging.INFO, logger="dogsnap.repository"):
        watched.scan()
    assert watched.answers() == 1
    assert "(3 warm-up records)" in caplog.text


@pytest.mark.parametrize(
    ("alias", "count", "reason"),
    [("z", 1, "z"), ("x", 1001, "Number of warmup records exceeds the maximum (1000)")],
)
def test_a_warm_up_that_fails_fails_the_load(watched, alias, count, reason):
    watched.put(1, 2)
    write_records(watched.models / "half" / "2", of_input(alias), count)
    watched.scan()
    assert watched.answers() == 1
    assert reason in watched.repository.status(ModelSpec("half", 2))[0].error


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("", [3, 2, 1]),
        ("all {}", [3, 2, 1]),
        ("latest { num_versions: 2 }", [3, 2]),
        ("latest {}", [3]),
        ("specific { versions: 1 versions: 3 versions: 7 }", [3, 1]),
    ],
)
def test_a_policy_says_which_versions_are_served(watched, policy, served):
    watched.config_text = policy and f"model_version_policy {{ {policy} }}"
    watched.put(1, 2, 3)
    watched.scan()
    assert list(watched.states()) == served


def test_with_latest_the_old_version_goes_once_the_new_one_answers(watched):
    watched.config_text = "model_version_policy { latest { num_versions: 1 } }"
    watched.put(1)
    watched.scan()
    graph = watched.put(2) / "saved_model.pb"
    graph.write_bytes(b"no graph")
    watched.scan()
    assert watched.answers() == 1
    shutil.copy(watched.made / "saved_model.pb", graph)
    for _ in range(2):
        watched.scan()
    assert watched.answers() == 2
    with pytest.raises(NotFound):
        watched.answers(1)


def test_a_label_for_a_version_that_is_not_there_waits_for_it_and_says_so(watched):
    watched.config_text = (
        "version_labels { key: 'stable' value: 1 } version_labels { key: 'canary' value: 2 }"
    )
    watched.put(1)
    watched.scan()
    assert watched.answers(label="stable") == 1
    with pytest.raises(Unavailable, match="label canary of half waits for version 2"):
        watched.answers(label="canary")
    assert watched.repository.labels("half") == ({"stable": 1}, {"canary": 2})
    watched.put(2)
    watched.scan()
    assert watched.answers(label="canary") == 2
    assert watched.repository.labels("half") == ({"stable": 1, "canary": 2}, {})


@pytest.fixture
def moved(watched, tmp_path) -> WatchedModels:
    """Its model half was just given another base path, where version 1 is x / 2 + 3."""
    watched.put(1)
    watched.scan()
    tiny_models.half_plus(3, tmp_path / "moved" / "half" / "1")
    watched.models = tmp_path / "moved"
    return watched


def test_until_the_new_base_path_can_be_loaded_the_old_version_answers_and_the_status_says_why(
    moved,
):
    folder = moved.models / "half" / "1"
    index = (folder / "variables" / "variables.index").rename(moved.models / "kept")
    for _ in range(3):  # it is still being copied
        moved.scan(trust=False)
        assert moved.computes() == 2.0
    index.rename(folder / "variables" / "variables.index")
    graph = (folder / "saved_model.pb").read_bytes()
    (folder / "saved_model.pb").write_bytes(b"no graph")
    moved.scan()
    assert moved.computes() == 2.0
    (status,) = moved.repository.status(ModelSpec("half"))
    assert status.state == State.AVAILABLE
    assert status.error.startswith(
        "it answers from its old base path, since loading it from the new one failed: "
    )
    (folder / "saved_model.pb").write_bytes(graph)
    for _ in range(2):
        moved.scan(trust=False)
    assert moved.computes() == 3.0
    assert [each.error for each in moved.repository.status(ModelSpec("half"))] == [""]


ONE = "name: 'a' base_path: '/a'"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "protobuf's text format.*: there is no model_config_list in it"),
        ("# to be written", "there is no model_config_list in it"),
        ("custom_model_config {}", "there is no model_config_list in it"),
        ("{}", r'expected \{"model_config_list": \[\{"name"'),
        ("model_config_list { config { nam: 'a' } }", "protobuf's text format"),
        ("model_config_list { config { name: 'a' } }", "expected a name and a base_path"),
        (
            "model_config_list {" + 2 * f"config {{ {ONE} }}" + "}",
            "Illegal to list model a multiple times",
        ),
        (
            f"model_config_list {{ config {{ {ONE} model_platform: 'torch' }} }}",
            "model_platform tensorflow",
        ),
        ('{"model_config_list": {"name": "a"}}', r'expected \{"model_config_list": \[\{"name"'),
        ('{"model_config_list": [', "Simple TensorFlow Serving's JSON: Expecting value"),
        (
            '{"model_config_list": [{"name": "a", "base_path": 7}]}',
            "JSON: Failed to parse base_path",
        ),
        (
            '{"model_config_list": [{"name": "a", "base_path": "/a", "platform": "onnx"}]}',
            "model_platform tensorflow",
        ),
        (
            '{"model_config_list": [{"name": "a", "base_path": "/a", "custom_op_paths": ["x"]}]}',
            'has no field named "custom_op_paths"',
        ),
    ],
)
def test_a_wrong_configuration_is_refused_saying_why(tmp_path, text, sentence):
    file = tmp_path / "models.config"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidArgument, match=sentence):
        configs_in_file(file)


def test_a_configuration_without_a_list_changes_nothing_and_is_logged_and_an_empty_list_ends_all(
    watched, tmp_path, caplog
):
    file = tmp_path / "models.config"
    half = f"config {{ name: 'half' base_path: '{watched.models / 'half'}' }}"
    file.write_text(f"model_config_list {{ {half} }}")
    watched.put(1)
    source = model_source(Settings(model_config_file=str(file)))
    repository = LocalRepository(source)
    repository.scan(skip_settling=True)
    file.write_text("\n")
    for _ in range(2):
        repository.scan_safely()
    assert repository.available("half") == [1]
    assert caplog.text.count(f"{file}: expected a model_config_list") == 1
    file.write_text("model_config_list {}")
    repository.scan_safely()
    assert repository.models() == []


def test_the_policy_latest_is_for_models_that_have_none(tmp_path):
    file = tmp_path / "models.config"
    own = "config { name: 'a' base_path: '/a' model_version_policy { all {} } }"
    file.write_text(f"model_config_list {{ {own} config {{ name: 'b' base_path: '/b' }} }}")
    configs = model_source(Settings(model_config_file=str(file), version_policy="latest"))()
    assert [each.model_version_policy.WhichOneof("policy_choice") for each in configs] == [
        "all",
        "latest",
    ]


def test_the_json_of_simple_tensorflow_serving_names_models_as_the_text_does(tmp_path):
    text, as_json = tmp_path / "models.config", tmp_path / "model_config_file.json"
    text.write_text(
        "model_config_list { config { name: 'a' base_path: './a' model_platform: 'tensorflow' } }"
    )
    as_json.write_text(
        '{"model_config_list": [{"name": "a", "base_path": "./a", "platform": "tensorflow"}]}'
    )
    assert configs_in_file(as_json) == configs_in_file(text)
