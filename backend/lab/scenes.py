"""Pictures with several dogs, one or none, composed of training photos: what
the head that finds every dog learns from.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from dogsnap.networks.second_pass import areas
from dogsnap.training.dataset import Example, open_photo
from PIL import Image, ImageEnhance, ImageFilter

from lab.boxes import WHOLE_BOX

T = TypeVar("T")
LONGEST = 448  # pixels of a picture's longest side before it is cut and squashed
MOST_HIDDEN = 0.55  # of a dog behind the next one: with less of it to see, it is no dog any more
FEATHER = 0.08  # of a crop's shorter side that fades: a hard edge would show the box
LEAST_STRIP = 0.2  # of a part without a dog, as a fraction of the picture's width or height
TRIES = 8
NONE = np.zeros((0, 4), np.float32)  # the boxes where there is no dog


class Scene(NamedTuple):
    """A picture, and the boxes of all its dogs, float32 (k, 4): left, top,
    right, bottom in fractions of the picture.
    """

    image: Image.Image
    boxes: np.ndarray


class Scenes:
    """Draws pictures at random; the same `seed` and number give the same one.

    `dogs`: photos with what is known of the whole pictures around them.
    `no_dogs`: photos without one; may be empty.
    """

    def __init__(
        self,
        dogs: Sequence[Example],
        no_dogs: Sequence[Path],
        size: tuple[int, int],
        seed: int,
    ) -> None:
        self.size, self.seed = size, seed
        self.crops, self.no_dogs = dogs, no_dogs
        self.whole = [each for each in dogs if each.frame] or dogs
        self.several = [each for each in self.whole if each.others] or self.whole
        self.kinds: list[tuple[float, Callable[[np.random.Generator], Scene]]] = [
            (0.22, partial(self._frame, examples=self.whole)),
            (0.22, partial(self._frame, examples=self.several)),
            (0.05, self._crop),
            (0.22, partial(self._beside, count=2)),
            (0.03, partial(self._beside, count=3)),
            (0.04, partial(self._beside, count=4)),
            (0.12, self._paste),
            (0.10, self._without),
        ]

    def draw(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Picture `number`: float32 (height, width, 3) in [0, 1], and its boxes (k, 4)."""
        random = np.random.default_rng((self.seed, number))
        shares = [share for share, _ in self.kinds]
        _, draw_kind = self.kinds[random.choice(len(shares), p=shares)]
        image, boxes = draw_kind(random)
        image = image.resize(self.size[::-1], Image.Resampling.BILINEAR, reducing_gap=2.0)
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            boxes = np.abs(boxes[:, [2, 1, 0, 3]] - np.array([1, 0, 1, 0], np.float32))
        return np.asarray(_change_light(random, image), np.float32) / 255, boxes

    def _crop(self, random: np.random.Generator) -> Scene:
        image = open_photo(_one(random, self.crops).path)
        return Scene(image, np.array([WHOLE_BOX], np.float32))

    def _frame(self, random: np.random.Generator, examples: Sequence[Example]) -> Scene:
        """A whole picture in its own proportions, or a part of one that holds its dogs."""
        example = _one(random, examples)
        image = open_photo(example.frame or example.path)
        image = _enlarge(image, example.sides or image.size)
        scene = Scene(image, np.array([example.box or WHOLE_BOX, *example.others], np.float32))
        if random.random() < 0.35:
            return scene
        hull = _hull(scene.boxes)
        return cut_out(scene, hull + random.uniform(0, 1, 4) * (np.array(WHOLE_BOX) - hull))

    def _beside(self, random: np.random.Generator, count: int) -> Scene:
        """So many photos beside and above each other, of one dog near or far, as people
        snap it.
        """
        if count == 1:
            is_near = random.random() < 0.2
            return self._crop(random) if is_near else self._frame(random, self.whole)
        halves = [self._beside(random, part) for part in (count // 2, count - count // 2)]
        return join_scenes(halves, across=random.random() < 0.72)

    def _paste(self, random: np.random.Generator) -> Scene:
        """One to five crops in a scene, where later ones may hide a part of
        earlier ones.
        """
        image = self._without(random).image
        image = _enlarge(image, image.size)
        boxes = NONE
        for _ in range(random.integers(1, 6)):
            crop = open_photo(_one(random, self.crops).path)
            factor = random.uniform(0.15, 0.62) * LONGEST / max(crop.size)
            sides = np.minimum(factor * np.array(crop.size) / image.size, 1)
            corner = random.uniform(0, 1, 2) * (1 - sides)
            box = np.concatenate([corner, corner + sides], dtype=np.float32)
            shared = np.maximum(boxes[:, :2], box[:2]), np.minimum(boxes[:, 2:], box[2:])
            hidden = np.prod(np.maximum(shared[1] - shared[0], 0), axis=1) / areas(boxes)
            if max(hidden, default=0) > MOST_HIDDEN:
                break
            paste_crop(image, crop, box)
            boxes = np.append(boxes, [box], axis=0)
        return Scene(image, boxes)

    def _without(self, random: np.random.Generator) -> Scene:
        """A photo without a dog, or the part of a whole picture beside its dogs."""
        if self.no_dogs and random.random() < 0.7:
            return Scene(open_photo(_one(random, self.no_dogs)), NONE)
        for _ in range(TRIES):
            image, boxes = self._frame(random, self.whole)
            width, strip = max(strips_beside(_hull(boxes).tolist()))
            if width > LEAST_STRIP:
                return Scene(cut_picture(image, strip), NONE)
        return Scene(Image.new("RGB", self.size[::-1], "grey"), NONE)


def strips_beside(box: Sequence[float]) -> list[tuple[float, Sequence[float]]]:
    """The parts left, right, above and below a box, with their width or height."""
    left, top, right, bottom = box
    return [
        (left, (0, 0, left, 1)),
        (1 - right, (right, 0, 1, 1)),
        (top, (0, 0, 1, top)),
        (1 - bottom, (0, bottom, 1, 1)),
    ]


def _hull(boxes: np.ndarray) -> np.ndarray:
    """The smallest box (4,) that holds all boxes."""
    return np.concatenate([boxes[:, :2].min(0), boxes[:, 2:].max(0)])


def cut_out(scene: Scene, window: np.ndarray) -> Scene:
    """The part of a picture in `window`, which holds its dogs."""
    start, sides = np.tile(window[:2], 2), np.tile(window[2:] - window[:2], 2)
    boxes = ((scene.boxes - start) / sides).clip(0, 1).astype(np.float32)
    return Scene(cut_picture(scene.image, window), boxes)


def cut_picture(picture: Image.Image, window: Sequence[float] | np.ndarray) -> Image.Image:
    return picture.crop(_pixels(window, picture))


def join_scenes(scenes: Sequence[Scene], across: bool) -> Scene:
    """Pictures of one height beside each other, or of one width above each other."""
    turned = scenes if across else [_transpose(each) for each in scenes]
    widths = [max(8, round(each.image.width * LONGEST / each.image.height)) for each in turned]
    wide = sum(widths)
    picture, boxes, left = Image.new("RGB", (wide, LONGEST)), [], 0
    for scene, width in zip(turned, widths, strict=True):
        picture.paste(scene.image.resize((width, LONGEST)), (left, 0))
        boxes.append(
            scene.boxes * [width / wide, 1, width / wide, 1] + [left / wide, 0, left / wide, 0]
        )
        left += width
    whole = Scene(picture, np.concatenate(boxes).astype(np.float32))
    return whole if across else _transpose(whole)


def _transpose(scene: Scene) -> Scene:
    return Scene(scene.image.transpose(Image.Transpose.TRANSPOSE), scene.boxes[:, [1, 0, 3, 2]])


def _enlarge(image: Image.Image, proportions: tuple[float, float]) -> Image.Image:
    """The picture in its proportions, with LONGEST pixels on its longer side."""
    factor = LONGEST / max(proportions)
    wide, high = (max(2, round(side * factor)) for side in proportions)
    return image.resize((wide, high))


def _change_light(random: np.random.Generator, image: Image.Image) -> Image.Image:
    """Other light and colour."""
    for kind in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = kind(image).enhance(random.uniform(0.75, 1.25))
    return image


def paste_crop(image: Image.Image, crop: Image.Image, box: np.ndarray) -> None:
    """Put a crop into a picture at the place of a box; it fades at its edges."""
    left, top, right, bottom = _pixels(box, image)
    crop = crop.resize((right - left, bottom - top))
    edge = round(FEATHER * min(crop.size))
    mask = Image.new("L", crop.size)
    mask.paste(255, (edge, edge, crop.width - edge, crop.height - edge))
    image.paste(crop, (left, top), mask.filter(ImageFilter.BoxBlur(edge)))


def _one(random: np.random.Generator, photos: Sequence[T]) -> T:
    return photos[int(random.integers(len(photos)))]


def _pixels(box: Sequence[float] | np.ndarray, image: Image.Image) -> tuple[int, int, int, int]:
    """At least one pixel a side."""
    sides = np.array(image.size)
    start = np.round(np.array(box[:2], float) * sides).clip(0, sides - 1)
    end = np.round(np.array(box[2:], float) * sides).clip(start + 1, sides)
    left, top, right, bottom = map(int, (*start, *end))
    return left, top, right, bottom
