"""Deployment files: each is taken by the tool that reads its kind, and what it names is there. Nothing is deployed here."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from dogsnap.cli import main
from dogsnap.commands import deploy as deploy_command
from dogsnap.server import health
from dogsnap.server.health import flags_of
from dogsnap.settings import OTHER_VARIABLES, Settings, table, variable
from support.ports import free_port
from support.real_model import ROOT

DEPLOY = ROOT / "backend" / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
INFERENCE_SERVICE = KUBERNETES / "kserve_inference_service.yaml"
FLEET = DEPLOY / "overlays" / "fleet"
MANIFESTS = sorted(
    {*KUBERNETES.glob("*.yaml"), *FLEET.glob("*.yaml")}
    - {INFERENCE_SERVICE, FLEET / "kustomization.yaml"}
)
PROMTOOL = shutil.which("promtool")
# Of a KServe predictor, beside the fields of a pod: those of its ComponentExtensionSpec that are used here.
KSERVE_FIELDS = {"minReplicas", "maxReplicas", "scaleMetric", "scaleTarget"}


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess:
    """Run a program of the tests' dependencies."""
    command = [Path(sys.executable).with_name(name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


# -- Dockerfile --------------------------------------------------------------------------------------------------------


def test_hadolint_takes_the_dockerfile_whose_image_does_not_run_as_root() -> None:
    done = tool("hadolint", DEPLOY / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")
    last_stage = dockerfile().rpartition("\nFROM ")[2]
    assert re.findall(r"^USER (\d+)$", last_stage, re.M) == ["10001"]


def dockerfile() -> str:
    return (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def test_the_image_gets_nothing_that_git_ignores_such_as_packages_of_node_in_any_folder() -> None:
    left_out = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    taken = [line[1:] for line in left_out if line.startswith("!")]
    for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines():
        pattern = line.rstrip("/")
        if not pattern.startswith("/"):
            assert f"**/{pattern}" in left_out, line
        elif pattern.split("/")[1] in taken:
            assert pattern[1:] in left_out, line


def test_what_the_image_leaves_out_of_the_environment_is_there_to_be_left_out() -> None:
    packages = Path(np.__file__).parent.parent
    removed = set(re.findall(r"/opt/venv/lib/python3\.\*/site-packages/(\S+)", dockerfile()))
    assert len(removed) >= 9
    for name in removed - {"botocore/data"}:  # of the extra buckets, which tests need not
        assert list(packages.glob(name)), name


def test_the_images_health_check_is_well_with_a_server_and_not_without(colour_server) -> None:
    command = json.loads(re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", dockerfile(), re.M)[1])

    def check(port: int, **environ: str) -> int:
        program = [sys.executable, *(part.replace("8501", str(port)) for part in command[1:])]
        environ = {**os.environ, **environ}
        return subprocess.run(program, env=environ, timeout=60, check=False).returncode

    port = colour_server.port
    assert (check(port), check(free_port())) == (0, 1)
    # A port that is set, whatever proxy there is for others.
    assert check(8501, DOGSNAP_PORT=str(port), http_proxy=f"http://127.0.0.1:{free_port()}") == 0


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("python /opt/venv/bin/dogsnap serve --port 9 --tls-cert=/c", {"port": "9", "tls_cert": "/c"}),
        ("/sbin/docker-init -- dogsnap serve --settings-file /s", {"settings_file": "/s"}),
        ("dogsnap model-server --port=8 --rest_api_port=9", {"port": "9"}),
        ("dogsnap serve", {}),
        ("dogsnap", None),
        ("/bin/sh -c serve --port 9", None),
    ],
)  # fmt: skip
def test_the_health_check_asks_where_the_flags_of_the_first_process_say(line, flags) -> None:
    assert flags_of([*line.split(" "), ""]) == flags


def test_the_health_check_knows_the_flags_of_a_server_whose_variables_it_may_not_read(monkeypatch):
    def words_of(file: Path) -> list[str]:
        if file.name == "environ":
            raise PermissionError(file)
        return ["dogsnap", "serve", "--port", "9", ""]

    monkeypatch.setattr(health, "_words_of", words_of)
    assert health.find_server() == ({"port": "9"}, os.environ)


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="only root has processes of its own"
)
@pytest.mark.parametrize("start", ["DOGSNAP_PORT={} {} serve", "{1} serve --port {0}"])
def test_the_health_check_asks_the_server_that_a_script_has_started(start, tmp_path) -> None:
    port, server = free_port(), tmp_path / "dogsnap"
    server.write_text(
        "import http.server\n"
        "class Well(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200)\n"
        "        self.end_headers()\n"
        f"http.server.HTTPServer(('127.0.0.1', {port}), Well).serve_forever()\n"
    )
    check = f"{sys.executable} -m dogsnap.server.health {free_port()}"
    wait = f"for _ in 1 2 3 4 5 6 7 8; do {check} && exit 0; sleep 1; done; exit 1"
    script = f"{start.format(port, f'{sys.executable} {server}')} & {wait}"
    apart = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script]
    assert subprocess.run(apart, timeout=100, check=False).returncode == 0


def test_every_setting_that_a_file_makes_exists() -> None:
    known = {variable(row.name) for row in table()} | set(OTHER_VARIABLES)
    files = [DEPLOY / "Dockerfile", DEPLOY / "compose.yaml", INFERENCE_SERVICE, *MANIFESTS]
    made = {
        name
        for file in files
        for name in re.findall(r"DOGSNAP_[A-Z_]+", file.read_text(encoding="utf-8"))
    }
    assert {"DOGSNAP_ENGINE", "DOGSNAP_HOST", "DOGSNAP_FEEDBACK"} <= made <= known


# -- compose -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compose() -> dict:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def test_the_compose_file_follows_composes_own_schema_and_opens_ports_to_this_machine_alone(
    compose,
) -> None:
    done = tool(
        "check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml"
    )
    assert done.returncode == 0, done.stdout
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert len(ports) == 6
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_what_compose_mounts_and_builds_is_there(compose) -> None:
    mounts = [
        mount for service in compose["services"].values() for mount in service.get("volumes", [])
    ]
    files = [mount.split(":")[0] for mount in mounts if mount.startswith(".")]
    assert len(files) >= 8
    for file in [*files, "../../backend/deploy/Dockerfile"]:
        assert (DEPLOY / file).exists(), file


