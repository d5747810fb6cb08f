"""Pictures with several dogs, one or none, composed of training photos: what
the head that finds every dog learns from.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from dogsnap.training.dataset import Example, open_photo
from PIL import Image, ImageEnhance, ImageFilter

from lab.boxes import WHOLE_BOX

LONGEST = 448  # pixels of a picture's longest side before it is cut and squashed
# Shares of a dog: less than the first is no dog any more, and more than the second
# would be one that is not marked.
LEAST_SEEN, HIDDEN = 0.45, 0.12
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
        no_dogs: Sequence[Example],
        size: tuple[int, int],
        seed: int,
    ) -> None:
        self.size, self.seed = size, seed
        self.crops = list(dogs)
        self.whole = [each for each in dogs if each.frame] or self.crops
        self.several = [each for each in self.whole if each.others] or self.whole
        self.no_dogs = list(no_dogs)
        self.kinds: list[tuple[float, Callable[[np.random.Generator], Scene]]] = [
            (0.22, partial(self._cut_frame, examples=self.whole)),
            (0.22, partial(self._cut_frame, examples=self.several)),
            (0.05, self._crop),
            (0.22, partial(self._beside, count=2)),
            (0.07, self._grid),
            (0.12, self._paste),
            (0.10, self._without),
        ]

    def draw(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Picture `number`: float32 (height, width, 3) in [0, 1], and its boxes (k, 4)."""
        random = np.random.default_rng((self.seed, number))
        shares = np.array([share for share, _ in self.kinds])
        _, draw_kind = self.kinds[random.choice(len(shares), p=shares / shares.sum())]
        scene = draw_kind(random)
        size = self.size[::-1]
        image = scene.image.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0)
        return np.asarray(_change_light(random, image), np.float32) / 255, scene.boxes

    def _frame(self, random: np.random.Generator, examples: Sequence[Example]) -> Scene:
        """A whole picture in its own proportions; where one dog is in it,
        mostly with the sharper crop at its place.
        """
        example = _one(random, examples)
        image = open_photo(example.frame or example.path)
        wide, high = example.sides or image.size
        scale = LONGEST / max(wide, high)
        image = image.resize((max(2, round(wide * scale)), max(2, round(high * scale))))
        boxes = np.array([example.box or WHOLE_BOX, *example.others], np.float32)
        if example.frame not in (None, example.path) and random.random() < 0.6:
            left, top, right, bottom = _pixels(boxes[0], image)
            crop = open_photo(example.path).resize((right - left, bottom - top))
            image.paste(crop, (left, top), _feather(crop.size))
        return _mirror(random, Scene(image, boxes))

    def _crop(self, random: np.random.Generator) -> Scene:
        image = open_photo(_one(random, self.crops).path)
        return _mirror(random, Scene(image, np.array([WHOLE_BOX], np.float32)))

    def _any(self, random: np.random.Generator) -> Scene:
        """One dog near or far, as people snap it."""
        if random.random() < 0.2:
            return self._crop(random)
        return self._cut_frame(random, self.whole)

    def _cut_frame(self, random: np.random.Generator, examples: Sequence[Example]) -> Scene:
        """The whole picture, or a part that shows each dog whole enough or not at all."""
        scene = self._frame(random, examples)
        for _ in range(TRIES if random.random() < 0.65 else 0):
            cut = cut_out(scene, _window(random, 0.45))
            if cut is not None and len(cut.boxes):
                return cut
        return scene

    def _beside(self, random: np.random.Generator, count: int) -> Scene:
        """Photos of one height in a row, or one of four times of one width in a column."""
        return join_scenes([self._any(random) for _ in range(count)], across=random.random() < 0.72)

    def _grid(self, random: np.random.Generator) -> Scene:
        """Three in a row or a column, or one or two beside two."""
        if random.random() < 0.3:
            return self._beside(random, 3)
        first = self._any(random) if random.random() < 0.4 else self._beside(random, 2)
        return join_scenes([first, self._beside(random, 2)], across=random.random() < 0.5)

    def _paste(self, random: np.random.Generator) -> Scene:
        """One to five crops in a scene, where later ones may hide a part of
        earlier ones.
        """
        scene = self._without(random).image
        factor = LONGEST / max(scene.size)
        wide, high = (max(16, round(side * factor)) for side in scene.size)
        image = scene.resize((wide, high))
        shown = np.full((high, wide), -1)  # the crop that each pixel shows
        places: list[tuple[int, int, int, int]] = []
        for number in range(random.integers(1, 6)):
            crop = open_photo(_one(random, self.crops).path)
            factor = random.uniform(0.15, 0.62) * LONGEST / max(crop.size)
            across = min(wide, max(8, round(crop.width * factor)))
            down = min(high, max(8, round(crop.height * factor)))
            left = int(random.integers(0, wide - across + 1))
            top = int(random.integers(0, high - down + 1))
            after = shown.copy()
            after[top : top + down, left : left + across] = number
            seen = [
                (after[upper:lower, first:last] == earlier).mean()
                for earlier, (first, upper, last, lower) in enumerate(places)
            ]
            if min(seen, default=1.0) < LEAST_SEEN:
                break
            crop = crop.resize((across, down))
            image.paste(crop, (left, top), _feather(crop.size) if random.random() < 0.7 else None)
            shown = after
            places.append((left, top, left + across, top + down))
        sides = np.array([wide, high, wide, high], np.float32)
        return Scene(image, np.array(places, np.float32) / sides)

    def _without(self, random: np.random.Generator) -> Scene:
        """A photo without a dog, or the part of a whole picture beside its dog."""
        if self.no_dogs and random.random() < 0.7:
            scene = Scene(open_photo(_one(random, self.no_dogs).path), NONE)
            return _mirror(random, Scene(cut_picture(scene.image, _window(random, 0.5)), NONE))
        for _ in range(TRIES):
            scene = self._frame(random, self.whole)
            corner, end = scene.boxes[:, :2].min(0), scene.boxes[:, 2:].max(0)
            width, strip = max(strips_beside((*corner, *end)), key=lambda each: each[0])
            if width > LEAST_STRIP:
                return Scene(cut_picture(scene.image, strip), NONE)
        return Scene(Image.new("RGB", self.size[::-1], (128, 128, 128)), NONE)


