"""The containers of the clouds: /ping and /invocations of SageMaker and MLflow, Vertex AI's routes, as their documents ask."""

import json
import time
import tracemalloc
from pathlib import Path

import click
import pytest
from dogsnap.server.app import create_app
from dogsnap.server.middleware import api_keys
from dogsnap.server.protocols.invocations import _rows_of
from dogsnap.serving.assembly import create_predictor
from dogsnap.settings import Settings
from flask.testing import FlaskClient
from support import tiny_models
from support.photos import striped

JSON_LINES = "application/jsonlines"


def client_of(models: Path, **more: str) -> FlaskClient:
    settings = Settings(models=models, switch_log="off", **more)
    predictor = create_predictor(settings)
    predictor.repository.scan(skip_settling=True)
    return create_app(settings, predictor).test_client()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = tmp_path_factory.mktemp("models")
    tiny_models.half_plus(2.0, models / "half_plus_two" / "1")
    tiny_models.half_plus(3.0, models / "half_plus_three" / "7")
    tiny_models.several(models / "several" / "1")
    tiny_models.colours(models / "inception_v3")
    return models


@pytest.fixture(scope="module")
def client(models: Path) -> FlaskClient:
    return client_of(models, default_model="half_plus_two")


def test_ping_answers_once_the_models_are_ready(client: FlaskClient, tmp_path: Path) -> None:
    assert client.get("/ping").status_code == 200
    settings = Settings(models=tmp_path, switch_log="off")
    waiting = create_app(settings, create_predictor(settings)).test_client()
    assert waiting.get("/ping").status_code == 503


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"instances": [1.0, 2.0, 5.0]}, [2.5, 3.0, 4.5]),  # SageMaker's document
        ({"inputs": {"x": [1.0, 2.0]}}, [2.5, 3.0]),  # MLflow's
        ({"dataframe_split": {"columns": ["x"], "data": [[1.0], [2.0]]}}, [2.5, 3.0]),
        ({"dataframe_split": {"index": [0], "columns": ["x"], "data": [[4.0]]}}, [4.0]),
        ({"dataframe_records": [{"x": 1.0}]}, [2.5]),
        ([1.0, 2.0], [[2.5, 3.0]]),  # SageMaker's simplified JSON: one instance
        ([[1.0, 2.0], [3.0, 4.0]], [[2.5, 3.0], [3.5, 4.0]]),
        ([{"x": 1.0}, {"x": 2.0}], [2.5, 3.0]),
        ({"x": [1.0, 2.0]}, [[2.5, 3.0]]),
        ({"instances": [1.0], "parameters": {"signature_name": "serving_default"}}, [2.5]),
        ({"instances": [1.0], "parameters": {"confidence": 0.4}}, [2.5]),  # which no model reads
    ],
)
def test_json_is_answered_with_predictions(client: FlaskClient, body: dict, answer: list) -> None:
    response = client.post("/invocations", json=body)
    assert (response.status_code, response.json) == (200, {"predictions": answer})


def test_a_row_of_several_columns_is_an_instance_of_several_inputs(client: FlaskClient) -> None:
    frame = {"columns": ["a", "b"], "data": [[1.0, 2], [3.0, 4]]}
    headers = {"X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=several,tfs-method=predict"}
    response = client.post("/invocations", json={"dataframe_split": frame}, headers=headers)
    assert response.status_code == 200, response.json
    assert [row["sum"] for row in response.json["predictions"]] == [3.0, 7.0]


@pytest.mark.parametrize(
    "frame",
    [
        {"dataframe_split": {"columns": ["a", "b", "c"], "data": [[1, 2, 3], [4, 5, 6]]}},
        {"dataframe_split": {"columns": [0, 1, 2], "data": [[1, 2, 3], [4, 5, 6]]}},
        {"dataframe_records": [{"a": 1, "b": 2, "c": 3}, {"c": 6, "b": 5, "a": 4}]},
    ],
)
def test_a_row_of_several_columns_is_one_value_of_a_network_with_one_input(
    client: FlaskClient, frame: dict
) -> None:
    response = client.post("/invocations", json=frame)
    assert response.json == {"predictions": [[2.5, 3.0, 3.5], [4.0, 4.5, 5.0]]}


def test_one_numbered_column_is_that_of_the_only_input(client: FlaskClient) -> None:
    frame = {"columns": [0], "data": [[1.0], [2.0]]}
    response = client.post("/invocations", json={"dataframe_split": frame})
    assert response.json == {"predictions": [[2.5], [3.0]]}


