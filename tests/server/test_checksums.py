"""Checksums: a version whose files are not as they were exported is refused by their name; one without any loads as ever."""

import shutil
import subprocess
from pathlib import Path

import pytest
from dogsnap.errors import FailedPrecondition
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions import checksums
from dogsnap.serving.versions.servable import LocalServable


@pytest.fixture
def version(colour_models, tmp_path) -> Path:
    return Path(shutil.copytree(colour_models / "inception_v3" / "2", tmp_path / "dogs" / "2"))


def load(version: Path) -> LocalServable:
    return LocalServable(ServableId("dogs", 2), version)


@pytest.mark.parametrize("number", ["1", "2"])
def test_an_exported_and_a_merged_version_hold_the_checksum_of_each_file(colour_models, number):
    version = colour_models / "inception_v3" / number
    names = {
        line.partition("  ")[2] for line in (version / checksums.FILE).read_text().splitlines()
    }
    files = {file.relative_to(version).as_posix() for file in version.rglob("*") if file.is_file()}
    assert names == files - {checksums.FILE.as_posix()}
    assert {"saved_model.pb", "assets.extra/dogsnap.json"} <= names
    subprocess.run(
        ["sha256sum", "--check", "--strict", checksums.FILE],
        cwd=version,
        capture_output=True,
        check=True,
    )


@pytest.mark.parametrize(
    "name",
    ["saved_model.pb", "assets.extra/dogsnap.json", "assets.extra/tf_serving_warmup_requests"],
)
def test_a_changed_or_missing_file_is_refused_with_its_name(version, name):
    assert load(version).description.labels
    file = version / name
    contents = bytearray(file.read_bytes())
    contents[len(contents) // 2] ^= 1
    file.write_bytes(contents)
    with pytest.raises(
        FailedPrecondition, match=f"^{name} was changed after the export: expected the SHA-256 "
    ):
        load(version)
    file.unlink()
    with pytest.raises(
        FailedPrecondition, match=f"^{name} was changed after the export: .* it is nothing"
    ):
        load(version)


def test_a_damaged_list_is_refused_and_reads_no_file_elsewhere(version):
    for line in ("nonsense", "0" * 64 + "  ../../etc/passwd", "0" * 64 + "  /etc/passwd"):
        (version / checksums.FILE).write_text(line + "\n")
        with pytest.raises(FailedPrecondition, match="SHA256SUMS is damaged"):
            load(version)
