"""What GitHub runs and reads: each file follows GitHub's own schema, and a release is what its tag says."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
CHECK = Path(sys.executable).with_name("check-jsonschema")


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("vendor.dependabot", GITHUB / "dependabot.yml"),
        *(("vendor.github-workflows", file) for file in WORKFLOWS),
    ],
    ids=str,
)
def test_what_github_reads_follows_its_own_schema(schema, file):
    command = [CHECK, "--builtin-schema", schema, file]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_folders_of_dependencies_that_the_bot_updates_exist():
    updates = yaml.safe_load((GITHUB / "dependabot.yml").read_text())["updates"]
    files = {"npm": "package.json", "docker": "Dockerfile", "uv": "pyproject.toml"}
    for update in updates:
        for folder in update.get("directories", [update.get("directory")]):
            name = files.get(update["package-ecosystem"], ".github/workflows")
            assert (ROOT / folder.strip("/") / name).exists(), (folder, name)


def check_tag(folder: Path, tag: str) -> int:
    """The exit status of the step of a release that checks its tag, in a checkout."""
    steps = yaml.safe_load((GITHUB / "workflows/release.yml").read_text())["jobs"]["wheel"]["steps"]
    (script,) = [step["run"] for step in steps if step.get("name", "").startswith("The tag is")]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**os.environ, "GITHUB_REF_NAME": tag, "PATH": path}
    command = ["bash", "-e", "-c", script]
    return subprocess.run(command, cwd=folder, env=environ, check=False, timeout=60).returncode


@pytest.fixture
def checkout(tmp_path) -> Path:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    sections = f"## Unreleased\n\n- one\n\n## [{version}] - 2026-01-01\n\n- two\n\n## [0.0.1]\n"
    (tmp_path / "CHANGELOG.md").write_text(sections)
    (tmp_path / "version").write_text(version)
    return tmp_path


def test_a_tag_is_released_with_its_section_of_the_changelog(checkout):
    assert check_tag(checkout, f"v{(checkout / 'version').read_text()}") == 0
    assert (checkout / "notes.md").read_text().strip() == "- two"


def test_a_tag_of_another_version_or_without_a_section_is_not_released(checkout):
    assert check_tag(checkout, "v9.9.9") != 0
    (checkout / "CHANGELOG.md").write_text("## Unreleased\n\n- one\n")
    assert check_tag(checkout, f"v{(checkout / 'version').read_text()}") != 0
