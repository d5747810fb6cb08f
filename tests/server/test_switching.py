"""At full load a version appears, a label moves to it and back, and the version disappears: no request fails.

Each is answered by a version that was current while it was on its way; version n of `half` computes x / 2 + n.
"""

import itertools
import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest
import requests
import tensorflow as tf
from support import colour_photos, tiny_models
from support.grpc_client import Client, connected, predict_request
from support.waiting import wait_until

CLIENTS = 6  # threads: enough to keep two processors busy
PHOTO = colour_photos.encode(colour_photos.plain(), "JPEG")
STABLE, DEFAULT = "stable", ""


class Answer(NamedTuple):
    """One request: what it asked for, when it was sent and answered (seconds since 1970), and by which version."""

    model: str
    label: str
    sent: float
    received: float
    version: int


class Load:
    """Clients of every protocol, asking for a label and for the default until enough was asked and the switching is over."""

    def __init__(self, server, wanted: int):
        self.server, self.wanted, self.switching = server, wanted, True
        self.answers: list[Answer] = []
        self._pool = ThreadPoolExecutor(CLIENTS)

    def __enter__(self) -> "Load":
        self._clients = [self._pool.submit(self._client, number) for number in range(CLIENTS)]
        return self

    def __exit__(self, *_: object) -> None:
        self.switching = False
        for client in self._clients:
            client.result()

    def go_on(self, share: float) -> None:
        """Wait until this share of the requests was answered from now on, so that every step meets its part of the load."""
        enough = len(self.answers) + share * self.wanted
        wait_until(
            lambda: len(self.answers) >= enough or any(each.done() for each in self._clients), 300
        )

    def _client(self, number: int) -> None:
        """Ends with the first request that fails."""
        with requests.Session() as session, connected(self.server.grpc_port) as client:
            ask = [
                ("half", STABLE, lambda: by_rest(self.server, session, "/labels/stable")),
                ("half", DEFAULT, lambda: by_rest(self.server, session, "")),
                ("dogs", STABLE, lambda: by_app(self.server, session, {"label": "stable"})),
                ("dogs", DEFAULT, lambda: by_app(self.server, session, {})),
                ("half", STABLE, lambda: by_grpc(client)),
            ]
            for model, label, one in itertools.islice(itertools.cycle(ask), number, None):
                if not self.switching and len(self.answers) >= self.wanted:
                    return
                sent = time.time()
                version = one()
                self.answers.append(Answer(model, label, sent, time.time(), version))


def by_rest(server, session: requests.Session, which: str) -> int:
    response = session.post(
        f"{server.url}/v1/models/half{which}:predict", json={"instances": [4.0]}, timeout=60
    )
    assert response.status_code == 200, response.text
    version = response.json()["predictions"][0] - 2.0
    assert version == float(response.headers["X-Dogsnap-Model-Version"])
    return int(version)


def by_app(server, session: requests.Session, fields: dict) -> int:
    asked = {"params": {"model": "dogs", **fields}, "headers": {"Content-Type": "image/jpeg"}}
    response = session.post(f"{server.url}/api/classify", data=PHOTO, timeout=60, **asked)
    assert response.status_code == 200, response.text
    assert response.json()["breeds"][0]["name"] == "red dog"
    return response.json()["model"]["version"]


def by_grpc(client: Client) -> int:
    request = predict_request("half", x=[4.0])
    request.model_spec.version_label = "stable"
    response = client.prediction.Predict(request, timeout=60)
    version = float(tf.make_ndarray(response.outputs["y"])[0]) - 2.0
    assert version == response.model_spec.version.value
    return int(version)


@pytest.fixture(scope="module")
def made(tmp_path_factory, colour_models) -> Path:
    """Versions 1, 2 and 3 of two models, to copy from; the dogs' version 3 is their version 2 under another number."""
    folder = tmp_path_factory.mktemp("made")
    for number in (1, 2, 3):
        tiny_models.half_plus(number, folder / "half" / str(number))
    shutil.copytree(colour_models / "inception_v3", folder / "dogs")
    shutil.copytree(folder / "dogs" / "2", folder / "dogs" / "3")
    return folder


