"""Views of training photos: of the right size, in range, never twice the same, with the dog's box in them."""

from pathlib import Path

import numpy as np
import pytest
from dogsnap.training.dataset import Example
from lab import picture_views
from PIL import Image
from support.photos import striped

SIZE = (48, 40)
BOX = (0.25, 0.25, 0.75, 0.75)


@pytest.fixture
def example(tmp_path: Path) -> Example:
    """A striped crop, and the whole picture, grey around it."""
    crop = striped((200, 60, 50), 1, size=(80, 80))
    whole = Image.new("RGB", (160, 160), (128, 128, 128))
    whole.paste(crop, (40, 40))
    for name, picture in (("crop", crop), ("whole", whole)):
        picture.save(tmp_path / f"{name}.png")
    return Example(tmp_path / "crop.png", 0, tmp_path / "whole.png", BOX)


def drawn(example: Example, count: int, plain: bool = False) -> list[picture_views.View]:
    views = picture_views.views([example], SIZE, plain).take(count)
    return [picture_views.View(*view) for view in views.as_numpy_iterator()]


def test_every_view_has_the_networks_size_and_range_and_no_two_are_alike(example: Example) -> None:
    images = np.stack([view.image for view in drawn(example, 60)])
    assert images.shape == (60, *SIZE, 3)
    assert images.dtype == np.float32
    assert (images >= 0).all()  # which no NaN is
    assert (images <= 1).all()
    assert (np.abs(images[1:20] - images[:19]).mean((1, 2, 3)) > 0.02).all()


def test_the_box_of_a_view_holds_the_dog_and_is_known_but_for_turned_and_sharper_ones(
    example: Example,
) -> None:
    views = drawn(example, 200)
    known = [view for view in views if view.known]
    assert 0.3 < len(known) / len(views) < 0.5  # (1 - 0.35) * (1 - 0.38)
    for view in known:
        left, top, right, bottom = np.round(view.box * (40, 48, 40, 48)).astype(int)
        assert right - left > 8
        assert bottom - top > 8
        inside = np.ptp(view.image[top + 1 : bottom - 1, left + 1 : right - 1], axis=-1)
        assert inside.mean() > 0.15  # it is coloured
        outside = np.ptp(view.image, axis=-1)
        outside[max(top - 2, 0) : bottom + 2, max(left - 2, 0) : right + 2] = 0
        assert outside.mean() < 0.1  # another white balance
    assert all(view.known for view in drawn(example, 20, plain=True))
