"""A version in the shadow sees the same photos, is counted, and can neither delay nor fail an answer."""

import base64
import re
import shutil
import threading
from functools import partial

import pytest
from dogsnap.routing.choices import Change
from dogsnap.routing.planners import change_shadow
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.switch_log import Who
from dogsnap.serving.inference.shadow import PLACES, Shadow
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.repository.local_repository import LocalRepository
from dogsnap.serving.repository.switcher import Switcher
from dogsnap.serving.versions.description import DESCRIPTION_FILE
from dogsnap.serving.versions.model_configs import ModelFolders
from support import colour_photos, tiny_models
from support.waiting import wait_until

pytestmark = pytest.mark.early

PHOTO = colour_photos.encode(colour_photos.plain(), "JPEG")


@pytest.fixture(scope="module")
def models(tmp_path_factory, colour_models):
    """Versions 1 and 2 agree; version 3 calls red green and green red; version 4 has labels, but takes no photos."""
    folder = tmp_path_factory.mktemp("models")
    dogs = shutil.copytree(colour_models / "inception_v3", folder / "dogs")
    tiny_models.confused(dogs / "2", 3)
    tiny_models.several(dogs / "4")
    (dogs / "4" / DESCRIPTION_FILE).parent.mkdir()
    shutil.copy(dogs / "3" / DESCRIPTION_FILE, dogs / "4" / DESCRIPTION_FILE)
    return folder


def counts(server, shadow: int) -> dict[str, int]:
    """By result, from /metrics."""
    text = server.get("/metrics").text
    lines = re.findall(r"^dogsnap_shadowed_photos_total\{(.*)\} ([\d.]+)$", text, re.M)
    found = [(dict(re.findall(r'(\w+)="(\w*)"', labels)), float(value)) for labels, value in lines]
    return {
        labels["result"]: int(value)
        for labels, value in found
        if labels["shadow"] == str(shadow) and value
    }


def cast(server, version: int | None) -> None:
    server.post("/api/admin/models/dogs/shadow", json={"version": version}).raise_for_status()


def classify(server, version: int) -> str:
    answer = server.classify(PHOTO, version=version).json()
    assert answer["model"]["version"] == version
    return answer["breeds"][0]["name"]


def described(server) -> dict:
    return server.get("/api/admin/models/dogs").json()["model"]


@pytest.mark.parametrize(("shadow", "result"), [(1, "agree"), (3, "differ"), (4, "failed")])
def test_agreement_is_counted_and_the_answer_is_that_of_the_version_asked(server, shadow, result):
    cast(server, shadow)
    for count in (1, 2):
        assert classify(server, 2) == "red dog"
        wait_until(lambda count=count: counts(server, shadow) == {result: count})
    expected = {"agree": 0, "differ": 0, "dropped": 0, "failed": 0, "version": shadow, result: 2}
    assert described(server)["shadow"] == expected


def test_figures_of_a_version_end_with_it_when_it_is_exported_again_under_its_number(
    start_server, models, tmp_path
):
    dogs = shutil.copytree(models / "dogs", tmp_path / "models" / "dogs")
    server = start_server(tmp_path / "models", "--poll-seconds", "0.2")
    cast(server, 3)
    classify(server, 2)
    wait_until(lambda: counts(server, 3) == {"differ": 1})
    told = server.get("/api/admin/verdict?model=dogs").json()["shadow"]
    assert [each["times"] for each in told["differences"]] == [1]
    shutil.copytree(dogs / "2", tmp_path / "new")
    (dogs / "3").rename(tmp_path / "old")
    (tmp_path / "new").rename(dogs / "3")

    def note() -> str:
        model = server.get("/api/admin/models/dogs").json()["model"]
        return next(each["note"] for each in model["versions"] if each["version"] == 3)

    wait_until(note)
    assert counts(server, 3) == {"differ": 1}  # it still answers
    server.post("/api/admin/models/dogs/versions/3/load", json={}).raise_for_status()
    wait_until(lambda: not note())
    told = server.get("/api/admin/verdict?model=dogs").json()["shadow"]
    assert (counts(server, 3), told["differences"]) == ({}, [])
    classify(server, 2)
    wait_until(lambda: counts(server, 3) == {"agree": 1})


def test_photos_that_come_as_tensors_are_seen_too(server):
    cast(server, 3)
    before = counts(server, 3).get("differ", 0)
    body = {
        "instances": [{"b64": base64.b64encode(PHOTO).decode()}] * 3,
        "signature_name": "image_bytes",
    }
    assert server.post("/v1/models/dogs/versions/2:predict", json=body).status_code == 200
    wait_until(lambda: counts(server, 3).get("differ", 0) == before + 3)