def test_tensorflow_serving_finds_the_configuration_that_it_is_told_of(compose) -> None:
    service = compose["services"]["tensorflow-serving-1"]
    mounted = {mount.split(":")[1] for mount in service["volumes"]}
    told = {
        value
        for flag in service["command"]
        for name, _, value in [flag.partition("=")]
        if name.endswith("_file")
    }
    assert len(told) == 3
    assert told <= mounted


@pytest.mark.skipif(
    PROMTOOL is None, reason="promtool (Debian's package prometheus), which reads it, is missing"
)
def test_prometheus_takes_its_configuration() -> None:
    check = [PROMTOOL, "check", "config", "--syntax-only", DEPLOY / "prometheus.yml"]
    done = subprocess.run(check, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_prometheus_asks_services_of_the_compose_file_and_grafana_asks_prometheus(compose) -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    targets, found_by_name = set(), set()
    for job in jobs:
        for config in job.get("static_configs", ()):
            targets.update(target.split(":")[0] for target in config["targets"])
        for config in job["dns_sd_configs"]:
            found_by_name.update(config["names"])
    source = yaml.safe_load((DEPLOY / "grafana" / "datasources.yml").read_text(encoding="utf-8"))[
        "datasources"
    ][0]
    fleet = {
        name for name, each in compose["services"].items() if each.get("profiles") == ["fleet"]
    }
    assert targets == {"dogsnap"}  # what may not run must not be missed
    assert found_by_name == fleet - {"redis"}
    assert targets | {re.search(r"//(\w+):", source["url"])[1]} <= set(compose["services"])
    boards = yaml.safe_load((DEPLOY / "grafana" / "dashboards.yml").read_text(encoding="utf-8"))[
        "providers"
    ][0]
    mounted = [mount.split(":")[1] for mount in compose["services"]["grafana"]["volumes"]]
    assert f"{boards['options']['path']}/dogsnap.json" in mounted


# -- Kubernetes --------------------------------------------------------------------------------------------------------


def test_the_manifests_and_the_pod_of_kserves_inference_service_follow_kubernetes_own_schemas(
    tmp_path,
) -> None:
    service = yaml.safe_load(INFERENCE_SERVICE.read_text(encoding="utf-8"))
    assert (service["apiVersion"], service["kind"]) == (
        "serving.kserve.io/v1beta1",
        "InferenceService",
    )
    predictor = service["spec"]["predictor"]
    assert predictor["enableServiceLinks"] is False
    assert set(predictor) - {"containers", "volumes", "enableServiceLinks"} == KSERVE_FIELDS
    spec = {name: value for name, value in predictor.items() if name not in KSERVE_FIELDS}
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    )
    done = tool("kubernetes-validate", "--strict", *MANIFESTS, pod)
    assert done.returncode == 0, done.stdout + done.stderr


