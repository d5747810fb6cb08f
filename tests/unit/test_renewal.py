"""Which versions `dogsnap export --renew` builds, replaces and leaves alone."""

import shutil
from pathlib import Path

import pytest
from dogsnap import renewal


class Models:
    """A folder of weights and one of versions: `renew()` builds versions whose checksums are the weights."""

    def __init__(self, folder: Path):
        self.artefacts, self.folder = folder / "stored" / "net", folder / "models" / "net"
        self.artefacts.mkdir(parents=True)
        self.said: list[str] = []

    def renew(self, weights: str, numbers: str = "12") -> bool:
        (self.artefacts / "weights").write_text(weights)

        def build(models: Path) -> None:
            for number in numbers:
                self.write(models / "net" / number, weights)

        return renewal.renew(self.artefacts, self.folder, build, self.said.append)

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
