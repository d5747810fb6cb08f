"""The CycleGAN of the documents: trained by its script, merged, served, and applied to pictures."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.command_line import dogsnap, output_of

SCRIPT = Path(__file__).parents[2] / "docs" / "tutorials" / "cyclegan.py"
RANGE = ("--input-range", -1, 1, "--output-range", -1, 1)


def train(folder: Path, *more: object) -> str:
    command = [sys.executable, SCRIPT, "--out", folder, *more]
    return subprocess.check_output([*map(str, command)], text=True, timeout=1200)


def merge(folder: Path) -> str:
    merged = dogsnap("merge", folder / "1", "--decode", "bytes", "--encode", "png", *RANGE)
    return output_of(merged)


@pytest.mark.parametrize("served", [False, True])
def test_train_merge_and_predict_are_one_chain(start_server, tmp_path, served):
    models = tmp_path / "models"
    train(models / "cyclegan", "--width", 4, "--size", 16, "--steps", 4)
    assert merge(models / "cyclegan").splitlines()[-1] == f"wrote {models / 'cyclegan' / '2'}"
    where = ("--url", start_server(models).url) if served else ("--models", models)
    examples = models / "cyclegan" / "examples"
    predict = ("predict", "--model", "cyclegan", *where)
    output_of(dogsnap(*predict, examples, "--out", tmp_path / "out"))
    pictures = sorted((tmp_path / "out").iterdir())
    assert len(pictures) == 4
    assert np.asarray(Image.open(pictures[0])).shape == (16, 16, 3)


def test_the_demonstration_turns_gaussian_noise_into_sinusoidal_noise(tmp_path):
    output = train(tmp_path / "cyclegan")
    before, after = re.findall(r"([\d.]+)% before, ([\d.]+)% after", output)[0]
    assert float(before) < 0.5
    assert float(after) > 50
