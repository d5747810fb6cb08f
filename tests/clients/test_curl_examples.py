"""The curl lines of the server's README, run as they stand with a photo of 4 MB."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.colour_photos import encode

README = Path(__file__).parents[2] / "docs" / "protocols.md"
BLOCK = README.read_text(encoding="utf-8").partition("```\n")[2].partition("```")[0]

pytestmark = pytest.mark.skipif(
    not shutil.which("curl"), reason="curl is missing: install Debian's package curl"
)


@pytest.fixture(scope="module")
def photo(tmp_path_factory) -> Path:
    """Red noise, 4 MB as JPEG."""
    pixels = np.random.default_rng(0).integers(0, 255, (2000, 2000, 3), dtype=np.uint8)
    pixels[..., 1:] //= 8
    file = tmp_path_factory.mktemp("photo") / "dog.jpg"
    file.write_bytes(encode(Image.fromarray(pixels), "JPEG", quality=100))
    assert file.stat().st_size > 4_000_000
    return file


@pytest.mark.parametrize("line", BLOCK.splitlines())
def test_a_line_of_the_readme_answers_for_a_large_photo(colour_server, photo, line) -> None:
    command = line.replace("8501", str(colour_server.port))
    shell = ["bash", "-euo", "pipefail", "-c", command]
    done = subprocess.run(
        shell, cwd=photo.parent, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert not re.search("error", done.stdout)
    scores = answer.get("predictions") or answer.get("prediction")
    best = np.argmax(scores[0]) if scores else ["c1", "c2", "c3"].index(answer["breeds"][0]["id"])
    assert best == 0


def test_a_version_of_base64_text_answers_files_as_bytes_alike(colour_server, photo) -> None:
    text = base64.b64encode(photo.read_bytes()).decode()
    path = "/v1/models/inception_v3/versions/2:predict"
    answers = [
        colour_server.post(path, json={"instances": [each]}) for each in (text, {"b64": text})
    ]
    assert [each.status_code for each in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()


def test_the_readme_has_a_line_for_each_form() -> None:
    assert [line.split()[0] for line in BLOCK.splitlines()] == [
        "curl",
        "base64",
        "base64",
        "base64",
        "curl",
    ]