def test_json_lines_are_instances(client: FlaskClient) -> None:
    response = client.post(
        "/invocations", data=b" \n1.0\n\n \t\r\n2.0\r\n\t", content_type=JSON_LINES
    )
    assert response.json == {"predictions": [2.5, 3.0]}


@pytest.mark.parametrize(("line", "status"), [(b"\n", 400), (b" \n", 400), (b"11\n", 413)])
def test_any_number_of_lines_costs_little_more_than_its_size(
    client: FlaskClient, line: bytes, status: int
) -> None:
    body = line * 2**24
    tracemalloc.start()
    response = client.post("/invocations", data=body, content_type=JSON_LINES)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert response.status_code == status
    assert most < 6 * len(body)


def test_lines_cost_less_than_to_look_at_each_of_them() -> None:
    body = b"1\n" * 2**22
    seconds = []
    for read in (_rows_of, lambda lines: list(map(bytes.strip, lines.splitlines()))):
        begin = time.process_time()
        read(body)
        seconds.append(time.process_time() - begin)
    ours, of_each = seconds
    assert ours < of_each


def test_another_method_than_predict_is_refused_where_it_is_not_read(client: FlaskClient) -> None:
    headers = {"X-Amzn-SageMaker-Custom-Attributes": "tfs-method=classify"}
    response = client.post("/invocations", json={"instances": [1.0]}, headers=headers)
    assert response.status_code == 400
    assert "tfs-method is 'classify'; expected predict" in response.json["error"]


PREDICT_2 = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/invocations", {"instances": [1.0]}),
        ("/v1/models/half_plus_two:predict", {"instances": [1.0]}),
        ("/v2/models/half_plus_two/infer", PREDICT_2),
        ("/", {"data": {"x": [1.0]}, "model_name": "half_plus_two"}),
    ],
)
@pytest.mark.parametrize("name", ["model", "version", "label"])
def test_a_version_in_the_query_is_refused_where_it_is_not_read(
    client: FlaskClient, path: str, body: dict, name: str
) -> None:
    assert client.post(path, json=body).status_code == 200
    response = client.post(f"{path}?{name}=7", json=body)
    assert response.status_code == 400
    assert f"{name} stands in the query" in response.json["error"]


@pytest.mark.parametrize("health", ["/v1/endpoints/5", "/v1/models/half_plus_two"])
def test_probes_of_platforms_need_no_key_and_are_in_no_rate(
    models: Path, tmp_path: Path, health: str
) -> None:
    api_keys.add(tmp_path / "keys.json", "phone")
    limits = {"api_keys": str(tmp_path / "keys.json"), "rate_limit_address": "1/hour"}
    client = client_of(models, health_route=health, **limits)
    for path in ("/ping", health, "/health", "/v2/health/live", "/v2/health/ready"):
        assert [client.get(path).status_code for _ in range(3)] == [200] * 3, path
    assert client.post("/invocations", json={"instances": [1.0]}).status_code == 401


def test_a_health_route_with_the_name_of_another_leaves_that_as_it_is(tmp_path: Path) -> None:
    empty = tmp_path / "models"
    empty.mkdir()
    client = client_of(empty, health_route="/healthz")
    assert (client.get("/healthz").status_code, client.get("/ping").status_code) == (200, 503)


def test_a_predict_route_of_another_protocol_asks_the_model_that_it_names(models: Path) -> None:
    route = "/v1/models/half_plus_three:predict"
    client = client_of(models, default_model="half_plus_two", predict_route=route)
    assert client.post(route, json={"instances": [1.0]}).json == {"predictions": [3.5]}


def test_sagemakers_attributes_name_model_and_version(client: FlaskClient) -> None:
    headers = {
        "X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=half_plus_three,tfs-model-version=7"
    }
    response = client.post("/invocations", json={"instances": [1.0]}, headers=headers)
    assert response.json == {"predictions": [3.5]}
    assert response.headers["X-Dogsnap-Model-Version"] == "7"


def test_the_bytes_of_a_photo_are_answered_as_by_the_apps_api(models: Path, tmp_path: Path) -> None:
    client = client_of(models)
    file = tmp_path / "photo.jpg"
    striped((200, 30, 30), 1).save(file)
    expected = client.post("/api/classify", data=file.read_bytes(), content_type="image/jpeg").json
    for kind in ("image/jpeg", "application/x-image", "application/octet-stream"):
        answer = client.post("/invocations", data=file.read_bytes(), content_type=kind).json
        assert answer == {name: expected[name] for name in answer}
        assert answer["breeds"]


