"""The checks that Node runs: unit tests of pages, compiler and runtime; types; and WeChat's own compiler where installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "backend" / "web"
APP = ROOT / "backend" / "dogsnap" / "server" / "pages" / "app"
UNIT_TESTS = sorted((Path(__file__).parent / "unit").glob("*.test.mjs"))


def node(*arguments: object) -> str:
    """Runs Node (the locked one beside Python, or else the machine's) and gives what it printed; fails with that text."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [shutil.which("node", path=path), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False
    )
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    if not (APP / "index.html").is_file():
        pytest.skip(
            "backend/dogsnap/server/pages/app/index.html is missing: `make setup` builds it"
        )


@pytest.mark.parametrize("file", UNIT_TESTS, ids=lambda file: file.name)
def test_unit_tests_of_the_app_pass(file: Path):
    print(node("--test", "--test-reporter=spec", file))


def test_the_app_uses_wx_as_its_typings_say():
    node(WEB / "node_modules/typescript/bin/tsc", "-p", WEB / "check")


def test_what_is_built_is_what_the_source_says(tmp_path):
    """A forgotten build would let every other test look at yesterday's app."""
    node(WEB / "build.mjs", ROOT / "miniprogram", tmp_path / "dist")
    for file in (tmp_path / "dist").iterdir():
        assert file.read_bytes() == (APP / file.name).read_bytes(), f"{file.name}: run `make setup`"


@pytest.mark.long
def test_wechats_own_compiler_accepts_the_app_and_leaves_nothing_behind():
    if not (WEB / "check_wechat/node_modules").is_dir():
        pytest.skip(
            "miniprogram-ci is not installed: `make check-wechat` installs it (276 MB) and runs this check"
        )
    before = set(ROOT.iterdir())
    assert "accepts the mini program" in node(WEB / "check_wechat/check.mjs")
    assert set(ROOT.iterdir()) == before