def objects_of(*files: Path) -> list[dict]:
    found = []
    for file in files:
        found += yaml.safe_load_all(file.read_text(encoding="utf-8"))
    return found


WORKLOADS = ("Deployment", "StatefulSet")


def test_the_manifests_fit_together() -> None:
    objects = objects_of(*MANIFESTS)
    pods = {each["metadata"]["name"]: each for each in objects if each["kind"] in WORKLOADS}
    services = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Service"}
    assert pods.keys() == services.keys() == {"dogsnap", "gateway", "tensorflow-serving", "redis"}
    for name, service in services.items():
        template = pods[name]["spec"]["template"]
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    container = pods["gateway"]["spec"]["template"]["spec"]["containers"][0]
    settings = {each["name"]: each.get("value", "") for each in container["env"]}
    for name, scheme in (("DOGSNAP_ENGINE", "grpc"), ("DOGSNAP_SWITCH_LOG", "redis")):
        host, port = re.fullmatch(rf"{scheme}://([a-z-]+):(\d+)", settings[name]).groups()
        assert int(port) in {each["port"] for each in services[host]["spec"]["ports"]}


def test_what_is_switched_outlives_every_container(compose) -> None:
    """In the image's state folder, or in a Redis that has acknowledged nothing which is not on disk."""
    state = re.search(r"XDG_STATE_HOME=(\S+)", dockerfile())[1]
    assert re.findall(r"^VOLUME (\S+)$", dockerfile(), re.M) == [state]
    assert f"state:{state}" in compose["services"]["dogsnap"]["volumes"]
    objects = objects_of(*MANIFESTS)
    pods = {each["metadata"]["name"]: each for each in objects if each["kind"] in WORKLOADS}
    for name, folder in (("dogsnap", state), ("redis", "/data")):
        spec = pods[name]["spec"]
        (claim,) = spec["volumeClaimTemplates"]
        mounts = spec["template"]["spec"]["containers"][0]["volumeMounts"]
        assert {"name": claim["metadata"]["name"], "mountPath": folder} in mounts
    for command in (
        compose["services"]["redis"]["command"],
        pods["redis"]["spec"]["template"]["spec"]["containers"][0]["args"],
    ):
        assert "--appendonly yes --appendfsync always" in " ".join(command)


def test_pods_get_no_service_links_and_wait_until_no_request_comes() -> None:
    pods = {}
    for each in objects_of(*MANIFESTS):
        if each["kind"] in WORKLOADS:
            pods[each["metadata"]["name"]] = each["spec"]["template"]["spec"]
    assert all(pod["enableServiceLinks"] is False for pod in pods.values())
    for name in ("dogsnap", "gateway", "tensorflow-serving"):
        pod = pods[name]
        program, seconds = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
        assert program == "sleep"
        assert int(seconds) + Settings().drain_seconds < pod["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("folder", [DEPLOY, FLEET])
def test_kustomize_finds_its_files_below_its_own_folder(folder) -> None:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    generated = [
        name for each in kustomization.get("configMapGenerator", ()) for name in each["files"]
    ]
    for name in [*kustomization["resources"], *generated]:
        path = folder / name
        assert (path / "kustomization.yaml").is_file() if path.is_dir() else path.is_file(), name
        assert path.is_dir() or path.resolve().is_relative_to(folder)  # kustomize's own rule


def test_the_generated_configuration_is_what_tensorflow_serving_is_told_of() -> None:
    kustomization = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text(encoding="utf-8"))
    (generated,) = kustomization["configMapGenerator"]
    text = (FLEET / "tensorflow_serving.yaml").read_text(encoding="utf-8")
    assert sorted(re.findall(r"_file=/config/(\S+)", text)) == sorted(generated["files"])


# -- Helm --------------------------------------------------------------------------------------------------------------

CHART = DEPLOY / "chart"
with_helm = pytest.mark.skipif(
    find_spec("helm_python") is None,
    reason="helm-python-sdk, which renders the chart with Helm's own code, is missing",
)