@pytest.mark.parametrize(
    ("data", "kind", "status", "words"),
    [
        (b"{", "application/json", 400, ""),
        (b"[1, 2", "application/json", 400, "JSON Parse error"),
        (b'[{"y": 1}]', "application/json", 400, "expected inputs: x"),
        (b'{"y": [1]}', "application/json", 400, "expected inputs: x"),
        (b'{"dataframe_records": [{"x": 1}, {}]}', "application/json", 400, "dataframe_records"),
        (b'{"dataframe_records": []}', "application/json", 400, "dataframe_records"),
        (b'{"dataframe_split": {"columns": ["y"], "data": [[1]]}}', "application/json", 400, "input: x"),
        (b'{"dataframe_split": {"columns": ["x"], "data": []}}', "application/json", 400, "rows as long"),
        (b"1.0\n{", JSON_LINES, 400, ""),
        (b"", JSON_LINES, 400, "No values"),
        (b"a,b\n1,2", "text/csv", 415, "received 'text/csv'"),
        (b"no photo", "image/jpeg", 415, ""),
        (b'{"dataframe_split": {"columns": ["x"], "data": [[1.0, 2.0]]}}', "application/json", 400, "rows as long"),
        (b'{"dataframe_split": []}', "application/json", 400, "dataframe_split"),
        (b'{"dataframe_split": {"columns": [1.5], "data": [[1]]}}', "application/json", 400, "names"),
        (b'{"dataframe_split": {"columns": [], "data": [[]]}}', "application/json", 400, "names"),
        (b'{"dataframe_split": {"columns": ["x", "x"], "data": [[1.0, 2.0]]}}', "application/json", 400, "several columns x"),
        (b'{"inputs": [2.0], "dataframe_split": {}}', "application/json", 400, "received inputs and dataframe_split"),
        (b'{"dataframe_records": [{}]}', "application/json", 400, "input: x"),
        (b'[[1]], "signature_name": "none"', "application/json", 200, ""),  # as TensorFlow Serving: what follows is not read
        (b'{"instances": [1.0], "parameters": []}', "application/json", 200, ""),
        (b'{"instances": [1.0], "parameters": [1]}', "application/json", 400, "parameters"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_with_a_sentence(
    client: FlaskClient, data: bytes, kind: str, status: int, words: str
) -> None:
    response = client.post("/invocations", data=data, content_type=kind)
    assert response.status_code == status
    assert words in json.dumps(response.json)
    assert status == 200 or set(response.json) == {"error", "request_id"}


@pytest.mark.parametrize("version", ["x", "-1", "9" * 30])
def test_a_version_that_is_no_number_is_refused(client: FlaskClient, version: str) -> None:
    headers = {"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-version={version}"}
    response = client.post("/invocations", json={"instances": [1.0]}, headers=headers)
    assert response.status_code == 400
    assert "tfs-model-version" in response.json["error"]


def test_vertex_ais_variables_name_port_and_routes(models: Path) -> None:
    environ = {
        "AIP_HTTP_PORT": "8080",
        "AIP_STORAGE_URI": "gs://bucket/a4b/models",
        "AIP_HEALTH_ROUTE": "/v1/endpoints/5/deployedModels/6",
        "AIP_PREDICT_ROUTE": "/v1/endpoints/5/deployedModels/6:predict",
    }
    settings = Settings.from_environment(environ)
    assert (settings.port, settings.models) == (8080, "gs://bucket/a4b/models")
    routes = {"health_route": settings.health_route, "predict_route": settings.predict_route}
    client = client_of(models, default_model="half_plus_two", **routes)
    assert client.get(environ["AIP_HEALTH_ROUTE"]).status_code == 200
    body = {"instances": [1.0], "parameters": {"confidence_threshold": 0.5}}
    answer = client.post(environ["AIP_PREDICT_ROUTE"], json=body)
    assert (answer.status_code, answer.json) == (200, {"predictions": [2.5]})
    with pytest.raises(click.UsageError, match="expected a path that begins with /"):
        Settings.from_environment({"AIP_HEALTH_ROUTE": "health"})
    stated = Settings.from_environment({**environ, "DOGSNAP_PORT": "9000"})
    assert stated.port == 9000
    without = Settings.from_environment({**environ, "AIP_STORAGE_URI": ""})
    assert without.models == Settings().models
