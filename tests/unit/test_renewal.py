"""Which versions `dogsnap export --renew` builds, replaces and leaves alone."""

import itertools
import os
import shutil
import sys
from pathlib import Path

import pytest
from dogsnap.commands.helpers import renewal


class Models:
    """A folder of weights and one of versions: `renew()` builds versions whose checksums are the weights."""

    def __init__(self, folder: Path):
        self.artefacts, self.folder = folder / "stored" / "net", folder / "models" / "net"
        self.artefacts.mkdir(parents=True)
        self.said: list[str] = []

    def renew(self, weights: str, numbers: str = "12", options: str = "") -> bool:
        (self.artefacts / "weights").write_text(weights)

        def build(models: Path) -> None:
            for number in numbers:
                self.write(models / "net" / number, weights)

        return renewal.renew(self.artefacts, self.folder, build, self.said.append, options)

    def write(self, version: Path, sums: str) -> None:
        (version / "assets.extra").mkdir(parents=True)
        (version / "assets.extra" / "SHA256SUMS").write_text(sums)

    def versions(self) -> dict[str, str]:
        sums = self.folder.glob("[0-9]*/assets.extra/SHA256SUMS")
        return {file.parent.parent.name: file.read_text() for file in sums}


@pytest.fixture
def models(tmp_path: Path) -> Models:
    return Models(tmp_path)


def test_versions_are_built_anew_from_new_weights_and_then_left_alone_but_one_that_was_removed_comes_back(
    models,
):
    assert models.renew("old", "123")
    assert models.versions() == {"1": "old", "2": "old", "3": "old"}
    assert models.renew("new", "12")  # version 3 is not built any more
    assert models.versions() == {"1": "new", "2": "new"}
    assert not models.renew("new", "12")
    shutil.rmtree(models.folder / "2")
    assert models.renew("new", "12")
    assert models.versions() == {"1": "new", "2": "new"}


def test_new_code_and_another_tensorflow_build_them_anew(models, monkeypatch, tmp_path):
    models.renew("same")
    monkeypatch.setattr(renewal, "PACKAGES", ("flask",))
    assert models.renew("same")
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "changed.py").touch()
    monkeypatch.setattr(renewal.dogsnap, "__file__", str(tmp_path / "__init__.py"))
    assert models.renew("same")


@pytest.mark.parametrize("built", ["12", "123"])
@pytest.mark.parametrize("numbers", ["12", "123"])
def test_a_developers_version_stays_under_its_number_also_where_a_built_one_was(
    models, built, numbers
):
    models.renew("old", built)
    for number in "37":  # as a developer's `dogsnap merge` writes them
        shutil.rmtree(models.folder / number, ignore_errors=True)
        models.write(models.folder / number, "own")
    for weights in ("new", "newer"):
        models.renew(weights, numbers)
        assert models.versions() == {"1": weights, "2": weights, "3": "own", "7": "own"}
    assert any("3 was not built by this command, so it stays" in line for line in models.said) == (
        "3" in numbers
    )


@pytest.mark.parametrize(
    "file",
    [
        "stored/groups.json",
        "stored/popularity.json",
        "stored/breeds.json",
        "stored/net/taught.json",
    ],
)
def test_each_file_that_is_read_is_noticed_and_a_hidden_one_is_not(models, file):
    models.renew("same")
    path = models.artefacts.parents[1] / file
    for content in ("{}", "[]"):
        path.write_text(content)
        assert models.renew("same")
    assert not models.renew("same")
    path.unlink()
    assert models.renew("same")
    (models.artefacts / ".hidden").touch()
    assert not models.renew("same")


def test_other_options_and_another_kind_of_processor_build_them_anew(models, monkeypatch):
    models.renew("same")
    assert models.renew("same", options="merged")
    assert not models.renew("same", options="merged")
    monkeypatch.setattr(renewal.processor, "int8_weight_bits", lambda: 9)
    assert models.renew("same", options="merged")


NUMBERS = {"old": "123", "new": "12"}  # of the versions that are built from such weights
CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir")


def renew_until(models: Models, weights: str, moment: int) -> bool:
    """Renew in another process, which is killed before its change number `moment` of the disk; False if it makes fewer."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    changes = itertools.count(1)

    def watch(event: str, arguments: tuple) -> None:
        mode = str(arguments[1]) if event == "open" else ""
        if (event in CHANGES or set(mode) & set("wa")) and next(changes) == moment:
            os._exit(9)

    sys.addaudithook(watch)
    models.renew(weights, NUMBERS[weights])
    os._exit(0)


def test_after_a_run_that_was_killed_at_any_moment_the_next_one_leaves_what_the_files_say(tmp_path):
    for moment in itertools.count(1):
        is_killed = False
        for weights in ("new", "old"):
            models = Models(tmp_path / f"{moment} {weights}")
            models.renew("old", NUMBERS["old"])
            is_killed = renew_until(models, "new", moment)
            models.renew(weights, NUMBERS[weights])
            assert models.versions() == dict.fromkeys(NUMBERS[weights], weights), moment
            assert not models.renew(weights, NUMBERS[weights])
            assert not list(models.folder.glob(".building.*")), moment
        if not is_killed:
            break
    assert moment > 10


def test_a_build_that_fails_changes_nothing(models):
    models.renew("old")
    (models.artefacts / "weights").write_text("new")

    def fail(folder: Path) -> None:
        models.write(folder / "net" / "1", "half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        renewal.renew(models.artefacts, models.folder, fail, models.said.append)
    assert models.versions() == {"1": "old", "2": "old"}
    assert not list(models.folder.glob(".building.*"))


def test_the_code_that_decides_what_a_version_holds_is_where_it_is_looked_for():
    for folder in renewal.CODE:
        assert list((Path(renewal.dogsnap.__file__).parent / folder).rglob("*.py")), folder
