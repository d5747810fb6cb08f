"""The box of the dog: from the numbers of a feature map's cells, its loss, and the fit of its layers."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from dogsnap.networks import architectures, box_head
from dogsnap.training import dataset, own_classes
from lab import artefacts, boxes, photo_lists, picture_views, trainer
from lab.losses import box_loss
from lab.recipes import Stage
from support.photos import make_data_set, make_frames
from support.tiny_network import tiny_recipe, tiny_with_box

pytestmark = pytest.mark.early

CENTRES = ((0.25, 0.75), (0.1, 0.5, 0.9))


def cells(**placed: tuple[float, tuple[float, float, float, float]]) -> np.ndarray:
    """A map (1, 2, 3, 5): at `r0c1`, say, a score and a box; elsewhere a low score and a box of everything."""
    numbers = np.zeros((1, 2, 3, box_head.CELL_NUMBERS), np.float32)
    for row, down in enumerate(CENTRES[0]):
        for column, across in enumerate(CENTRES[1]):
            score, (left, top, right, bottom) = placed.get(
                f"r{row}c{column}", (-9.0, (-0.4, -0.4, 1.4, 1.4))
            )
            distances = (
                np.array([across - left, down - top, right - across, bottom - down]) / box_head.UNIT
            )
            numbers[0, row, column] = [score, *np.log(distances)]
    return numbers


LEFT, RIGHT = (0.0, 0.1, 0.4, 0.9), (0.6, 0.1, 1.0, 0.9)
ONE, OTHER = (0.2, 0.2, 0.8, 0.8), (0.3, 0.2, 0.8, 0.8)


@pytest.mark.parametrize(
    ("placed", "expected"),
    [
        ({"r1c1": (5.0, ONE)}, ONE),
        ({"r0c0": (5.0, LEFT), "r0c2": (4.9, RIGHT)}, LEFT),
        ({"r0c0": (4.9, LEFT), "r0c2": (5.0, RIGHT)}, RIGHT),
        ({"r0c1": (2.0, ONE), "r1c1": (2.0 + np.log(3), OTHER)}, (0.275, 0.2, 0.8, 0.8)),
        ({"r0c0": (5.0, (-0.3, -0.2, 1.3, 1.1))}, (0, 0, 1, 1)),
    ],
    ids=[
        "the best cell",
        "two dogs",
        "two dogs, the other better",
        "one dog, averaged",
        "inside the picture",
    ],
)
def test_the_cells_that_see_the_surest_dog_give_the_box(placed: dict, expected: tuple) -> None:
    np.testing.assert_allclose(
        np.asarray(box_head.CellBoxes(CENTRES)(cells(**placed)))[0], expected, atol=1e-4
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((0, 0, 1, 1), (0, 0, 1, 1), 1.0),
        ((0, 0, 0.5, 1), (0.5, 0, 1, 1), 0.0),
        ((0, 0, 0.5, 1), (0.25, 0, 0.75, 1), 1 / 3),
    ],
)
def test_overlap_is_intersection_over_union(one: tuple, other: tuple, expected: float) -> None:
    found = box_head.overlap(np.array(one, np.float32), np.array(other, np.float32))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_loss_is_least_for_the_right_box_at_its_middle_and_counts_known_boxes_alone() -> None:
    true = (0.2, 0.3, 0.8, 0.9)

    def loss(numbers: np.ndarray, known: float = 1.0) -> float:
        return float(box_loss(np.array([[*true, known]], np.float32), numbers, CENTRES))

    right = loss(cells(r1c1=(9.0, true)))
    shifted = loss(cells(r1c1=(9.0, (0.3, 0.3, 0.9, 0.9))))
    elsewhere = loss(cells(r0c0=(9.0, (0.0, 0.0, 0.4, 0.9)), r1c1=(0.0, true)))
    assert right < 0.01 < min(shifted, elsewhere)
    assert loss(cells(r1c1=(9.0, (0.3, 0.3, 0.9, 0.9))), known=0.0) == 0


@pytest.mark.long
def test_a_network_learns_breeds_and_boxes_from_whole_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dark pictures with a coloured rectangle, whose place is the box."""
    monkeypatch.setitem(architectures.ARCHITECTURES, "tiny", tiny_with_box)
    monkeypatch.setattr(artefacts, "BOX_VIEWS", 320)
    # Threads would share the random numbers of the views in another order each time.
    monkeypatch.setattr(tf.data, "AUTOTUNE", 1)
    data = make_data_set(tmp_path / "dogs")
    frames = make_frames(data, tmp_path / "frames")
    examples = boxes.with_boxes(dataset.read_list(data, "train_list"), frames)
    stage = Stage("all", from_block=None, epochs=16, rate=0.05, warmup=1)
    recipe = tiny_recipe((32, 32), stages=(stage,), dropout=0.0, head_rate=0.2, average=0.9)
    start = tmp_path / "start.weights.h5"
    keras.utils.set_random_seed(3)
    tiny_with_box(3, (32, 32)).save_weights(start)
    validation = [example for example in examples if example.frame][:8]
    model = trainer.train(recipe, examples, validation, 3, start, tmp_path / "work")
    artefacts.fit_box_head(model, recipe, examples)
    whole = photo_lists.with_whole_pictures(examples)[len(examples) :]
    found = model.predict(own_classes.views_of(whole, (32, 32)), verbose=0)
    overlaps = np.asarray(
        box_head.overlap(found["box"], np.array([example.box for example in whole], np.float32))
    )
    assert overlaps.mean() > 0.5
    assert (found["breeds"].argmax(-1) == dataset.breeds_of(whole)).mean() > 0.8


def test_two_views_side_by_side_have_the_box_of_either() -> None:
    one = picture_views.View(
        tf.zeros((40, 40, 3)), tf.constant([0.5, 0.25, 1.0, 0.75]), tf.constant(1.0), 0
    )
    other = picture_views.View(
        tf.ones((40, 40, 3)), tf.constant([0.0, 0.0, 1.0, 1.0]), tf.constant(1.0), 1
    )
    found = [picture_views.side_by_side(one, other) for _ in range(20)]
    for view in found:
        split = float(tf.reduce_mean(1 - view.image))
        expected = [[split / 2, 0.25, split, 0.75], [split, 0, 1, 1]]
        assert min(np.abs(view.box - box).max() for box in expected) < 0.02
        assert float(view.known) == 1
    assert len({bool(view.box[2] > 0.9) for view in found}) == 2


def test_the_box_in_a_window_is_the_part_that_it_shows() -> None:
    box = tf.constant([0.2, 0.4, 0.6, 0.8])
    seen = picture_views.box_in(tf.constant([0.1, 0.5, 0.5, 0.9]), box, tf.constant(False))
    np.testing.assert_allclose(seen, [0.25, 0.0, 1.0, 0.75], atol=1e-6)
    mirrored = picture_views.box_in(tf.constant([0.1, 0.5, 0.5, 0.9]), box, tf.constant(True))
    np.testing.assert_allclose(mirrored, [0.0, 0.0, 0.75, 0.75], atol=1e-6)


def test_a_window_cuts_off_a_tenth_of_the_dog_at_most() -> None:
    box, draw = tf.constant([0.3, 0.3, 0.7, 0.8]), tf.function(picture_views.random_window)
    found = np.array([draw(box) for _ in range(200)])
    assert (found <= [0.345, 0.355, 1.001, 1.001]).all()
    assert (found >= [-0.001, -0.001, 0.655, 0.745]).all()
    assert np.ptp(found[:, 0]) > 0.3
