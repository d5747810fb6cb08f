"""What versions did over the last day, as administrators ask for it, of a server and of a gateway."""

import time

import pytest
from support.refusals import assert_refused
from support.tiny_models import half_of_positive, half_plus

SERIES = "/api/admin/series"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    half_plus(1, folder / "half" / "1")
    half_of_positive(folder / "half" / "2")
    return folder


@pytest.fixture(scope="module")
def server(start_server, models):
    return start_server(models)


def ask(server, value: float, version: int) -> int:
    path = f"/v1/models/half/versions/{version}:predict"
    return server.post(path, json={"instances": [value]}).status_code


def assert_shown(server) -> None:
    """What was asked just now is in the answer, by version."""
    began = time.time()
    before = server.get(SERIES).json()["versions"]
    assert [ask(server, 1.0, 1) for _ in range(5)] == [200] * 5
    assert ask(server, -1.0, 2) != 200
    found = server.get(f"{SERIES}?seconds=900").json()
    after = found["versions"]

    def more(version: str, name: str) -> int:
        return sum(after[version][name]) - sum(before.get(version, {}).get(name, []))

    assert (found["model"], found["step"]) == ("half", 10)
    assert [more("1", name) for name in ("requests", "refused", "failed")] == [5, 0, 0]
    assert (more("2", "requests"), more("2", "refused") + more("2", "failed")) == (1, 1)
    assert found["began"] < began < found["now"]
    assert found["times"][-1] <= found["now"] < found["times"][-1] + found["step"] + 1
    assert after["1"]["p50_ms"][-1] or after["1"]["p50_ms"][-2]


def test_the_series_of_a_server_shows_what_was_asked_just_now(server):
    assert_shown(server)


def test_the_series_of_a_gateway_shows_what_went_through_it(start_server, models, server):
    gateway = start_server(models, "--engine", f"grpc://127.0.0.1:{server.grpc_port}")
    assert_shown(gateway)


def test_wrong_questions_and_models_that_are_gone_are_told(server):
    for query, status, sentence in (
        ("model=cats", 404, "there is no model 'cats'; there are: half"),
        ("seconds=5", 400, "seconds is 5; expected 10 to 86400"),
        ("seconds=86401", 400, "expected 10 to 86400"),
        ("seconds=ten", 400, "seconds is 'ten'; expected a whole number"),
        ("seconds=-10", 400, "expected a whole number"),
        ("until=yesterday", 400, "until is 'yesterday'"),
        ("until=99999999999999999999", 400, "expected a whole number"),
    ):
        assert_refused(server.get(f"{SERIES}?{query}"), status, sentence)
    for query in ("until=0", f"until={2**63 - 1}", "seconds=", "model=half&until="):
        assert server.get(f"{SERIES}?{query}").status_code == 200
    assert server.get(SERIES, headers={"Authorization": None}).status_code == 401
