"""A Keras classifier of somebody's own, which tells four colours apart and begins with Rescaling, and photos for it."""

from pathlib import Path

import keras
import numpy as np
from dogsnap.exporting.merging.merge import merge
from dogsnap.exporting.merging.options import Options
from PIL import Image

SIZE = (16, 16)
COLOURS = {
    "s1": ("square red", (210, 40, 40)),
    "s2": ("square green", (40, 210, 40)),
    "s3": ("square blue", (40, 40, 210)),
    "s4": ("square grey", (70, 70, 70)),
}
LABELS = [{"id": class_id, "name": name} for class_id, (name, _) in COLOURS.items()]
FAINT_RED = (140, 125, 40)  # which `worse` versions call green


def network(bias: float = 0.0) -> keras.Model:
    """`bias`: by how much it prefers green."""
    layers = [
        keras.Input((*SIZE, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(4, activation="softmax"),
    ]
    model = keras.Sequential(layers)
    kernel = np.concatenate([20 * np.eye(3), np.zeros((3, 1))], axis=1)
    model.layers[-1].set_weights([kernel, np.array([0, bias, 0, 9])])
    return model


def export(model_folder: Path, number: int, bias: float = 0.0, labels: list = LABELS) -> Path:
    """Version `number` without labels, and behind it the merged one, which is returned."""
    network(bias).export(model_folder / str(number), verbose=False)
    return merge(model_folder / str(number), Options(labels=labels))


def make_photos(folder: Path, count: int, faint: int = 0, by_name: bool = False) -> Path:
    """`count` photos in folders of the classes, `faint` of them of FAINT_RED."""
    generator = np.random.default_rng(5)
    for number in range(count):
        class_id = f"s{number % 4 + 1}"
        name, colour = COLOURS[class_id]
        if class_id == "s1" and number // 4 < faint:
            colour = FAINT_RED
        pixels = np.clip(generator.normal(colour, 8, (24, 20, 3)), 0, 255).astype(np.uint8)
        place = folder / (name.title().replace(" ", "_") if by_name else class_id)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{number}.png")
    return folder
