"""What /metrics shows, and that the dashboard and the alerts ask for nothing else."""

import json
import re
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path

import grpc
import pytest
from dogsnap.server.middleware import api_keys
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.tensors.signatures import ServableId
from prometheus_client.exposition import generate_latest
from support.colour_photos import encode, plain
from support.grpc_client import connected, predict_request
from support.process_readings import sample

DEPLOY = Path(__file__).parents[2] / "backend" / "deploy"
PROMTOOL = shutil.which("promtool")
OWN = {"up"}  # what Prometheus adds itself
OF_GATEWAYS = {"dogsnap_engines_silent", "dogsnap_engines_lacking"}
SUFFIXES = ("_bucket", "_sum", "_count", "")
PHOTO = encode(plain(), "JPEG")


@pytest.fixture(scope="module")
def page(start_server, colour_models, tmp_path_factory) -> str:
    """The metrics after a request by every protocol, one that is refused, and a version that does not load."""
    models = tmp_path_factory.mktemp("metrics") / "models"
    shutil.copytree(colour_models / "inception_v3", models / "inception_v3")
    shutil.copytree(models / "inception_v3" / "2", models / "inception_v3" / "3")
    (models / "inception_v3" / "3" / "saved_model.pb").write_bytes(b"damaged")
    keys = models.parent / "keys.json"
    key = api_keys.add(keys, "test")
    server = start_server(models, "--api-keys", keys)
    headers = {"X-Api-Key": key}
    for photo, sent, status in (
        (PHOTO, headers, 200),
        (b"no photo", headers, 415),
        (PHOTO, {}, 401),
    ):
        assert server.classify(photo, sent).status_code == status
    four = {"instances": [[[[0.5, 0.1, 0.1]] * 16] * 16] * 4}
    path = "/v1/models/inception_v3/versions/1:predict"
    assert server.post(path, json=four, headers=headers).status_code == 200
    assert server.post("/", files={"image": ("dog.jpg", PHOTO)}, headers=headers).status_code == 200
    request = predict_request("inception_v3", image=[b64encode(PHOTO)])
    with connected(server.grpc_port) as client:
        client.prediction.Predict(request, 60, metadata=[("x-api-key", key)])
    return server.get("/metrics").text


@pytest.mark.parametrize("protocol", ["api", "rest", "simple", "grpc"])
def test_requests_are_counted_by_model_version_protocol_and_outcome(page, protocol):
    of = rf'door="{protocol}",model="inception_v3"'
    assert re.search(rf'dogsnap_requests_total{{{of},outcome="OK",version="[12]"}} 1\.0', page)
    # By the app's API a file that is no photo, too.
    count = 2 if protocol == "api" else 1
    assert re.search(rf'dogsnap_request_seconds_count{{{of},version="[12]"}} {count}\.0', page)


@pytest.mark.parametrize(
    "sample",
    [
        'dogsnap_requests_total{door="api",model="inception_v3",outcome="INVALID_ARGUMENT",version="2"} 1.0',
        'dogsnap_step_seconds_count{model="",step="check",version=""} ',
        'dogsnap_step_seconds_count{model="inception_v3",step="queue",version="2"} ',
        'dogsnap_step_seconds_count{model="inception_v3",step="run",version="2"} ',
        'dogsnap_step_seconds_count{model="inception_v3",step="name",version="2"} 1.0',
        'dogsnap_batch_size_sum{model="inception_v3",version="1"} 4.0',
        'dogsnap_refused_requests_total{door="api",reason="key"} 1.0',
        'dogsnap_version_available{model="inception_v3",version="2"} 1.0',
        'dogsnap_failed_loads_total{model="inception_v3",version="3"} 1.0',
        'dogsnap_load_seconds{model="inception_v3",version="2"} ',
        'dogsnap_load_duration_seconds_count{model="inception_v3"} 2.0',
        'dogsnap_routed_requests_total{label="",model="inception_v3",version="1"} 0.0',
        "dogsnap_places 72.0",
        "dogsnap_queue_length 0.0",
        "process_resident_memory_bytes ",
        "process_open_fds ",
    ],
)
def test_steps_batches_refusals_loads_queue_and_memory_are_there(page, sample):
    assert f"\n{sample}" in page


