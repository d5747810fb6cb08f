"""Small photos of breeds told apart by colour and stripes, so that a network can learn them at once."""

from pathlib import Path

import numpy as np
from PIL import Image

BREEDS = {
    "n00000001-red_hound": (200, 60, 50),
    "n00000002-green_terrier": (60, 190, 70),
    "n00000003-blue_spaniel": (60, 80, 210),
}


def striped(
    colour: tuple[int, int, int], seed: int, size: tuple[int, int] = (96, 80)
) -> Image.Image:
    """An RGB picture of `size` (width, height) with stripes of one colour on a grey ground, and noise."""
    generator = np.random.default_rng(seed)
    across, down = np.meshgrid(np.arange(size[0]), np.arange(size[1]))
    stripes = (np.sin((across + down * generator.uniform(0, 1)) * 2 * np.pi / 12) > 0)[..., None]
    pixels = np.where(stripes, np.array(colour), 128) + generator.normal(
        0, 12, (size[1], size[0], 3)
    )
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


def make_frames(data: Path, frames: Path) -> Path:
    """A folder of whole pictures, dark ones with the photos of `data` somewhere in them, its lists, boxes.tsv and dogs.tsv."""
    generator = np.random.default_rng(4)
    lines, dogs = ["photo\tx0\ty0\tx1\ty1"], ["photo\twidth\theight\tdogs\tboxes"]
    for name in ("train_list", "test_list"):
        photos = [
            Path(line).with_suffix(".png")
            for line in (data / f"{name}.txt").read_text().splitlines()
        ]
        (frames / "images").mkdir(parents=True, exist_ok=True)
        (frames / f"{name}.txt").write_text("\n".join(map(str, photos)) + "\n")
        for photo in photos:
            corner = generator.uniform(0, 0.5, 2)
            sides = [
                round(96 * side) for side in (*corner, *(corner + generator.uniform(0.3, 0.5, 2)))
            ]
            picture = Image.new("RGB", (96, 96), (10, 10, 10))
            dog = Image.open(data / "images" / photo.with_suffix(".jpg"))
            picture.paste(dog.resize((sides[2] - sides[0], sides[3] - sides[1])), tuple(sides[:2]))
            (frames / "images" / photo).parent.mkdir(exist_ok=True)
            picture.save(frames / "images" / photo)
            fractions = [f"{side / 96:.4f}" for side in sides]
            lines.append("\t".join([str(photo), *fractions]))
            dogs.append(f"{photo}\t96\t96\t1\t{','.join(fractions)}")
    (frames / "boxes.tsv").write_text("\n".join(lines) + "\n")
    (frames / "dogs.tsv").write_text("\n".join(dogs) + "\n")
    return frames
