"""Makes small photos for the tests: breeds are told apart by colour and stripes, so that a network can learn them at once.

It holds no photo of a real dog.
"""

from pathlib import Path

import numpy as np
from PIL import Image

BREEDS = {
    "n00000001-red_hound": (200, 60, 50),
    "n00000002-green_terrier": (60, 190, 70),
    "n00000003-blue_spaniel": (60, 80, 210),
}


def striped(colour: tuple[int, int, int], seed: int, size: tuple[int, int] = (96, 80)) -> Image.Image:
    """An RGB picture of `size` (width, height) with stripes of one colour on a grey ground, and noise."""
    generator = np.random.default_rng(seed)
    across, down = np.meshgrid(np.arange(size[0]), np.arange(size[1]))
    stripes = (np.sin((across + down * generator.uniform(0, 1)) * 2 * np.pi / 12) > 0)[..., None]
    pixels = np.where(stripes, np.array(colour), 128) + generator.normal(0, 12, (size[1], size[0], 3))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def make_data_set(folder: Path, per_breed: int = 16, test_per_breed: int = 4) -> Path:
    """A data set in the layout of Stanford Dogs: images/<wnid>-<Name>/*.jpg, train_list.txt, test_list.txt."""
    lists: dict[str, list[str]] = {"train_list": [], "test_list": []}
    for breed, (name, colour) in enumerate(BREEDS.items()):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(per_breed + test_per_breed):
            file = f"{name}/{name.split('-')[0]}_{number}.jpg"
            striped(colour, 1000 * breed + number).save(folder / "images" / file, quality=90)
            lists["train_list" if number < per_breed else "test_list"].append(file)
    for name, files in lists.items():
        (folder / f"{name}.txt").write_text("\n".join(files) + "\n", encoding="utf-8")
    return folder