@pytest.fixture
def server(start_server, made, tmp_path):
    for model, number in itertools.product(("half", "dogs"), ("1", "2")):
        shutil.copytree(made / model / number, tmp_path / model / number)
    server = start_server(tmp_path, "--poll-seconds", "0.3")
    for model in ("half", "dogs"):
        move(server, model, 2)
    return server


def admin(server, path: str, fields: dict | None = None) -> dict:
    response = server.request(
        "GET" if fields is None else "POST", f"/api/admin/{path}", json=fields
    )
    assert response.status_code == 200, response.text
    return response.json()


def move(server, model: str, version: int) -> dict[int, float]:
    """Move the label and the default; returns when each switch was answered, by its id.

    The server puts a switch down between our asking and its answer.
    """
    answered = {}
    for path in ("labels/stable", "default"):
        asked = time.time()
        switch = admin(server, f"models/{model}/{path}", {"version": version})["switch"]
        answered[switch["id"]] = time.time()
        assert asked <= seconds(switch) <= answered[switch["id"]]
    return answered


def seconds(switch: dict) -> float:
    return datetime.fromisoformat(switch["at"]).timestamp()


def wait_for_versions(server, *expected: int) -> None:
    def available(model: str) -> set[int]:
        versions = admin(server, f"models/{model}")["model"]["versions"]
        return {each["version"] for each in versions if each["state"] == "AVAILABLE"}

    wait_until(lambda: available("half") == available("dogs") == set(expected))


def appear_move_move_back_disappear(
    server, load: Load, made: Path, models: Path
) -> dict[int, float]:
    """The switching itself, each step when its share of the load has passed; returns when the switches were answered."""
    load.go_on(0.1)
    answered: dict[int, float] = {}
    for model in ("half", "dogs"):
        shutil.copytree(made / model / "3", models / model / "3")
    wait_for_versions(server, 1, 2, 3)
    for version in (3, 2):
        for model in ("half", "dogs"):
            answered |= move(server, model, version)
        load.go_on(0.2)
    for model in ("half", "dogs"):
        shutil.rmtree(models / model / "3")
    wait_for_versions(server, 1, 2)
    load.go_on(0.1)
    return answered


def current(log: list[dict], answered: dict[int, float], answer: Answer) -> set[int]:
    """The versions that were current at some moment while this request was on its way, by the log of switches.

    A switch is put down before it applies, and applies before it is answered.
    """
    kind = (
        {"kind": "label", "name": answer.label} if answer.label else {"kind": "default", "name": ""}
    )
    moves = [each for each in log if each["model"] == answer.model and kind.items() <= each.items()]
    versions = {2}
    for each in sorted(moves, key=lambda each: each["id"]):
        if answered.get(each["id"], 0.0) < answer.sent:
            versions = {each["to"]}
        elif seconds(each) <= answer.received:
            versions.add(each["to"])
    return versions


@pytest.mark.parametrize("wanted", [400, pytest.param(10_000, marks=pytest.mark.long)])
def test_the_requests_meet_every_switch_and_none_fails(server, made, tmp_path, wanted):
    with Load(server, wanted) as load:
        answered_at = appear_move_move_back_disappear(server, load, made, tmp_path)
    log = admin(server, "switches")["switches"]
    assert len(load.answers) >= wanted
    assert [
        answer for answer in load.answers if answer.version not in current(log, answered_at, answer)
    ] == []
    answered = Counter((answer.model, answer.label, answer.version) for answer in load.answers)
    print(f"{len(load.answers)} answers: {dict(sorted(answered.items()))}")
    assert set(answered) >= set(itertools.product(("half", "dogs"), (STABLE, DEFAULT), (2, 3)))