def kustomized(folder: Path) -> dict[str, dict]:
    """What `kubectl kustomize` makes of a folder, by kind and name, as far as its files use it."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    objects = {}
    for name in kustomization["resources"]:
        path = folder / name
        objects |= kustomized(path) if path.is_dir() else by_name(objects_of(path))
    for generated in kustomization.get("configMapGenerator", ()):
        data = {name: (folder / name).read_text(encoding="utf-8") for name in generated["files"]}
        metadata = {"name": generated["name"]}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        objects |= by_name([config])
    for added in kustomization.get("labels", ()):
        for each in objects.values():
            each["metadata"].setdefault("labels", {}).update(added["pairs"])
    for patch in kustomization.get("patches", ()):
        assert "$patch: delete" in patch["patch"]
        del objects[f"{patch['target']['kind']}/{patch['target']['name']}"]
    return objects


def by_name(objects: list[dict]) -> dict[str, dict]:
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in objects}


# Helm is a library in Go, which ended processes of pytest-xdist that had run other tests before: it gets one of its own.
HELM = """
import json, sys
from pathlib import Path
import helm_python

chart, values = Path(sys.argv[1]), json.loads(sys.argv[2])
try:
    if values is None:
        answer = helm_python.lint(chart, strict=True)
    else:
        with helm_python.Chart.load(chart) as loaded:
            answer = loaded.render(values, name="dogs", namespace="dogs")
except helm_python.HelmError as error:
    sys.exit(str(error))
print(json.dumps(dict(answer)))
"""


def run_helm(values: dict[str, object] | None) -> subprocess.CompletedProcess[str]:
    """Render the chart with these values; None: check it."""
    command = [sys.executable, "-c", HELM, str(CHART), json.dumps(values)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def rendered(**values: object) -> dict[str, dict]:
    """What `helm template` makes of the chart."""
    done = run_helm(values)
    assert done.returncode == 0, done.stderr
    texts = json.loads(done.stdout).values()
    return by_name([each for text in texts for each in yaml.safe_load_all(text)])


@with_helm
@pytest.mark.parametrize(("folder", "values"), [(DEPLOY, {}), (FLEET, {"fleet": True})])
def test_the_chart_renders_what_kustomize_makes(folder, values) -> None:
    assert rendered(**values) == kustomized(folder)


@with_helm
@pytest.mark.parametrize(
    ("fleet", "name"), [(False, "StatefulSet/dogsnap"), (True, "Deployment/gateway")]
)
def test_values_of_the_chart_take_the_place_of_what_the_manifests_say(fleet, name) -> None:
    plain = rendered(fleet=fleet)
    settings = {"DOGSNAP_MAX_HELD_MB": 512, "DOGSNAP_TRUSTED_PROXIES": "1"}
    changed = {name: {"spec": {"replicas": 3, "template": {"spec": {"nodeSelector": {"a": "b"}}}}}}
    objects = rendered(fleet=fleet, image="own/dogs:7", settings=settings, objects=changed)
    spec = objects.pop(name)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    before = plain.pop(name)["spec"]["template"]["spec"]["containers"][0]["env"]
    assert env == {
        **{each["name"]: each.get("value") for each in before},
        "DOGSNAP_MAX_HELD_MB": "512",
        "DOGSNAP_TRUSTED_PROXIES": "1",
    }
    assert (container["image"], spec["replicas"]) == ("own/dogs:7", 3)
    assert spec["template"]["spec"]["nodeSelector"] == {"a": "b"}
    assert objects == plain


@with_helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"objects": {"Deployment/dogs": {}}}, "expected one of PersistentVolumeClaim/dogsnap-models"),
        ({"replicas": 3}, "replicas"),
        ({"settings": {"PORT": 1}}, "PORT"),
        ({"image": 7}, "image"),
    ],
)  # fmt: skip
def test_a_value_that_the_chart_does_not_know_is_refused(values, said) -> None:
    done = run_helm(values)
    assert done.returncode == 1
    assert said in done.stderr


@with_helm
def test_helm_finds_nothing_wrong_with_the_chart() -> None:
    found = json.loads(run_helm(None).stdout)
    assert (found["errors"], [each["error"] for each in found["messages"]]) == (
        [],
        ["icon is recommended"],
    )


# -- the command -------------------------------------------------------------------------------------------------------


def test_without_ray_the_command_says_how_to_install_it(monkeypatch) -> None:
    monkeypatch.setattr(deploy_command.importlib.util, "find_spec", lambda name: None)
    done = CliRunner().invoke(main, ["deploy", "ray"])
    assert (done.exit_code, done.output) == (
        1,
        "Error: Ray is not installed: make setup EXTRAS=ray\n",
    )