def test_the_shadow_sees_neither_its_own_answers_nor_those_without_a_shadow_and_is_not_counted_as_a_request(
    server,
):
    cast(server, None)
    before = {version: counts(server, version) for version in (1, 3, 4)}
    classify(server, 2)
    cast(server, 1)
    classify(server, 1)
    classify(server, 2)  # photos are shown in their order
    wait_until(lambda: counts(server, 1) != before[1])
    after = {version: counts(server, version) for version in (1, 3, 4)}
    assert after == {**before, 1: {**before[1], "agree": before[1].get("agree", 0) + 1}}
    assert {each["version"]: each["requests"] for each in described(server)["versions"]}[4] == 0


@pytest.fixture(scope="module")
def half_server(start_server, tmp_path_factory):
    """1 and 2 add nearly the same to a half, 3 something else, and 4 takes text."""
    folder = tmp_path_factory.mktemp("models") / "half"
    for number, added in ((1, 1), (2, 1.001), (3, 5)):
        tiny_models.half_plus(added, folder / str(number))
    tiny_models.texts(folder / "4")
    server = start_server(folder.parent)
    body = {"version": 1, "force": True}  # 4, the largest, takes other inputs
    server.post("/api/admin/models/half/default", json=body).raise_for_status()
    return server


def halve_beside(server, shadow: int) -> list[str]:
    """What is noted when this shadow is set, which then sees two numbers."""
    set_it = server.post("/api/admin/models/half/shadow", json={"version": shadow})
    body = {"instances": [1.0, 8.0]}
    server.post("/v1/models/half/versions/1:predict", json=body).raise_for_status()
    return set_it.json()["notes"]


@pytest.mark.parametrize(("shadow", "result"), [(2, "agree"), (3, "differ")])
def test_numbers_agree_within_a_hundredth(half_server, shadow, result):
    before = counts(half_server, shadow).get(result, 0)
    assert halve_beside(half_server, shadow) == []
    wait_until(lambda: counts(half_server, shadow).get(result, 0) == before + 2)


def test_a_shadow_that_is_never_asked_is_noted_when_it_is_set(half_server):
    assert halve_beside(half_server, 4) == [
        "version 4 gets no copies of what version 1 answers: no signature of both has the same "
        "inputs"
    ]


class ShadowedRepository:
    """A repository with version 2 answering and version 1 in the shadow, and a shadow that can be told to be busy."""

    def __init__(self, models):
        self.metrics = Metrics()
        self.repository = LocalRepository(ModelFolders(models), self.metrics)
        self.repository.scan(skip_settling=True)
        plan = Switcher(self.repository).plan({"dogs": partial(change_shadow, version=1)})
        Switcher(self.repository).apply(plan, Who("alice"))
        self.busy = False
        self.shadow = Shadow(self.repository, self.metrics, lambda: self.busy)

    def offer(self, run) -> None:
        with self.repository.acquire(ModelSpec("dogs", 2)) as servable:
            outputs = servable.run_photos(servable.photo_signature(), [PHOTO])
            self.shadow.offer(servable, outputs, run)

    def count(self, result: str, shadow: int = 1) -> float:
        labels = {"model": "dogs", "version": "2", "shadow": str(shadow), "result": result}
        return self.metrics.registry.get_sample_value("dogsnap_shadowed_photos_total", labels) or 0


@pytest.fixture
def shadowed(models):
    shadowed = ShadowedRepository(models)
    yield shadowed
    shadowed.shadow.close()


def rerun(servable):
    return servable.run_photos(servable.photo_signature(), [PHOTO])


def test_a_slow_shadow_delays_no_request_and_the_photos_it_has_no_time_for_are_dropped(shadowed):
    go_on, begun = threading.Event(), threading.Event()

    def slow(servable):
        begun.set()
        go_on.wait()  # without an end: an offer that waited for it would never come back
        return rerun(servable)

    shadowed.offer(slow)
    assert begun.wait(120)
    for _ in range(PLACES + 3):
        shadowed.offer(slow)
    assert shadowed.count("dropped") == 3
    go_on.set()
    wait_until(lambda: shadowed.count("agree") == 1 + PLACES)


def test_a_shadow_that_raises_or_is_gone_fails_no_answer_and_a_busy_server_shows_it_nothing(
    shadowed, caplog
):
    def broken(servable):
        raise ZeroDivisionError("broken on purpose")

    shadowed.offer(broken)
    wait_until(lambda: shadowed.count("failed") == 1)
    assert "failed: broken on purpose" in caplog.text
    shadowed.busy = True
    shadowed.offer(rerun)
    assert shadowed.count("dropped") == 1
    shadowed.busy = False
    shadowed.offer(rerun)
    wait_until(lambda: shadowed.count("agree") == 1)
    gone = Change("dogs", "shadow", "", 1, 99)  # which has disappeared
    shadowed.repository.chosen.switch(lambda: [gone], Who("alice"))
    shadowed.offer(rerun)
    wait_until(lambda: shadowed.count("failed", 99) == 1)
