"""The OpenAPI document: every route is in it, its limits are the server's, and every status it promises really comes."""

import base64
import re
import shutil
from pathlib import Path

import colour_photos
import pytest
import requests
import tiny_models
from feedback_ids import SECRET, signed
from flask import Flask

from backend.app import create_app
from backend.protocols import app_api, openapi, tf_serving_rest
from backend.protocols.web_app import DIST
from backend.serving.assembly import create_predictor
from backend.settings import Settings, variable

PHOTO = colour_photos.every_kind()["jpeg"]
TEXT = base64.b64encode(PHOTO).decode()
EXAMPLE = {"signature_name": "regress_x_to_y", "examples": [{"x": 1.0}]}
LABELLED = {"signature_name": "classify_with_labels", "examples": [{"x": 1.0}]}


@pytest.fixture(scope="module")
def app(tmp_path_factory) -> Flask:
    settings = Settings(models=tmp_path_factory.mktemp("none"))
    return create_app(settings, create_predictor(settings))


@pytest.fixture(scope="module")
def document(app) -> dict:
    with app.app_context():
        return openapi.describe(app, Settings())


def test_every_route_is_in_the_document_with_its_methods(app, document):
    for rule in app.url_map.iter_rules():
        if rule.endpoint == "rest.handle":
            continue  # a pattern of its own, below
        operations = document["paths"][openapi.path_of(rule)]
        assert {method.lower() for method in rule.methods & {"GET", "POST"}} <= set(operations), rule.rule


def test_every_route_that_is_described_exists(app):
    endpoints = {rule.endpoint for rule in app.url_map.iter_rules()}
    assert set(openapi.operations(Settings())) == endpoints - {"rest.handle"}


def test_every_path_of_tensorflow_servings_api_is_one_that_the_rest_api_takes(document):
    found = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if operation["operationId"].startswith("rest-"):
                filled = path.format(name="dog", version=2, label="stable")
                found.add(tf_serving_rest.parse_path(method.upper(), filled)[1])
    assert found == {"status", "metadata", *tf_serving_rest.METHODS}


def test_operations_have_names_of_their_own(document):
    names = [each["operationId"] for operations in document["paths"].values() for each in operations.values()]
    assert len(names) == len(set(names)) > 40


def test_the_fields_of_a_photo_are_those_that_the_server_checks(document):
    bodies = document["paths"]["/api/classify"]["post"]["requestBody"]["content"]
    for kind in ("application/json", "multipart/form-data"):
        assert set(bodies[kind]["schema"]["properties"]) == {"image", *app_api.FIELDS}


def test_the_paths_of_the_app_come_first_and_all_others_behind_administration(document):
    paths = list(document["paths"])
    assert paths[:3] == ["/api/classify", "/api/breeds", "/api/models"]
    administration = [place for place, path in enumerate(paths) if path.startswith("/api/admin")]
    assert all(path.startswith(("/api/", "/v1/")) for path in paths[: max(administration)])
    assert not any(path.startswith(("/api/", "/v1/")) for path in paths[max(administration) + 1 :])


