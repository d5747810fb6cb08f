"""`make bench` measures real servers: what it prints is complete, and what it saves."""

import json
import subprocess
import sys
from pathlib import Path

from support import real_model

SCRIPT = Path(__file__).parents[2] / "backend" / "bench" / "measure.py"


def test_the_measurements_are_printed_and_saved_with_their_targets(tmp_path):
    real_model.built_models()
    saved = tmp_path / "figures" / "bench.json"
    brief = ("--seconds", "0.5", "--rounds", "1", "--only", "mix,memory", "--save", saved)
    command = [sys.executable, SCRIPT, *brief]
    output = subprocess.check_output([*map(str, command)], text=True, timeout=600)
    rows = json.loads(saved.read_text())
    measured = [what for what, _, _, _ in rows]
    assert measured[:2] == ["mix, 8 clients: version 3 / 2", "mix, 1 client: time of version 3 / 2"]
    for what, figure, target, _ in rows:
        assert figure > 0
        assert f"{what}: " in output
        assert f"(asked: {target})" in output
