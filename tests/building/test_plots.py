"""The picture of an evaluation."""

from pathlib import Path

import numpy as np

from backend.evaluation import plots

LABELS = [{"id": f"n{i}", "name": f"breed {i}", "name_zh": f"犬{i}"} for i in range(6)]


def test_the_picture_is_a_png_with_both_plots(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    probabilities = generator.dirichlet(np.ones(len(LABELS)), 200)
    plots.draw(probabilities, generator.integers(0, len(LABELS), 200), LABELS, tmp_path / "scores.png")
    assert (tmp_path / "scores.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (tmp_path / "scores.png").stat().st_size > 20_000
