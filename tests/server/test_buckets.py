"""Models at a URL: copied whole beside what answers. A bucket that is away, empty, slow or damaged costs nothing that runs."""

import asyncio
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import grpc
import pytest
from dogsnap.serving.versions import model_files
from dogsnap.serving.versions.model_files import Mirror
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from google.protobuf import text_format
from support.administration import with_token
from support.bucket import Bucket
from support.colour_photos import RED, encode, plain
from support.command_line import dogsnap, refused
from support.waiting import wait_until
from tensorflow_serving.apis import model_management_pb2, model_service_pb2_grpc

PREDICT = "/v1/models/half:predict"


@pytest.fixture
def bucket(tmp_path, half_models) -> Iterator[Bucket]:
    """With `half`, version 1: x / 2 + 1."""
    with Bucket(tmp_path / "bucket") as bucket:
        shutil.copytree(half_models / "half", bucket.folder / "half")
        yield bucket


@pytest.fixture
def cache(tmp_path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def start(start_server, cache):
    """Starts a server of a URL, which looks at it often."""
    return lambda url, *flags, **options: start_server(
        url, "--poll-seconds", "0.2", *flags, environ=cache, **options
    )


def answer(server, path: str = PREDICT) -> float | int:
    response = server.post(path, json={"instances": [2.0]})
    return response.json()["predictions"][0] if response.ok else response.status_code


def versions(server) -> dict[int, str]:
    response = server.get("/v1/models/half")
    told = response.json().get("model_version_status", [])
    return {int(each["version"]): each["state"] for each in told}


def test_models_in_a_bucket_are_served_and_new_versions_come_and_go(
    start, bucket, made_half, monkeypatch
):
    server = start(bucket.url)
    assert answer(server) == 2.0
    shutil.copytree(made_half, bucket.folder / "half" / "2")
    wait_until(lambda: versions(server) == {2: "AVAILABLE", 1: "AVAILABLE"})
    assert answer(server) == 2.0  # a new version takes over nothing
    assert answer(server, "/v1/models/half/versions/2:predict") == 3.0


def test_the_largest_version_answers_at_the_first_start_though_another_is_copied_before(
    start, bucket, made_half
):
    for number in (2, 10):
        shutil.copytree(made_half, bucket.folder / "half" / str(number))
    bucket.seconds = 0.02
    server = start(bucket.url)
    assert server.get("/v1/models/half/metadata").json()["model_spec"]["version"] == "10"


@pytest.mark.parametrize("harm", ["away", "refused", "emptied", "slow"])
def test_a_bucket_that_is_away_empty_slow_or_refuses_costs_nothing_that_runs(
    start, bucket, harm, made_half
):
    server = start(bucket.url)
    if harm == "away":
        bucket.close()
    elif harm == "refused":
        bucket.status = 403
    elif harm == "emptied":
        shutil.move(bucket.folder / "half", bucket.folder.parent / "half")
    else:
        bucket.seconds = 3600
    said = {
        "away": "cannot be read: ConnectionError",
        "refused": "cannot be read: PermissionError: access is denied",
        "emptied": "holds no version",
    }
    if harm in said:
        wait_until(lambda: said[harm] in server.log())
    wait_until(lambda: answer(server) == 2.0)
    assert server.get("/readyz").ok
    # What is chosen and unloaded meanwhile waits for no bucket.
    label = "/api/admin/models/half/labels/stable"
    assert server.post(label, json={"version": 1}, timeout=5).ok
    bucket.seconds, bucket.status = 0, 200
    if harm == "away":
        bucket.open()
    if harm == "emptied":
        shutil.move(bucket.folder.parent / "half", bucket.folder / "half")
    if harm != "slow":
        shutil.copytree(made_half, bucket.folder / "half" / "2")
        wait_until(lambda: versions(server) == {2: "AVAILABLE", 1: "AVAILABLE"})
        assert server.log().count("holds no version") <= 1  # said once, not at every look
    server.stop()


def test_a_bucket_that_is_away_at_the_start_is_waited_for_and_later_what_was_copied_is_served(
    start, bucket
):
    bucket.close()
    server = start(bucket.url, wait=False)
    wait_until(lambda: "cannot be read: ConnectionError" in server.log())
    assert server.get("/readyz").status_code == 503
    bucket.open()
    server.wait_until_ready()
    assert answer(server) == 2.0
    server.stop()
    bucket.close()
    assert answer(start(bucket.url)) == 2.0


def test_a_version_that_is_half_there_or_damaged_is_not_served_until_it_is_whole(
    start, bucket, made_half
):
    server = start(bucket.url)
    whole = bucket.folder.parent / "whole"
    shutil.copytree(made_half, whole)
    shutil.copytree(made_half, bucket.folder / "half" / "2")
    half = next((bucket.folder / "half" / "2").glob("variables/variables.data-*"), None)
    assert half is not None
    half.unlink()
    wait_until(lambda: "half/2: it lacks variables/variables.data-*" in server.log())
    assert versions(server) == {1: "AVAILABLE"}
    bucket.cut = {half.name}
    shutil.copy(whole / "variables" / half.name, half)
    wait_until(lambda: "of them arrived" in server.log())
    assert versions(server) == {1: "AVAILABLE"}
    bucket.cut = set()
    os.utime(half)  # otherwise the next try is a minute later
    wait_until(lambda: versions(server) == {2: "AVAILABLE", 1: "AVAILABLE"})


def test_a_name_that_leads_out_of_the_version_is_not_copied(bucket, cache, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", cache["XDG_CACHE_HOME"])
    bucket.strange = "../../../../../escaped"
    mirror = Mirror(bucket.url)
    mirror.look(is_complete=True)
    assert "is no path inside the folder of models" in mirror.trouble
    assert not list(mirror.folder.rglob("saved_model.pb"))
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize("key", ["/models//7/saved_model.pb", "/models/../7/saved_model.pb"])
def test_a_name_that_leads_out_of_the_models_is_not_linked(key, cache, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", cache["XDG_CACHE_HOME"])
    linked = []
    monkeypatch.setattr(Path, "symlink_to", lambda link, target: linked.append(target))
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    MemoryFileSystem.store[key] = MemoryFile(MemoryFileSystem(), key, b"x")
    mirror = Mirror("memory://models")
    mirror.look(is_complete=True)
    assert "is no path inside the folder of models" in mirror.trouble
    assert linked == []


def test_a_new_export_under_the_same_number_is_told_and_taken_by_a_load(start, bucket, made_half):
    server = start(bucket.url)
    shutil.rmtree(bucket.folder / "half" / "1")
    shutil.copytree(made_half, bucket.folder / "half" / "1")
    administrator = with_token(server)
    assert server.post("/v2/repository/models/half/load", headers=administrator).json() == {}
    assert answer(server) == 3.0


def test_a_load_looks_at_the_bucket_though_it_is_not_polled(start_server, cache, bucket, made_half):
    server = start_server(bucket.url, "--poll-seconds", "0", environ=cache)
    shutil.copytree(made_half, bucket.folder / "new" / "1")
    administrator = with_token(server)
    assert server.post("/v2/repository/models/new/load", headers=administrator).json() == {}
    assert server.get("/v2/models/new/ready").ok
    bucket.close()
    response = server.post("/v2/repository/models/half/load", headers=administrator)
    assert (response.status_code, "cannot be read" in response.json()["error"]) == (503, True)
    assert answer(server) == 2.0


def test_what_is_gone_is_unloaded_after_a_while_but_never_all_of_it(
    bucket, cache, monkeypatch, made_half
):
    monkeypatch.setenv("XDG_CACHE_HOME", cache["XDG_CACHE_HOME"])
    shutil.copytree(made_half, bucket.folder / "half" / "2")
    shutil.copytree(made_half, bucket.folder / "other" / "1")
    mirror = Mirror(bucket.url)

    def served() -> set[str]:
        return {
            f"{path.parent.name}/{path.name}" for path in mirror.folder.glob("*/*") if path.is_dir()
        }

    mirror.look(is_complete=True)
    assert served() == {"half/1", "half/2", "other/1"}
    shutil.rmtree(bucket.folder / "half" / "2")
    shutil.rmtree(bucket.folder / "other")
    mirror.look()
    assert served() == {"half/1", "half/2", "other/1"}
    monkeypatch.setattr(model_files, "GONE_SECONDS", 0.0)
    mirror.look()
    assert served() == {"half/1"}
    assert [
        each.name.rpartition("-")[0] for each in (mirror.folder.parent / "copies").iterdir()
    ] == ["half-1"]
    shutil.rmtree(bucket.folder / "half")
    mirror.look()
    assert served() == {"half/1"}


def test_a_base_path_may_be_a_url_of_a_configuration_or_of_a_call(
    start_server, cache, bucket, tmp_path, made_half
):
    file = tmp_path / "models.config"
    config = 'config {{ name: "half" base_path: "{}" model_platform: "tensorflow" }}'.format
    file.write_text(f"model_config_list {{ {config(bucket.url + '/half')} }}")
    server = start_server("models", "--model-config-file", str(file), environ=cache)
    assert answer(server) == 2.0
    shutil.copytree(made_half, bucket.folder / "moved" / "2")

    def reload(path: str) -> str:
        """The code of a call of HandleReloadConfigRequest with another base path."""
        request = model_management_pb2.ReloadConfigRequest()
        text_format.Parse(f"model_config_list {{ {config(path)} }}", request.config)
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            metadata = [(name.lower(), value) for name, value in with_token(server).items()]
            service = model_service_pb2_grpc.ModelServiceStub(channel)
            try:
                service.HandleReloadConfigRequest(request, timeout=60, metadata=metadata)
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"
        return "OK"

    assert reload(bucket.url + "/moved") == "OK"
    assert answer(server) == 3.0
    assert "UNAVAILABLE" in reload(bucket.url + "/nothing")
    assert "INVALID_ARGUMENT" in (outside := reload(bucket.url + "/../etc"))
    assert "a path inside the bucket" in outside
    assert "INVALID_ARGUMENT" in reload("gopher://127.0.0.1/half")
    assert answer(server) == 3.0


def test_a_gateway_names_breeds_by_the_descriptions_in_the_bucket(
    start_server, cache, tmp_path, colour_models
):
    engine = start_server(colour_models)
    with Bucket(tmp_path / "bucket") as bucket:
        shutil.copytree(colour_models, bucket.folder, dirs_exist_ok=True)
        target = f"grpc://127.0.0.1:{engine.grpc_port}"
        gateway = start_server(bucket.url, "--engine", target, environ=cache)
        wait_until(lambda: gateway.classify(encode(plain(RED), "JPEG")).ok)


class SilentBucket(AsyncFileSystem):
    """What waits for ever, as gcsfs where a connection falls silent: before the `silent` call."""

    protocol, silent = "silent", ""

    async def _find(self, path: str, **_: object) -> dict[str, dict[str, object]]:
        await self._answer("find")
        return {f"{path}/half/1/{name}": {"type": "file"} for name in ("saved_model.pb", "a")}

    async def _get(self, remotes: list[str], files: list[str], **_: object) -> None:
        await self._answer("get")
        for file in map(Path, files):
            file.touch()

    async def _answer(self, call: str) -> None:
        if call == self.silent:
            await asyncio.Event().wait()


@pytest.mark.parametrize("call", ["find", "get"])
def test_a_bucket_that_falls_silent_is_given_up_and_looked_at_again(call, cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", cache["XDG_CACHE_HOME"])
    monkeypatch.setattr(model_files, "CALL_SECONDS", 0.1)
    fsspec.register_implementation("silent", SilentBucket, clobber=True)
    monkeypatch.setattr(SilentBucket, "silent", call)
    mirror = Mirror("silent://bucket/models")
    looks = threading.Thread(target=mirror.look, args=(True,), daemon=True)
    looks.start()
    looks.join(20)
    assert "no answer came in time" in mirror.trouble
    monkeypatch.setattr(SilentBucket, "silent", "")
    mirror.look(is_complete=True)
    assert "no answer came in time" not in mirror.trouble


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("gopher://host/models", "cannot be read"),
        ("file:///models/../etc", "expected a path inside the bucket, without .."),
    ],
)
def test_a_url_that_cannot_be_read_here_ends_the_start(url, said):
    assert said in refused(dogsnap("serve", "--models", url))


def test_copies_that_cannot_be_kept_end_the_start(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "below"))
    (tmp_path / "file").touch()
    refused(dogsnap("serve", "--models", "file:///models"), "set XDG_CACHE_HOME to another folder")


def test_a_command_that_reads_models_itself_says_that_servers_read_urls():
    done = dogsnap("predict", "docs/dog.jpg", "--models", "file:///models")
    refused(done, "which servers read; copy the folder of the models here")


def test_what_packages_of_buckets_say_at_every_look_fills_no_log(caplog, cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", cache["XDG_CACHE_HOME"])
    Mirror("memory://nothing").look()
    caplog.set_level(logging.INFO)  # as the server's
    logging.getLogger("gcsfs").warning("Could not determine bucket type for bucket name models")
    for name in ("azure.core.pipeline.policies.http_logging_policy", "aiobotocore.credentials"):
        logging.getLogger(name).info("Request URL: ...")
    assert not caplog.records


def test_no_secret_of_a_url_is_said(start_server, cache, bucket):
    url = bucket.url.replace("://", "://user:hunter2@")
    server = start_server(url, environ=cache)
    bucket.close()
    wait_until(lambda: "cannot be read" in server.log())
    assert "hunter2" not in server.log()


@pytest.mark.parametrize("layout", ["one model", "one version"])
def test_a_url_may_be_of_one_model_or_of_a_saved_model_alone(
    start_server, cache, bucket, layout, half_models
):
    url = f"{bucket.url}/half" if layout == "one model" else f"{bucket.url}/half/1"
    server = start_server(url, environ=cache)
    (model,) = server.get("/api/models").json()["models"]
    assert model["name"] == ("half" if layout == "one model" else "1")
    assert server.post("/invocations", json={"instances": [2.0]}).json() == {"predictions": [2.0]}