def test_limits_stand_in_the_document_with_their_settings(app):
    with app.app_context():
        text = openapi.describe(app, Settings(max_body_mb=3, max_photos=7))
    for name in openapi.LIMITS:
        assert variable(name) in text["info"]["description"]
    assert "`DOGSNAP_MAX_PHOTOS`" in re.search(r"most photos in one request: 7 .*", text["info"]["description"])[0]
    photo = text["paths"]["/api/classify"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert photo["properties"]["image"]["maxLength"] == 3 * 2**20


# -- every documented status -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(tmp_path_factory, colour_models) -> Path:
    models = tmp_path_factory.mktemp("several_models")
    shutil.copytree(colour_models / "inception_v3", models / "inception_v3")
    shutil.copy(Path(__file__).parents[2] / "models" / "breeds.json", models)
    tiny_models.half_plus_two_of_examples(models / "half" / "1")
    return models


@pytest.fixture(scope="module")
def server(start_server, models):
    server = start_server(models, "--feedback", str(models / "feedback.db"), "--feedback-secret", SECRET)
    for model, version in (("half", 1), ("inception_v3", 2)):
        server.post(f"/api/admin/models/{model}/labels/stable", json={"version": version}).raise_for_status()
    return server


# What the path parameters are for an answer; the model is `half` where tf.Examples are taken.
KNOWN = {"version": 2, "label": "stable", "what": "load", "folder": "assets", "model": "inception_v3"}
FILES = {"/console/{name}": "console.js", "/docs/{name}": "docs.js", "/{name}": "app.js"}
GIVEN = signed()
# What is sent for an answer, by the operation.
SENT = {
    "api.classify": {"json": {"image": TEXT, "top_k": 2}},
    "api.upright": {"json": {"image": TEXT}},
    "api.give_feedback": {"json": {"request_id": GIVEN, "verdict": "right"}},
    "api.forget_feedback": {"json": {"request_ids": [GIVEN]}},
    "simple.infer": {"json": {"data": {"image": [TEXT]}, "model_version": 2}},
    "admin.label": {"json": {"version": 2}},
    "admin.default": {"json": {"version": 2}},
    "admin.load": {"json": {}},
    "admin.split": {"json": {"version": 1, "percent": 5}},
    "admin.shadow": {"json": {"version": None}},
    "admin.undo": {"json": {}},
    "rest-predict": {"json": {"inputs": [TEXT]}},
    "rest-classify": {"json": LABELLED},
    "rest-regress": {"json": EXAMPLE},
}
MANY = [TEXT] * 33
# What provokes a refusal, by its status: changes of the path's parameters, or another body.
FORM = {"files": {"image": ("a.jpg", b"no photo")}}
PROVOKED = {
    ("api.classify", 404): {"json": {"image": TEXT, "model": "none"}},
    ("api.classify", 413): {"data": colour_photos.huge_png(9000, 9000), "headers": {"Content-Type": "image/png"}},
    ("api.classify", 415): FORM,
    ("api.upright", 413): {"data": colour_photos.huge_png(9000, 9000), "headers": {"Content-Type": "image/png"}},
    ("api.upright", 415): FORM,
    ("api.give_feedback", 404): {"json": {"request_id": signed(secret="another"), "verdict": "right"}},
    ("api.give_feedback", 409): {"json": {"request_id": GIVEN, "verdict": "right"}},
    ("admin.verdict", 404): {"params": {"model": "none"}},
    ("simple.infer", 404): {"json": {"data": {"image": [TEXT]}, "model_name": "none"}},
    ("simple.infer", 413): {"json": {"data": {"image": MANY}, "model_version": 2}},
    ("simple.infer", 415): FORM,
    ("admin.undo", 404): {"json": {"id": 999_999}},
    ("admin.load", 404): {"json": {}, "path": {"version": 77}},
    ("rest-predict", 413): {"json": {"inputs": MANY}},
}
NOT_JSON = {"data": b"{", "headers": {"Content-Type": "application/json"}}


def operation_key(operation_id: str) -> str:
    """The same calls serve an operation with and without version or label, and the app's files wherever they lie."""
    parts = operation_id.split("-")
    return "-".join(parts[:2]) if parts[0] == "rest" else parts[0]


def call(path: str, key: str, status: int) -> dict:
    """Path and body of a request that is to be answered with `status`."""
    model = "half" if key in ("rest-classify", "rest-regress") else "inception_v3"
    parameters = {**KNOWN, "name": FILES.get(path, model), "version": 1 if model == "half" else 2}
    sent = dict(SENT.get(key, {}))
    if (key, status) in PROVOKED:
        sent = dict(PROVOKED[key, status])
        parameters |= sent.pop("path", {})
    elif status == 404:
        parameters |= {"name": "none", "model": "none"}
    elif status == 403:
        sent["headers"] = {"X-Forwarded-For": "10.0.0.1"}
    elif status == 415:
        sent = {"data": b"{}", "headers": {"Content-Type": "text/plain"}}
    elif status == 400 and key in SENT:
        sent = NOT_JSON
    elif status == 400 and key.startswith("simple"):
        sent["params"] = {"version": "x"}
    elif status == 400:
        parameters |= {"name": "a:b"}
    return {"path": path.format(**parameters), **sent}


@pytest.mark.skipif(not (DIST / "index.html").is_file(), reason=f"{DIST}/index.html is missing: `make setup` builds it")
def test_every_documented_status_really_comes_with_the_promised_kind_of_answer(server):
    document = server.get("/openapi.json").json()
    wrong, count = [], 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status in (int(code) for code in operation["responses"] if code != "default"):
                if "folder" in path and status == 200:
                    continue  # the app has files there only if it was built with pictures
                sent = call(path, operation_key(operation["operationId"]), status)
                response = requests.request(method, server.url + sent.pop("path"), timeout=60, **sent)
                kind = next(iter(operation["responses"][str(status)]["content"]))
                count += 1
                if response.status_code != status or not response.headers["Content-Type"].startswith(kind.strip("*/")):
                    wrong.append(f"{method} {path} {status}: {response.status_code} {response.text[:200]}")
    assert wrong == []
    assert count > 90


def test_the_page_to_try_it_is_served_under_a_policy_without_inline_scripts(server):
    page = server.get("/docs")
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    for file in re.findall(r'(?:src|href)="(/docs/[^"]+)"', page.text):
        assert server.get(file).status_code == 200
