"""The OpenAPI document: its routes, fields, words and limits are the server's. Its promises: test_hostile_requests.py."""

import builtins
import io
import re
from pathlib import Path

import dogsnap
import pytest
from dogsnap.errors import InvalidArgument
from dogsnap.server.app import create_app
from dogsnap.server.middleware.access_control import KEY_HEADER
from dogsnap.server.pages import generated_clients
from dogsnap.server.protocols import (
    app_api,
    openapi,
    tf_serving_rest,
)
from dogsnap.serving.answers.levels import Level
from dogsnap.serving.assembly import create_predictor
from dogsnap.serving.tensors.open_inference_tensors import TYPES
from dogsnap.serving.versions import description
from dogsnap.settings import Settings, variable
from flask import Flask
from jsonschema import Draft202012Validator

VALUES = (None, "", "2", "text", 0, 2, 1.5, True, [], ["text"], [2], {})
PARAMETER = re.compile(r"<(?:\w+(?:\(.*?\))?:)?(\w+)>")


@pytest.fixture(scope="module")
def app(tmp_path_factory) -> Flask:
    settings = Settings(models=tmp_path_factory.mktemp("none"))
    return create_app(settings, create_predictor(settings))


@pytest.fixture(scope="module")
def document() -> dict:
    return openapi.describe(Settings())


@pytest.fixture(scope="module")
def operations(document) -> dict[str, dict]:
    """By their id."""
    found = {}
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["operationId"] not in found
            found[operation["operationId"]] = operation
    return found


def test_the_document_has_every_route_with_its_methods_and_parameters_and_no_other(app, document):
    missing = dict(document["paths"])
    for rule in app.url_map.iter_rules():
        if rule.endpoint == "rest.handle":  # whose paths the next test checks
            continue
        if rule.defaults:  # the same route without a name, which it refuses
            continue
        path = PARAMETER.sub(r"{\1}", rule.rule)
        missing.pop(path, None)
        for method in rule.methods & {"GET", "POST"}:
            operation = document["paths"][path][method.lower()]
            assert operation["operationId"].partition("-")[0] == rule.endpoint
    assert all("rest-" in str(methods) for methods in missing.values())
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert path_parameters(operation, document) == set(re.findall(r"{(\w+)}", path)), path


def path_parameters(operation: dict, document: dict) -> set[str]:
    names = set()
    for parameter in operation.get("parameters", []):
        name = parameter.get("$ref", "").split("/")[-1]
        described = document["components"]["parameters"][name] if name else parameter
        if described["in"] == "path":
            names.add(described["name"])
    return names


def test_every_path_of_tensorflow_servings_api_is_one_that_the_rest_api_takes(document):
    found = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if operation["operationId"].startswith("rest-"):
                filled = path.format(name="dog", version=2, label="stable")
                found.add(tf_serving_rest.parse_path(method.upper(), filled)[1])
    assert found == {"status", "metadata", *tf_serving_rest.METHODS}


def assert_same_values(check, schema: dict) -> None:
    """`check` takes the values that `schema` allows, and no others."""
    for value in VALUES:
        try:
            check("field", value)
        except InvalidArgument:
            is_taken = False
        else:
            is_taken = True
        assert is_taken == Draft202012Validator(schema).is_valid(value), (schema, value)


def test_the_fields_of_a_photo_and_the_limits_are_those_that_the_server_checks(document):
    text = openapi.describe(Settings(max_body_mb=3, max_photo_pixels=7))
    for name in openapi.LIMITS:
        assert variable(name) in text["info"]["description"]
    limit = re.search(r"largest photo, in pixels.*: 7 .*", text["info"]["description"])
    assert "`DOGSNAP_MAX_PHOTO_PIXELS`" in limit[0]
    assert text["components"]["schemas"]["PhotoText"]["maxLength"] == 3 * 2**20
    bodies = document["paths"]["/api/classify"]["post"]["requestBody"]["content"]
    for kind in ("application/json", "multipart/form-data"):
        assert set(bodies[kind]["schema"]["properties"]) == {"image", "images", *app_api.FIELDS}
    for name, check in app_api.FIELDS.items():
        schema = bodies["application/json"]["schema"]["properties"][name]
        assert_same_values(check, {**schema, "components": document["components"]})


def test_a_refusal_by_the_content_check_is_described_where_there_is_one(document):
    responses = document["paths"]["/api/classify"]["post"]["responses"]
    assert "422" not in responses
    checked = openapi.describe(Settings(content_check="http://127.0.0.1:9"))
    assert "422" in checked["paths"]["/api/classify"]["post"]["responses"]


def test_listed_words_are_those_of_the_code(document, operations):
    components = document["components"]
    assert components["schemas"]["Level"]["enum"] == [level.value for level in Level]
    datatype = components["schemas"]["InferenceTensor"]["properties"]["datatype"]
    assert datatype["enum"] == list(TYPES)
    assert components["securitySchemes"]["key"]["name"] == KEY_HEADER
    (language,) = [
        parameter["schema"]["enum"]
        for parameter in operations["simple.gen_client"]["parameters"]
        if parameter.get("name") == "language"
    ]
    assert language == list(generated_clients.LITERALS)


def test_a_server_goes_on_while_the_files_of_its_code_are_replaced(half_models, monkeypatch):
    settings = Settings(models=half_models, admin_token="a-long-random-text", switch_log="off")
    predictor = create_predictor(settings)
    predictor.repository.scan(skip_settling=True)
    client = create_app(settings, predictor).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {settings.admin_token}"
    openapi.read_schemas.cache_clear()
    opened = io.open

    def open_others(file, *more, **options):
        if Path(dogsnap.__file__).parent in Path(str(file)).parents:
            raise FileNotFoundError(file)
        return opened(file, *more, **options)

    monkeypatch.setattr(io, "open", open_others)
    monkeypatch.setattr(builtins, "open", open_others)
    for path in ("/openapi.json", "/console/models", "/v1/models/half/gen_client"):
        assert client.get(path).status_code == 200, path
    assert client.post("/v2/repository/index").status_code == 200
    state = {"state": {"format": 1, "models": {}}}
    assert client.post("/api/admin/apply", json=state).status_code == 200
    description.check({}, "a description")
