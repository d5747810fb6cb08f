"""Draws the confusion matrix and the reliability diagram of an evaluation."""

from pathlib import Path

import matplotlib.figure
import numpy as np

from backend.fitting import scoring


def draw(probabilities: np.ndarray, breeds: np.ndarray, labels: list[dict], path: Path) -> None:
    """Write a PNG with both plots. `probabilities` (n, classes), `breeds` int (n,)."""
    figure = matplotlib.figure.Figure(figsize=(17, 9), layout="constrained")
    heat, reliable = figure.subplots(1, 2, width_ratios=(5, 4))
    _heat_map(heat, probabilities.argmax(-1), breeds, labels)
    _reliability(reliable, probabilities, breeds)
    figure.savefig(path, dpi=110)


def _heat_map(axes, answered: np.ndarray, breeds: np.ndarray, labels: list[dict]) -> None:
    counts = np.zeros((len(labels), len(labels)))
    np.add.at(counts, (breeds, answered), 1)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axes.imshow(
        np.sqrt(shares), cmap="magma", interpolation="nearest"
    )  # the square root makes single confusions visible
    names = [label["name"] for label in labels]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=4)
    axes.set_yticks(range(len(names)), names, fontsize=4)
    axes.set(title="which breed (row) is taken for which (column)", xlabel="answered", ylabel="is")


def _reliability(axes, probabilities: np.ndarray, breeds: np.ndarray) -> None:
    _, right, said = zip(*scoring.reliability(probabilities, breeds), strict=True)
    error = scoring.calibration_error(probabilities, breeds)
    axes.plot([0, 1], [0, 1], color="grey", linestyle="--", label="perfectly calibrated")
    axes.plot(said, right, marker="o", label=f"this model, error {error:.1%}")
    axes.set(
        title="how often an answer is right",
        xlabel="probability said",
        ylabel="share that was right",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    axes.legend()
