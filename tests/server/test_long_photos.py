"""A long picture, such as a screenshot of a whole chat, in which the dog is small: looked at again in overlapping squares."""

from itertools import pairwise

import numpy as np
import pytest
from dogsnap.exporting.merging.merge import Options, merge
from dogsnap.serving.photos.photo import windows
from support import spotting
from support.exported import png

LONG, TOP, BOTTOM = 1600, 1200, 1480  # pixels: of a picture, and where its dog begins and ends


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory):
    """Its network says that a picture shows a dog if enough of it is bright."""
    folder = tmp_path_factory.mktemp("models")
    model = spotting.network()
    model.get_layer("dog").set_weights([np.full((3, 1), 10, np.float32), np.float32([-6])])
    merge(spotting.export(folder / "inception_v3", model=model), Options(second_pass=True))
    return start_server(folder)


def picture(width: int, height: int) -> bytes:
    return png(np.zeros((height, width, 3), np.uint8))


def with_dog(is_tall: bool, length: int = LONG) -> bytes:
    pixels = np.zeros((length, 100, 3), np.uint8)
    pixels[TOP:BOTTOM] = (255, 120, 120)
    return png(pixels if is_tall else pixels.transpose(1, 0, 2))


def test_the_squares_overlap_cover_the_picture_and_are_four_at_most():
    for length in (2.1, 2.5, 3, 4, 8, 40):
        found = windows(picture(50, round(50 * length)))
        assert 2 <= len(found) <= 4
        assert found[0][1] == 0
        assert found[-1][3] == pytest.approx(1)
        for before, after in pairwise(found):
            assert after[1] < before[3] < after[3]
    assert windows(picture(100, 200)) == []
    wide = windows(picture(300, 100))
    assert [left for left, *_ in wide] == [top for _, top, *_ in windows(picture(100, 300))]


@pytest.mark.parametrize("is_tall", [True, False])
def test_a_dog_in_a_long_photo_is_found_and_its_box_is_that_in_the_whole_photo(server, is_tall):
    answer = server.classify(with_dog(is_tall)).json()
    assert answer["dog"]
    assert answer["breeds"][0]["name"] == "red hound"
    found = np.array(answer["box"]).reshape(2, 2)[:, int(is_tall)]
    assert found == pytest.approx([TOP / LONG, BOTTOM / LONG], abs=0.05)
    assert answer["dogs"][0]["box"] == answer["box"]


def test_a_long_photo_without_a_dog_and_one_that_is_not_long_show_none(server):
    for photo in (picture(100, 1600), picture(1600, 100), picture(100, 150)):
        assert not server.classify(photo).json()["dog"]
