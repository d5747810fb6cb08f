"""`make bench` measures real servers: what it prints is complete, and what it saves."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.early

SCRIPT = Path(__file__).parents[2] / "backend" / "bench" / "measure.py"
ROWS = [
    "start / TensorFlow's import",
    "first request / median",
    "MB with versions 1 and 2",
    "MB added by version 3",
    "mix, 8 clients: version 3 / 2",
    "mix, 1 client: time of version 3 / 2",
    "mix: processor time of version 2 / 3",
    "mix, 8 clients: p95 / p50 of version 3",
    "version 2, 16 clients / TensorFlow's own call",
    "version 2 / LitServe",
    "version 3, 16 clients / the bare network",
    "p50 of one client / the bare call",
    "goodput at 8 times the capacity / capacity",
]


def test_every_part_is_measured_printed_and_saved_with_its_target(colour_models, tmp_path):
    model = tmp_path / "inception_v3"
    shutil.copytree(colour_models / "inception_v3", model)
    shutil.copytree(model / "2", model / "3")
    saved = tmp_path / "figures" / "bench.json"
    brief = ("--seconds", "0.5", "--rounds", "1", "--model", model, "--save", saved)
    command = [sys.executable, SCRIPT, *brief]
    output = subprocess.check_output([*map(str, command)], text=True, timeout=600)
    rows = json.loads(saved.read_text())
    assert [what for what, _, _, _ in rows] == ROWS
    for what, figure, target, _ in rows:
        assert figure > 0 or what == "MB added by version 3"  # a tiny one may fit into what is free
        assert f"{what}: " in output
        assert f"(asked: {target})" in output