def strips_beside(box: Sequence[float]) -> list[tuple[float, Sequence[float]]]:
    """The parts left, right, above and below a box, with their width or height."""
    left, top, right, bottom = box
    return [
        (left, (0, 0, left, 1)),
        (1 - right, (right, 0, 1, 1)),
        (top, (0, 0, 1, top)),
        (1 - bottom, (0, bottom, 1, 1)),
    ]


def _window(random: np.random.Generator, least: float) -> tuple[float, ...]:
    """A part of a picture with sides of at least `least` of its own."""
    sides = random.uniform(least, 1.0, 2)
    corner = random.uniform(0, 1, 2) * (1 - sides)
    return (*corner, *(corner + sides))


def cut_out(scene: Scene, window: Sequence[float]) -> Scene | None:
    """The part of a picture in `window`; None where it shows a dog by halves."""
    left, top, right, bottom = window
    start = np.array([left, top] * 2, np.float32)
    sides = np.array([right - left, bottom - top] * 2, np.float32)
    boxes = (scene.boxes - start) / sides
    clipped = boxes.clip(0, 1)
    seen = _areas(clipped) / np.maximum(_areas(boxes), 1e-9)
    if ((seen > HIDDEN) & (seen < LEAST_SEEN)).any():
        return None
    return Scene(cut_picture(scene.image, window), clipped[seen >= LEAST_SEEN].astype(np.float32))


def cut_picture(picture: Image.Image, window: Sequence[float]) -> Image.Image:
    return picture.crop(_pixels(window, picture))


def _areas(boxes: np.ndarray) -> np.ndarray:
    return np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)


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


def _mirror(random: np.random.Generator, scene: Scene) -> Scene:
    if random.random() < 0.5:
        return scene
    left, top, right, bottom = scene.boxes.T
    mirrored = np.stack([1 - right, top, 1 - left, bottom], 1)
    return Scene(scene.image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), mirrored)


def _change_light(random: np.random.Generator, image: Image.Image) -> Image.Image:
    """Other light and colour, sometimes blurred."""
    for kind in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = kind(image).enhance(random.uniform(0.75, 1.25))
    if random.random() < 0.15:
        image = image.filter(ImageFilter.GaussianBlur(random.uniform(0.5, 1.2)))
    return image


def _feather(size: tuple[int, int]) -> Image.Image:
    """A mask that fades within 8 % of the sides: a hard edge would show the box."""
    across, down = map(_distances_to_ends, size)
    shares = np.minimum.outer(down, across).clip(0, 1)
    return Image.fromarray((255 * shares).astype(np.uint8))


def _distances_to_ends(side: int) -> np.ndarray:
    pixels = np.arange(side)
    return np.minimum(pixels + 0.5, side - pixels - 0.5) / (0.08 * side)


def _one(random: np.random.Generator, examples: Sequence[Example]) -> Example:
    return examples[int(random.integers(len(examples)))]


def _pixels(box: Sequence[float], image: Image.Image) -> tuple[int, int, int, int]:
    """At least one pixel a side."""
    sides = np.array(image.size)
    start = np.round(np.array(box[:2], float) * sides).clip(0, sides - 1)
    end = np.round(np.array(box[2:], float) * sides).clip(start + 1, sides)
    left, top, right, bottom = map(int, (*start, *end))
    return left, top, right, bottom
