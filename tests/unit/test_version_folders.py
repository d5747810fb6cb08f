"""Version folders: which names count, and which version is which."""

from pathlib import Path

from dogsnap.serving.versions.version_folders import version_folders


def test_any_int64_is_a_version_and_nothing_else(tmp_path: Path) -> None:
    for name in (
        "2",
        "0010",
        "9",
        "1763725480123456789",
        "9223372036854775808",
        "1.5",
        "v3",
        "-1",
        "二",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "7").write_text("a file")
    assert sorted(version_folders(tmp_path)) == [2, 9, 10, 1763725480123456789]
    assert version_folders(tmp_path / "none") == {}
