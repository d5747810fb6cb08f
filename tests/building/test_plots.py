"""The picture of an evaluation."""

from pathlib import Path

import numpy as np
from PIL import Image

from backend.evaluation import plots

LABELS = [{"id": f"n{i}", "name": f"breed {i}", "name_zh": f"犬{i}"} for i in range(6)]


def test_the_picture_shows_what_is_confused_and_how_often_an_answer_is_right(tmp_path: Path) -> None:
    breeds = np.arange(600) % 6
    answers = np.full((600, 6), 0.02) + 0.88 * np.eye(6)[breeds]
    wrong = answers[:, [1, 0, 2, 3, 4, 5]]  # two breeds are taken for each other
    for name, each in (("right", answers), ("wrong", wrong)):
        plots.draw(each, breeds, LABELS, tmp_path / f"{name}.png")
    right, wrong = (np.asarray(Image.open(tmp_path / f"{name}.png").convert("L"), int) for name in ("right", "wrong"))
    middle = right.shape[1] * 5 // 9
    for plot in (np.s_[:, :middle], np.s_[:, middle:]):
        assert (right[plot] != wrong[plot]).any()
