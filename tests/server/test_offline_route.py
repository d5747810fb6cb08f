"""The network for phones: the version that answers hands it out, to be kept for good under its digest."""

import json
import shutil
from pathlib import Path

import pytest
from dogsnap.serving.versions.phone_files import DESCRIPTION, FOLDER
from support.refusals import assert_refused

STATED = {"digest": "0123456789abcdef", "side": 8, "labels": [], "files": {"weights.bin": {}}}


@pytest.fixture(scope="module")
def server(start_server, colour_models: Path, tmp_path_factory):
    models = shutil.copytree(colour_models, tmp_path_factory.mktemp("offline") / "models")
    folder = models / "inception_v3" / "2" / FOLDER
    folder.mkdir()
    (folder / DESCRIPTION).write_text(json.dumps(STATED), encoding="utf-8")
    (folder / "weights.bin").write_bytes(bytes(range(256)) * 16)
    return start_server(models)


def test_its_description_is_not_sent_twice(server):
    first = server.get("/api/offline")
    assert first.json() == STATED
    assert first.headers["Cache-Control"] == "no-cache"
    again = server.get("/api/offline", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_its_files_are_kept_for_good(server):
    answer = server.get(f"/api/offline/{STATED['digest']}/weights.bin")
    assert answer.content == bytes(range(256)) * 16
    assert "max-age=31536000" in answer.headers["Cache-Control"]
    assert "immutable" in answer.headers["Cache-Control"]


@pytest.mark.parametrize(
    "address",
    ["f" * 16 + "/weights.bin", "0123456789abcdef/description.json", "0123456789abcdef/..%2Fa"],
)
def test_other_addresses_are_refused(server, address):
    assert_refused(server.get(f"/api/offline/{address}"), 404)


def test_a_version_without_one_says_so(colour_server):
    assert_refused(colour_server.get("/api/offline"), 404, "inception_v3 version 2 has no network")


def test_the_policy_allows_webassembly_to_the_script_that_runs_it_and_to_nothing_else(server):
    for name in ("", "app.js", "sw.js", "console", "docs"):
        assert "wasm" not in server.get(f"/{name}").headers["Content-Security-Policy"]
    policy = server.get("/offline.js").headers["Content-Security-Policy"]
    assert "script-src 'self' 'wasm-unsafe-eval'" in policy
    assert "unsafe-eval'" not in policy.replace("'wasm-unsafe-eval'", "")
    module = server.get("/offline.wasm", headers={"Accept-Encoding": "gzip"})
    assert module.headers["Content-Type"] == "application/wasm"
    assert module.headers["Content-Encoding"] == "gzip"
