"""Administration over HTTP: switching, its log and its undo, and clients that are refused."""

import pytest
import requests
from support import tiny_models
from support.grpc_client import SECONDS, Client, connected, predict_request
from support.process_readings import sample
from support.refusals import assert_refused


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for number in (1, 2):
        tiny_models.half_plus(number, folder / "half" / str(number))
    return folder


@pytest.fixture(scope="module")
def server(start_server, models):
    return start_server(models, "--poll-seconds", "0.2", "--enable-cors")


def admin(server, path, fields=None, **options) -> requests.Response:
    method = "GET" if fields is None and "data" not in options else "POST"
    return server.request(method, f"/api/admin/{path}", json=fields, **options)


def half(server, where="", headers=None) -> tuple[int, float]:
    """The version that says it answered, and the constant in its y = x / 2 + constant, which tells which one really did."""
    response = server.post(
        f"/v1/models/half{where}:predict", json={"instances": [0.0]}, headers=headers
    )
    assert response.status_code == 200, response.text
    return int(response.headers["X-Dogsnap-Model-Version"]), response.json()["predictions"][0]


@pytest.mark.parametrize("path", ["/api/admin/undo", "/v2/repository/index"])
def test_a_page_of_another_origin_may_administer_with_the_token(server, path):
    """What its browser asks first carries no token."""
    asks = {
        "Origin": "https://example.com",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    preflight = requests.options(f"{server.url}{path}", headers=asks, timeout=60)
    assert preflight.status_code == 200
    assert "Authorization" in preflight.headers["Access-Control-Allow-Headers"]
    assert_refused(requests.post(f"{server.url}{path}", timeout=60), 401)


def test_a_split_follows_the_request_key_by_http_and_grpc(server):
    admin(server, "models/half/labels/split", {"version": 1})
    admin(server, "models/half/split", {"label": "split", "version": 2, "percent": 50})
    keys = list(map(str, range(40)))
    sides = {key: half(server, "/labels/split", {"X-Request-Key": key})[0] for key in keys}
    assert set(sides.values()) == {1, 2}
    with connected(server.grpc_port) as client:
        assert {key: half_by_grpc(client, "split", "x-request-key", key) for key in keys} == sides
    same = {half(server, "/labels/split")[0] for _ in range(20)}
    assert len(same) == 1, "without a key, one client is on one side"
    assert sample(server, "dogsnap_split_share", 'label="split",model="half",version="2"') == 0.5
    assert (
        sample(server, "dogsnap_routed_requests_total", 'label="split",model="half",version="2"')
        > 0
    )
    ended = admin(
        server, "models/half/split", {"label": "split", "version": None, "percent": 0}
    ).json()
    assert ended["model"]["splits"] == []
    assert "dogsnap_split_share{" not in server.get("/metrics").text


def half_by_grpc(client: Client, label: str, name: str, value: str) -> int:
    """The version that answers, where `value` is sent as the metadata `name`."""
    request = predict_request("half", x=[0.0])
    request.model_spec.version_label = label
    return client.prediction.Predict(
        request, SECONDS, metadata=[(name, value)]
    ).model_spec.version.value


def sides_by_address(server) -> dict[str, set[int]]:
    """For each protocol, the versions that answer one client that gives many addresses in X-Forwarded-For."""
    admin(server, "models/half/labels/near", {"version": 1})
    admin(server, "models/half/split", {"label": "near", "version": 2, "percent": 50})
    claims = [{"x-forwarded-for": f"10.0.0.{number}"} for number in range(20)]
    with connected(server.grpc_port) as client:
        return {
            "http": {half(server, "/labels/near", claim)[0] for claim in claims},
            "grpc": {
                half_by_grpc(client, "near", *each) for claim in claims for each in claim.items()
            },
        }


def test_a_client_cannot_choose_its_side_of_a_split_by_the_address_that_it_claims(
    server, start_server, models
):
    assert all(len(versions) == 1 for versions in sides_by_address(server).values())
    behind = start_server(models, "--trusted-proxies", "1")
    assert sides_by_address(behind) == {"http": {1, 2}, "grpc": {1, 2}}


@pytest.mark.parametrize(
    ("path", "fields", "status", "sentence"),
    [
        ("models/gone/default", {"version": 1}, 404, "models served here: half"),
        ("models/half/default", {}, 400, "missing: version"),
        ("models/half/default", {"version": 1, "form": 2}, 400, "unknown: form"),
        ("models/half/default", {"version": "1"}, 400, "expected a whole number"),
        ("models/half/default", {"version": True}, 400, "expected a whole number"),
        ("models/half/default", {"version": 1.0}, 400, "expected a whole number"),
        ("models/half/default", {"version": 1, "by": 7}, 400, "by is 7; expected a string"),
        ("models/half/default", {"version": 1, "force": 1}, 400, "force is 1; expected true or"),
        ("models/half/default", {"version": 1, "force": None}, 400, "force is None; expected"),
        ("apply", {"state": []}, 400, "state is []; expected a JSON object"),
        ("models/half/labels/x", {"version": -1}, 400, "version is -1"),
        ("models/half/labels/x", {"version": 2**63}, 400, "expected a whole number from 0"),
        ("models/half/split", {"version": 2, "percent": 101}, 400, "to 100"),
        (
            "models/half/split",
            {"version": 2, "percent": -1},
            400,
            "percent is -1; expected a number from 0",
        ),
        ("models/half/split", {"version": 2, "percent": "5"}, 400, "percent is '5'"),
        (
            "models/half/split",
            {"version": None, "percent": 5},
            400,
            "expected the version that gets the share",
        ),
        ("undo", {"id": 10**6}, 404, "no switch 1000000"),
        ("undo", {"id": 2**63}, 404, "no switch 9223372036854775808"),
        ("undo", {"model": "gone"}, 400, "no switch to undo for gone"),
        ("undo", [], 400, "expected a JSON object"),
    ],
)
def test_a_switch_that_makes_no_sense_is_refused_with_a_sentence(
    server, path, fields, status, sentence
):
    assert_refused(admin(server, path, fields), status, sentence)


def test_a_label_that_points_elsewhere_by_now_is_not_moved(server):
    admin(server, "models/half/labels/moved", {"version": 1})
    refused = admin(server, "models/half/labels/moved", {"version": 2, "from": 2})
    assert_refused(refused, 409, "points to 1, not 2")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_a_page_of_another_site_cannot_switch(server, kind):
    response = admin(
        server, "models/half/default", data=b'{"version": 1}', headers={"Content-Type": kind}
    )
    assert response.status_code == 415
    page = {"Origin": server.url, "Authorization": None}  # whatever it claims, it has no token
    assert admin(server, "models/half/default", {"version": 1}, headers=page).status_code == 401
    assert half(server) == (2, 2.0)


def test_a_switch_says_why_and_one_that_has_not_seen_anothers_is_refused_with_who_made_it(server):
    path = "models/half/labels/known"
    reason = "  tests\nare\x00 green " + "x" * 300
    first = admin(server, path, {"version": 1, "by": "alice", "reason": reason}).json()["switch"]
    assert first["reason"].startswith("tests are")
    assert len(first["reason"]) == 200
    assert "(tests are" in first["text"]
    seen = first["id"]
    second = admin(server, path, {"version": 2, "by": "alice", "seen": seen}).json()["switch"]
    assert second["id"] > seen
    log = admin(server, "switches").json()
    for late, fields in (
        (path, {"version": 1}),
        (path, {"version": 1, "dry_run": True}),
        ("models/half/split", {"version": 1, "percent": 5, "label": "known"}),
        ("models/half/default", {"version": 2}),
        ("models/half/shadow", {"version": 2}),
        ("models/half/rollout", {"version": 1, "steps": [5], "every": 60, "label": "known"}),
        ("models/half/versions/1/load", {}),
        ("models/half/rollout/pause", {"label": "known"}),  # there is none by now
        ("undo", {"id": second["id"]}),
        ("undo", {"id": first["id"]}),  # not in force by now
        ("undo", {"model": "half"}),
        ("apply", {"state": {"format": 1, "models": {"half": {"shadow": 2}}}}),
    ):
        refused = admin(server, late, {**fields, "by": "bob", "seen": seen})
        assert_refused(refused, 409, f"alice 127.0.0.1 was first: switch {second['id']}")
    assert admin(server, "switches").json() == log
    undone = admin(server, "undo", {"id": second["id"], "seen": second["id"]})
    assert undone.json()["switch"]["undoes"] == second["id"]
    assert admin(server, path, {"version": None, "seen": None}).status_code == 200
    for field in ({"seen": "1"}, {"reason": 7}):
        assert admin(server, path, {"version": 1, **field}).status_code == 400


def test_before_the_first_switch_of_a_model_nobody_was_first(start_server, models):
    fresh = start_server(models)
    path = "models/half/labels/stable"
    assert admin(fresh, path, {"version": 1, "seen": 0}).status_code == 200
    assert_refused(admin(fresh, path, {"version": 2, "seen": 0}), 409, "was first: switch 1")
