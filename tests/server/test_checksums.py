"""Checksums: a version whose files are not as they were exported is refused by their name; one without any loads as ever."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import requests
import tiny_models

from backend.errors import FailedPrecondition
from backend.serving.tensors.signatures import ServableId
from backend.serving.versions import checksums
from backend.serving.versions.servable import Servable


@pytest.fixture
def version(colour_models, tmp_path) -> Path:
    return Path(shutil.copytree(colour_models / "inception_v3" / "2", tmp_path / "dogs" / "2"))


def load(version: Path) -> Servable:
    return Servable.load(ServableId("dogs", 2), version)


@pytest.mark.parametrize("number", ["1", "2"])
def test_an_exported_and_a_merged_version_hold_the_checksum_of_each_file(colour_models, number):
    version = colour_models / "inception_v3" / number
    names = {line.partition("  ")[2] for line in (version / checksums.FILE).read_text().splitlines()}
    files = {file.relative_to(version).as_posix() for file in version.rglob("*") if file.is_file()}
    assert names == files - {checksums.FILE.as_posix()}
    assert {"saved_model.pb", "assets.extra/dogsnap.json"} <= names
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", checksums.FILE], cwd=version, capture_output=True, check=False
    )
    assert done.returncode == 0


def test_a_version_as_it_was_exported_loads(version):
    assert load(version).description.labels


@pytest.mark.parametrize(
    "name", ["saved_model.pb", "assets.extra/dogsnap.json", "assets.extra/tf_serving_warmup_requests"]
)
def test_a_changed_file_is_refused_with_its_name(version, name):
    file = version / name
    contents = bytearray(file.read_bytes())
    contents[len(contents) // 2] ^= 1
    file.write_bytes(contents)
    with pytest.raises(FailedPrecondition, match=f"^{name} was changed after the export: expected the SHA-256 "):
        load(version)


def test_a_missing_file_is_refused_with_its_name(version):
    (version / "assets.extra" / "dogsnap.json").unlink()
    with pytest.raises(FailedPrecondition, match=r"dogsnap\.json was changed after the export: .* it is nothing"):
        load(version)


@pytest.mark.parametrize("line", ["nonsense", "0" * 64 + "  ../../etc/passwd", "0" * 64 + "  /etc/passwd"])
def test_a_damaged_list_is_refused_and_reads_no_file_elsewhere(version, line):
    (version / checksums.FILE).write_text(line + "\n")
    with pytest.raises(FailedPrecondition, match="SHA256SUMS is damaged"):
        load(version)


def test_a_version_of_another_exporter_loads_without_checksums(tmp_path):
    tiny_models.half_plus(1, tmp_path / "1")
    assert not (tmp_path / "1" / checksums.FILE).exists()
    assert Servable.load(ServableId("half", 1), tmp_path / "1").signatures


def test_a_server_says_which_file_was_changed_and_goes_on_with_the_version_before(
    start_server, colour_models, tmp_path
):
    shutil.copytree(colour_models / "inception_v3", tmp_path / "dogs")
    os.truncate(tmp_path / "dogs" / "2" / "assets.extra" / "dogsnap.json", 100)
    server = start_server(tmp_path)
    states = requests.get(f"{server.url}/api/models", timeout=60).json()["models"][0]["versions"]
    assert [(each["version"], each["state"]) for each in states] == [(2, "END"), (1, "AVAILABLE")]
    assert states[0]["error"].startswith("assets.extra/dogsnap.json was changed after the export")
