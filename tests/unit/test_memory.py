"""The memory that is free is the least of the machine's and of its container's."""

import pytest
from dogsnap import memory

LIMITS = {
    "version 2": {"memory.max": "1000", "memory.current": "700"},
    "version 1": {"memory.limit_in_bytes": "1000", "memory.usage_in_bytes": "700"},
}


@pytest.mark.parametrize("version", LIMITS)
def test_a_container_has_what_its_limit_leaves_and_the_cache_of_files(
    tmp_path, monkeypatch, version
):
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    assert memory.free_bytes() > 1000  # the machine
    for name, text in LIMITS[version].items():
        (tmp_path / name).write_text(text)
    assert memory.free_bytes() == 300
    (tmp_path / "memory.stat").write_text("anon 600\ninactive_file 40\nactive_file 60\n")
    assert memory.free_bytes() == 400


def test_no_limit_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("700\n")
    assert memory.free_bytes() > 1000
