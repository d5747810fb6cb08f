"""Every dog in a photo: which boxes of the cells are dogs, a second pass for
each, and the answers.

`exporting/merging` puts it into versions.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tensorflow as tf

from dogsnap.networks.second_pass import SecondPass, Tensors, areas, box_in_photo, logarithms
from dogsnap.serving.photos.preprocessing import ROWS, WINDOWS

# the network's output: float32 (n, cells, 5), a score in [0, 1], and the sides of a box times the
# score
CELLS = "dogs_cells"
# of the dogs in a plan
BOXES = "boxes"
COUNTS = "counts"
MOST = 4  # dogs of a photo that are answered, the largest
COUNTED = 20  # boxes that suppression leaves at most
SMALLEST_PART = 0.3  # of its window that a dog fills; the box of another one's part is smaller
LEAST_AGAIN = 0.3  # score of a box in a window, below which the first pass alone tells it


@dataclass(frozen=True)
class EveryDog:
    """Which boxes are dogs, and how a second pass for each is combined with the
    first; chosen on photos with known boxes.

    `score`: of a cell, from which on its box may be a dog. `overlap`: of two
    boxes, above which the one with the lower score is suppressed. `dog`: the
    dog head's probability, in the second pass, below which a box is thrown out.
    `margin`, `weight`, `sharpness`: as in `SecondPass`. A photo with one box is
    answered as by `one`.
    """

    one: SecondPass
    score: float
    # at 0.35, parts of one dog count as two in 3 of 100 photos from the web, at 0.3 in 1
    overlap: float = 0.3
    dog: float = 0.05  # far less sure than of a whole photo, since the cells saw a dog, too
    margin: float = 0.05
    weight: float = 1.0  # the second pass counts alone
    sharpness: float = 1.0

    @classmethod
    def of(cls, one: SecondPass, stated: Mapping[str, Any]) -> "EveryDog":
        """From a version's description; ignores further keys.

        Raises KeyError for a missing one.
        """
        _, *names = cls.__dataclass_fields__
        return cls(one, *(float(stated[name]) for name in names))

    def to_json(self) -> dict[str, float]:
        """For a version's description."""
        stated = asdict(self)
        del stated["one"]
        return stated

    def find_dogs(self, cells: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Cells (n, cells, 5) -> the boxes of at most MOST dogs, the largest
        first, (n, MOST, 4); how many there are, (n,).
        """
        scores = cells[..., :1]
        boxes = cells[..., 1:] / tf.maximum(scores, 1e-6)
        kept, _, _, counts = tf.image.combined_non_max_suppression(
            boxes[:, :, tf.newaxis],
            scores,
            COUNTED,
            COUNTED,
            self.overlap,
            self.score,
            clip_boxes=False,
        )
        # The area of those that are left out is 0.
        largest = tf.math.top_k(areas(kept), MOST).indices
        return tf.gather(kept, largest, batch_dims=1), counts

    def plan(self, first: Tensors) -> Tensors:
        """As `SecondPass.plan`: first the windows of photos with one dog, then
        those of all dogs of the others. And what `find_dogs` gives, as BOXES
        and COUNTS.
        """
        boxes, counts = self.find_dogs(first[CELLS])
        of_one = self.one.plan(first)
        is_single = tf.gather(counts < 2, of_one[ROWS])
        places = _places(counts)
        several = self._wider.windows(tf.gather_nd(boxes, places))
        windows = [tf.boolean_mask(of_one[WINDOWS], is_single), several]
        rows = [tf.boolean_mask(of_one[ROWS], is_single), places[:, 0]]
        return {
            WINDOWS: tf.concat(windows, axis=0),
            ROWS: tf.concat(rows, axis=0),
            BOXES: boxes,
            COUNTS: counts,
        }

    @property
    def _wider(self) -> SecondPass:
        return SecondPass(self.margin, 1.0, 1.0, self.weight, self.sharpness)

    def combine(self, first: Tensors, second: Tensors, planned: Tensors) -> Tensors:
        """The answers of the first pass (n, ...) and of the windows in
        `planned` (m, ...) -> those of the version.

        prediction, box: of the largest dog; dog: the largest of all passes.
        dogs_box (n, MOST, 4), dogs_prediction (n, MOST, classes), dogs_score
        (n, MOST), the dog head's: of the first dogs_number int32 (n,), the
        largest first; the rest is 0. dogs_more bool (n,): whether there are
        more than MOST. A photo that shows no dog has one here, whose score says
        so. What else the first pass tells stays as it is.
        """
        boxes = planned[BOXES]
        counts = planned[COUNTS]
        places = _places(counts)
        singles = tf.size(planned[ROWS]) - tf.shape(places)[0]
        of_one = {name: planned[name][:singles] for name in (WINDOWS, ROWS)}
        ones = {name: value[:singles] for name, value in second.items()}
        rest = {name: value[singles:] for name, value in second.items()}
        whole = {name: value for name, value in first.items() if name != CELLS}
        answers = self.one.combine(whole, ones, of_one)
        return self._join(answers, self._judge(first, rest, boxes, places), counts)

    def _judge(
        self, first: Tensors, second: Tensors, boxes: tf.Tensor, places: tf.Tensor
    ) -> Tensors:
        """What is said of several dogs, at their places, (n, MOST, ...); the
        score of what is no dog is 0.
        """
        before = tf.gather(logarithms(first["prediction"]), places[:, 0])
        mean = self.weight * logarithms(second["prediction"]) + (1 - self.weight) * before
        score = tf.where(second["dog"] < self.dog, 0.0, second["dog"])
        said = {"prediction": tf.nn.softmax(self.sharpness * mean), "score": score}
        count = tf.shape(first["dog"], out_type=tf.int64)[0]
        found = tf.gather_nd(boxes, places)
        again = _mean_with_second(found, self._wider.windows(found), second[CELLS])
        dogs = {"box": tf.tensor_scatter_nd_update(boxes, places, again)}
        for name, value in said.items():
            shape = tf.concat([[count, MOST], tf.shape(value, tf.int64)[1:]], axis=0)
            dogs[name] = tf.scatter_nd(places, value, shape)
        return dogs

    def _join(self, answers: Tensors, dogs: Tensors, counts: tf.Tensor) -> Tensors:
        """Dogs without those that were thrown out; where none is left, the
        answer to the whole photo is the only one.
        """
        is_dog = dogs["score"] > 0
        sizes = tf.where(is_dog, areas(dogs["box"]), -1.0)
        order = tf.argsort(sizes, direction="DESCENDING", stable=True)
        number = tf.reduce_sum(tf.cast(is_dog, tf.int32), axis=1)
        several = number > 0
        room = [[0, 0], [0, MOST - 1]]
        alone = {
            name: tf.pad(answers[name][:, tf.newaxis], [*room, [0, 0]])
            for name in ("prediction", "box")
        }
        alone["score"] = tf.pad(answers["dog"][:, tf.newaxis], room)
        filled = tf.sequence_mask(number, MOST, tf.float32)
        listed = {}
        for name, value in dogs.items():
            kept = tf.gather(value, order, batch_dims=1)
            kept *= filled if name == "score" else filled[..., tf.newaxis]
            listed[name] = tf.where(_like(several, kept), kept, alone[name])
        return {
            **answers,
            "prediction": listed["prediction"][:, 0],
            "dog": tf.maximum(answers["dog"], tf.reduce_max(dogs["score"], axis=1)),
            "box": listed["box"][:, 0],
            "dogs_box": listed["box"],
            "dogs_prediction": listed["prediction"],
            "dogs_score": listed["score"],
            "dogs_number": tf.maximum(number, 1),
            "dogs_more": tf.logical_and(counts > MOST, number == MOST),
        }


def _mean_with_second(boxes: tf.Tensor, windows: tf.Tensor, cells: tf.Tensor) -> tf.Tensor:
    """The means of boxes (m, 4) with those that the cells (m, cells, 5) find
    again in their windows (m, 4).

    Not with the box head's: the part of another dog in the window moves that.
    """
    sides = cells[..., 1:] / tf.maximum(cells[..., :1], 1e-6)
    scores = tf.where(areas(sides) < SMALLEST_PART, 0.0, cells[..., 0])
    best = tf.gather(sides, tf.argmax(scores, axis=1), batch_dims=1)
    is_found = tf.reduce_max(scores, axis=1, keepdims=True) > LEAST_AGAIN
    return tf.where(is_found, (boxes + box_in_photo(windows, best)) / 2, boxes)


def _places(counts: tf.Tensor) -> tf.Tensor:
    """The photo and the place of each dog of the photos that show several, int64 (m, 2)."""
    return tf.where((counts[:, tf.newaxis] > 1) & (tf.range(MOST) < counts[:, tf.newaxis]))


def _like(condition: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """A condition (n,) that selects among rows of `value`."""
    return tf.reshape(condition, [-1] + [1] * (value.shape.rank - 1))
