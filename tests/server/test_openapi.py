"""The OpenAPI document: every route is in it, and its limits are the server's. Its promises: test_hostile_requests.py."""

import re

import pytest
from dogsnap.server.app import create_app
from dogsnap.server.protocols import app_api, openapi, tf_serving_rest
from dogsnap.serving.assembly import create_predictor
from dogsnap.settings import Settings, variable
from flask import Flask


@pytest.fixture(scope="module")
def app(tmp_path_factory) -> Flask:
    settings = Settings(models=tmp_path_factory.mktemp("none"))
    return create_app(settings, create_predictor(settings))


@pytest.fixture(scope="module")
def document(app) -> dict:
    with app.app_context():
        return openapi.describe(app, Settings())


def test_the_document_has_every_route_with_its_methods_under_a_name_of_its_own_and_no_other(
    app, document
):
    rules = [
        rule for rule in app.url_map.iter_rules() if rule.endpoint != "rest.handle"
    ]  # whose pattern is below
    for rule in rules:
        operations = document["paths"][openapi.path_of(rule)]
        assert {method.lower() for method in rule.methods & {"GET", "POST"}} <= set(operations), (
            rule.rule
        )
    assert set(openapi.operations(Settings())) == {rule.endpoint for rule in rules}
    names = [
        each["operationId"]
        for operations in document["paths"].values()
        for each in operations.values()
    ]
    assert len(names) == len(set(names)) > 40


def test_every_path_of_tensorflow_servings_api_is_one_that_the_rest_api_takes(document):
    found = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if operation["operationId"].startswith("rest-"):
                filled = path.format(name="dog", version=2, label="stable")
                found.add(tf_serving_rest.parse_path(method.upper(), filled)[1])
    assert found == {"status", "metadata", *tf_serving_rest.METHODS}


def test_the_fields_of_a_photo_and_the_limits_are_those_that_the_server_checks(app, document):
    with app.app_context():
        text = openapi.describe(app, Settings(max_body_mb=3, max_photos=7))
    for name in openapi.LIMITS:
        assert variable(name) in text["info"]["description"]
    limit = re.search(r"most photos in one request.*: 7 .*", text["info"]["description"])
    assert "`DOGSNAP_MAX_PHOTOS`" in limit[0]
    photo = text["paths"]["/api/classify"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    assert photo["properties"]["image"]["maxLength"] == 3 * 2**20
    bodies = document["paths"]["/api/classify"]["post"]["requestBody"]["content"]
    for kind in ("application/json", "multipart/form-data"):
        assert set(bodies[kind]["schema"]["properties"]) == {"image", *app_api.FIELDS}