@pytest.mark.parametrize(
    ("counter", "labels", "kind"),
    [
        ("requests", 'door="grpc",model="inception_v3",version="2"', "outcome"),
        ("requests", 'door="rest",model="",version=""', "outcome"),
        ("answers", 'model="inception_v3",version="2"', "level"),
        ("answers", 'model="inception_v3",version="1"', "level"),
        ("feedback", 'model="inception_v3",version="2"', "verdict"),
        ("refused_requests", 'door="simple"', "reason"),
    ],
)
def test_what_has_not_happened_yet_is_counted_as_0_so_that_the_first_time_is_an_increase(
    page, counter, labels, kind
):
    found = {}
    for line in page.splitlines():
        if line.startswith(f"dogsnap_{counter}_total{{"):
            pairs = dict(re.findall(r'(\w+)="([^"]*)"', line))
            if dict(re.findall(r'(\w+)="([^"]*)"', labels)).items() <= pairs.items():
                found[pairs[kind]] = float(line.rpartition(" ")[2])
    assert len(found) >= 3
    assert 0.0 in found.values()


@pytest.mark.parametrize(
    ("method", "sent", "outcome"),
    [
        ("rest", ("/v1/models/inception_v3:predict", b'{"instances": ['), "INVALID_ARGUMENT"),
        ("rest", ("/v1/models/inception_v3:predict", bytes(2 << 20)), "INVALID_ARGUMENT"),
        ("api", ("/api/classify", bytes(2 << 20)), "INVALID_ARGUMENT"),
        ("api", ("/api/classify", b"{"), "INVALID_ARGUMENT"),
        ("simple", ("/", b"{"), "INVALID_ARGUMENT"),
        ("open_inference", ("/v2/models/inception_v3/infer", b"{"), "INVALID_ARGUMENT"),
        ("open_inference", ("/v2/models/none/infer", b'{"inputs": []}'), "NOT_FOUND"),
        ("api", ("/api/feedback", b"{"), None),
        ("api", ("/api/upright", b"{"), None),
    ],
)
def test_what_cannot_be_read_is_counted_once_with_its_outcome_by_its_protocol(
    small_server, method, sent, outcome
):
    def counted() -> dict[str, float]:
        shown = small_server.get("/metrics").text
        lines = re.findall(r"^dogsnap_requests_total\{(.*)\} (\S+)$", shown, re.M)
        counts: dict[str, float] = {}
        for labels, value in lines:
            pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            name = f"{pairs['door']} {pairs['outcome']}"
            counts[name] = counts.get(name, 0.0) + float(value)
        return counts

    before, (path, body) = counted(), sent
    answer = small_server.post(path, data=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500
    after = counted()
    more = {name: after[name] - before.get(name, 0.0) for name in after}
    expected = {f"{method} {outcome}": 1.0} if outcome else {}
    assert {name: count for name, count in more.items() if count} == expected


@pytest.fixture(scope="module")
def small_server(start_server, colour_models):
    return start_server(colour_models, "--max-body-mb", "1", "--max-tensor-body-mb", "1")


def test_a_call_that_cannot_be_read_is_counted_with_its_status(small_server):
    def counted() -> float:
        of = 'door="grpc",model="",outcome="INVALID_ARGUMENT",version=""'
        return sample(small_server, "dogsnap_requests_total", of)

    before = counted()
    with grpc.insecure_channel(f"127.0.0.1:{small_server.grpc_port}") as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        with pytest.raises(grpc.RpcError):
            call(b"no message", timeout=60)
        with pytest.raises(grpc.RpcError):  # it names no model
            call(predict_request("", image=[b"x"]).SerializeToString(), timeout=60)
    assert counted() == before + 2


@pytest.mark.skipif(
    PROMTOOL is None,
    reason="promtool, which reads the rules, is missing: install Debian's prometheus",
)
@pytest.mark.parametrize("values", ["0+0x5 1+0x30", "_x5 1+0x30", "1+0x35"])
def test_a_load_that_fails_once_fires_whether_or_not_its_counter_was_seen_at_0(tmp_path, values):
    series = 'dogsnap_failed_loads_total{model="m",version="2"}'
    test = {
        "rule_files": [str(DEPLOY / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": values}],
                "promql_expr_test": [
                    {
                        "expr": 'count(ALERTS{alertname="DogsnapVersionNotLoaded"})',
                        "eval_time": "10m",
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    },
                    {
                        "expr": 'count(ALERTS{alertname="DogsnapVersionNotLoaded"})',
                        "eval_time": "34m",
                        "exp_samples": [],
                    },
                ],
            }
        ],
    }
    file = tmp_path / "test.json"
    file.write_text(json.dumps(test))
    done = subprocess.run(
        [PROMTOOL, "test", "rules", str(file)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_version_that_is_gone_leaves_no_number_to_the_next_one_of_its_name():
    metrics, gone = Metrics(), ServableId("dogs", 2)
    for shadow, answered in ((2, ServableId("dogs", 1)), (1, gone), (2, ServableId("cats", 1))):
        metrics.count_shadow(answered, shadow, "agree", 5)
    metrics.forget(gone)
    metrics.count_shadow(ServableId("dogs", 1), 2, "agree", 1)
    shown = generate_latest(metrics.registry).decode()
    found = re.findall(r'^dogsnap_shadowed_photos_total\{model="(\w+)",.*\} (\S+)$', shown, re.M)
    some = [each for each in found if each[1] != "0.0"]
    assert sorted(some) == [("cats", "5.0"), ("dogs", "1.0")]


KEYWORDS = ("or", "and", "unless", "group_left", "group_right")


def metrics_in(expression: str) -> set[str]:
    """The metrics that a PromQL expression reads: words that are no function, label, keyword or number."""
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\b(by|without|offset|on)\s*(\([^)]*\)|\w+)", "", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    return {
        word for word in re.findall(r"[a-zA-Z_:][\w:]*(?!\w*\s*\()", bare) if word not in KEYWORDS
    }


def expressions() -> dict[str, str]:
    """Every expression of the dashboard and the alerts, by its title."""
    board = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    found = {
        f"{panel['title']} {t['refId']}": t["expr"]
        for panel in board["panels"]
        for t in panel["targets"]
    }
    alerts = (DEPLOY / "alerts.yml").read_text(encoding="utf-8")
    named = re.findall(r"- alert: (\w+)\n\s+expr: (.+)", alerts)
    assert len(named) == alerts.count("- alert:") >= 8
    return {**found, **dict(named)}


@pytest.mark.parametrize("title", expressions())
def test_the_dashboard_and_the_alerts_ask_for_metrics_that_exist(page, title):
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
    names = {
        name + suffix
        for name, kind in kinds.items()
        for suffix in (SUFFIXES if kind == "histogram" else ("",))
    }
    asked = metrics_in(expressions()[title])
    assert asked
    assert asked <= names | OWN | OF_GATEWAYS


def test_every_metric_of_the_server_is_on_the_dashboard(page):
    asked = set().union(*(metrics_in(each) for each in expressions().values()))
    ours = {
        name
        for name in re.findall(r"^# TYPE (dogsnap_\S+) ", page, re.M)
        if not name.endswith("_created")
    }
    unseen = {name for name in ours if not any(each.startswith(name) for each in asked)}
    assert unseen == {"dogsnap_build_info", "dogsnap_load_duration_seconds"}


# A split gives version 2 five of a hundred requests; 15 in 100 of those fail: 0.75 % of all.
SPLIT_THAT_FAILS = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'dogsnap_requests_total{{door="app",model="m",version="1",outcome="OK"}}', values: '0+9500x20'}}
      - {{series: 'dogsnap_requests_total{{door="app",model="m",version="2",outcome="OK"}}', values: '0+425x20'}}
      - {{series: 'dogsnap_requests_total{{door="app",model="m",version="2",outcome="INTERNAL"}}', values: '0+75x20'}}
      - {{series: 'dogsnap_split_share{{model="m",label="{label}",version="{split}"}}', values: '0.05x20'}}
    alert_rule_test:
      - {{alertname: DogsnapFails, eval_time: 15m, exp_alerts: []}}
      - alertname: DogsnapVersionFails
        eval_time: 15m
        exp_alerts:
          - exp_labels: {{severity: page, model: m, version: "2"}}
            exp_annotations: {{summary: "More than 1 % of the requests to m version 2 fail by the server's own fault."}}
      - alertname: DogsnapSplitFails
        eval_time: 5m
        exp_alerts: {of_split}
"""
OF_SPLIT = """[{exp_labels: {severity: page, model: m, version: "2"}, exp_annotations: {summary: "m version 2, to which a split \
sends requests, fails: `dogsnap models undo`."}}]"""


@pytest.mark.skipif(
    PROMTOOL is None,
    reason="promtool, which reads the rules, is missing: install Debian's prometheus",
)
@pytest.mark.parametrize(("split", "of_split"), [(2, OF_SPLIT), (1, "[]")])
def test_a_version_that_fails_in_a_small_split_raises_an_alert_of_its_own(
    tmp_path, split, of_split
):
    text = SPLIT_THAT_FAILS.format(
        rules=DEPLOY / "alerts.yml", label="stable", split=split, of_split=of_split
    )
    (tmp_path / "rules_test.yml").write_text(text, encoding="utf-8")
    command = [PROMTOOL, "test", "rules", tmp_path / "rules_test.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
