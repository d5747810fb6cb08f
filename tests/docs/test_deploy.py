"""Deployment files: each is taken by the tool that reads its kind, and what it names is there. Nothing is deployed here."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from ports import free_port
from real_model import ROOT

from backend.cli import main
from backend.commands import deploy as deploy_command
from backend.settings import OTHER_VARIABLES, Settings, table, variable

DEPLOY = ROOT / "backend" / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
INFERENCE_SERVICE = KUBERNETES / "kserve_inference_service.yaml"
MANIFESTS = sorted(set(KUBERNETES.glob("*.yaml")) - {INFERENCE_SERVICE})
PROMTOOL, KUBECTL = shutil.which("promtool"), shutil.which("kubectl")
# Of a KServe predictor, beside the fields of a pod: those of its ComponentExtensionSpec that are used here.
KSERVE_FIELDS = {"minReplicas", "maxReplicas", "scaleMetric", "scaleTarget"}


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess:
    """Run a program of the tests' dependencies."""
    command = [Path(sys.executable).with_name(name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def changed(file: Path, old: str, new: str, folder: Path) -> Path:
    """A copy of a file with something else in it, to see that its tool looks."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    copy = folder / file.name
    copy.write_text(text.replace(old, new), encoding="utf-8")
    return copy


# -- Dockerfile --------------------------------------------------------------------------------------------------------


def test_hadolint_takes_the_dockerfile_and_would_not_take_a_worse_one(tmp_path) -> None:
    done = tool("hadolint", DEPLOY / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")
    worse = changed(DEPLOY / "Dockerfile", "python:3.12-slim-bookworm", "python:latest", tmp_path)
    assert "DL3007" in tool("hadolint", worse).stdout


def dockerfile() -> str:
    return (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


# Folder -> what a RUN line finds there; "" is the base image.
PROGRAMS = {
    "": {"python", "rm", "find", "useradd", "export"},
    "/opt/venv/bin": {"python", "pip"},
    "/opt/node/bin": {"node", "npm"},
}


def not_found(text: str) -> list[str]:
    """The commands of RUN lines that are not on the PATH of their stage."""
    missing = []
    for stage in re.split(r"^FROM ", text, flags=re.M)[1:]:
        path = re.findall(r"^ENV .*?\bPATH=(\S+)", stage, re.M)
        for line in re.findall(r"^RUN (.*)$", stage, re.M):
            folders = ":".join(path)
            for words in (part.split() for part in line.split("&&")):
                if words[0] == "export":
                    folders += f":{words[1]}"
                reached = set().union(*(names for folder, names in PROGRAMS.items() if not folder or folder in folders))
                if words[0] not in reached and not words[0].startswith("/opt/node/bin/"):
                    missing.append(words[0])
    return missing


def test_every_command_of_the_dockerfile_is_on_the_path_of_its_stage() -> None:
    assert not_found(dockerfile()) == []
    without = re.sub(r"&& export PATH=\S+", "", dockerfile())
    assert not_found(without) == ["npm", "node"]


def test_what_the_image_leaves_out_of_the_environment_is_there_to_be_left_out() -> None:
    packages = Path(np.__file__).parent.parent
    removed = re.findall(r"/opt/venv/lib/python3\.\*/site-packages/(\S+)", dockerfile())
    assert len(removed) >= 7
    for name in removed:
        assert list(packages.glob(name)), name


def test_the_image_does_not_run_as_root() -> None:
    last_stage = dockerfile().rpartition("\nFROM ")[2]
    assert re.findall(r"^USER (\d+)$", last_stage, re.M) == ["10001"]


def test_what_is_copied_into_the_image_is_there_and_not_kept_out_of_it() -> None:
    let_in = re.findall(r"^!(\S+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8"), re.M)
    copied = [name for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile(), re.M) for name in line.split()[:-1]]
    assert len(copied) >= 5
    for name in copied:
        assert (ROOT / name).exists(), name
        assert name.partition("/")[0] in let_in


def test_the_images_health_check_is_well_with_a_server_and_not_without(colour_server) -> None:
    command = json.loads(re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", dockerfile(), re.M)[1])
    for port, expected in ((colour_server.port, 0), (free_port(), 1)):
        program = [sys.executable, *(part.replace("8501", str(port)) for part in command[1:])]
        assert subprocess.run(program, stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == expected


def test_every_setting_that_a_file_makes_exists() -> None:
    known = {variable(row.name) for row in table()} | set(OTHER_VARIABLES)
    files = [DEPLOY / "Dockerfile", DEPLOY / "compose.yaml", *KUBERNETES.glob("*.yaml")]
    made = {name for file in files for name in re.findall(r"DOGSNAP_[A-Z_]+", file.read_text(encoding="utf-8"))}
    assert {"DOGSNAP_ENGINE", "DOGSNAP_HOST", "DOGSNAP_MODELS"} <= made <= known


# -- compose -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compose() -> dict:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def test_the_compose_file_follows_composes_own_schema(tmp_path) -> None:
    check = ("--builtin-schema", "vendor.compose-spec")
    done = tool("check-jsonschema", *check, DEPLOY / "compose.yaml")
    assert done.returncode == 0, done.stdout
    wrong = changed(DEPLOY / "compose.yaml", "    image: dogsnap\n", "    imagge: dogsnap\n", tmp_path)
    assert tool("check-jsonschema", *check, wrong).returncode == 1


def test_what_compose_mounts_and_builds_is_there(compose) -> None:
    mounts = [mount for service in compose["services"].values() for mount in service.get("volumes", [])]
    files = [mount.split(":")[0] for mount in mounts if mount.startswith(".")]
    assert len(files) >= 8
    for file in [*files, "../../backend/deploy/Dockerfile"]:
        assert (DEPLOY / file).exists(), file


def test_compose_opens_ports_to_this_machine_alone(compose) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_tensorflow_serving_finds_the_configuration_that_it_is_told_of(compose) -> None:
    service = compose["services"]["tensorflow-serving"]
    mounted = {mount.split(":")[1] for mount in service["volumes"]}
    told = {value for flag in service["command"] for name, _, value in [flag.partition("=")] if name.endswith("_file")}
    assert len(told) == 3
    assert told <= mounted


@pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian's package prometheus), which reads it, is missing")
def test_prometheus_takes_its_configuration() -> None:
    check = [PROMTOOL, "check", "config", "--syntax-only", DEPLOY / "prometheus.yml"]
    done = subprocess.run(check, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_prometheus_asks_services_of_the_compose_file_and_grafana_asks_prometheus(compose) -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    targets = {target.split(":")[0] for job in jobs for config in job["static_configs"] for target in config["targets"]}
    source = yaml.safe_load((DEPLOY / "grafana" / "datasources.yml").read_text(encoding="utf-8"))["datasources"][0]
    assert targets == {"gateway", "tensorflow-serving"}
    assert targets | {re.search(r"//(\w+):", source["url"])[1]} <= set(compose["services"])
    boards = yaml.safe_load((DEPLOY / "grafana" / "dashboards.yml").read_text(encoding="utf-8"))["providers"][0]
    mounted = [mount.split(":")[1] for mount in compose["services"]["grafana"]["volumes"]]
    assert f"{boards['options']['path']}/dogsnap.json" in mounted


# -- Kubernetes --------------------------------------------------------------------------------------------------------


def test_the_manifests_follow_kubernetes_own_schemas(tmp_path) -> None:
    done = tool("kubernetes-validate", "--strict", *MANIFESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = changed(KUBERNETES / "gateway.yaml", "replicas: 2", "replica: 2", tmp_path)
    assert tool("kubernetes-validate", "--strict", wrong).returncode != 0


def test_the_pod_of_kserves_inference_service_follows_kubernetes_own_schema(tmp_path) -> None:
    service = yaml.safe_load(INFERENCE_SERVICE.read_text(encoding="utf-8"))
    assert (service["apiVersion"], service["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    predictor = service["spec"]["predictor"]
    assert predictor["enableServiceLinks"] is False
    assert set(predictor) - {"containers", "volumes", "enableServiceLinks"} == KSERVE_FIELDS
    spec = {name: value for name, value in predictor.items() if name not in KSERVE_FIELDS}
    pod = tmp_path / "pod.yaml"
    pod.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}))
    done = tool("kubernetes-validate", "--strict", pod)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_manifests_fit_together() -> None:
    objects = [each for file in MANIFESTS for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    pods = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Deployment"}
    services = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Service"}
    for name, service in services.items():
        template = pods[name]["spec"]["template"]
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    engine = pods["gateway"]["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"]
    host, port = re.fullmatch(r"grpc://([a-z-]+):(\d+)", engine).groups()
    assert int(port) in {each["port"] for each in services[host]["spec"]["ports"]}


def test_pods_get_no_service_links_and_wait_until_no_request_comes() -> None:
    for file in (KUBERNETES / "gateway.yaml", KUBERNETES / "tensorflow_serving.yaml"):
        objects = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        (pod,) = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]
        assert pod["enableServiceLinks"] is False
        name, seconds = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
        assert name == "sleep"
        assert int(seconds) + Settings().drain_seconds < pod["terminationGracePeriodSeconds"]


def test_kustomize_finds_its_files_and_mounts_what_tensorflow_serving_is_told_of() -> None:
    kustomization = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text(encoding="utf-8"))
    (generated,) = kustomization["configMapGenerator"]
    for file in [*kustomization["resources"], *generated["files"]]:
        assert (DEPLOY / file).is_file(), file
    told = re.findall(r"_file=/config/(\S+)", (KUBERNETES / "tensorflow_serving.yaml").read_text(encoding="utf-8"))
    assert sorted(told) == sorted(generated["files"])


@pytest.mark.skipif(KUBECTL is None, reason="kubectl, which puts the manifests together, is missing")
def test_kubectl_puts_the_manifests_together() -> None:
    command = [KUBECTL, "kustomize", DEPLOY]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    kinds = [each["kind"] for each in yaml.safe_load_all(done.stdout)]
    assert {"ConfigMap", "Deployment", "Service", "PersistentVolumeClaim"} <= set(kinds)


# -- the command -------------------------------------------------------------------------------------------------------


def test_without_ray_the_command_says_how_to_install_it(monkeypatch) -> None:
    monkeypatch.setattr(deploy_command.importlib.util, "find_spec", lambda name: None)
    done = CliRunner().invoke(main, ["deploy", "ray"])
    assert (done.exit_code, done.output) == (1, "Error: Ray is not installed: make setup EXTRAS=ray\n")
