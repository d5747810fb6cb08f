"""How many parts a picture's file may have."""

import io

import pytest
from dogsnap.errors import UnsupportedPhoto
from dogsnap.serving.photos.hostile_files import MAX_SCANS, check_structure
from PIL import Image

START_OF_SCAN = b"\xff\xda"


def progressive_jpeg(mode: str) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, (64, 64)).save(buffer, "JPEG", progressive=True)
    return buffer.getvalue()


def with_scans(count: int) -> bytes:
    """A picture whose last scan is repeated until there are `count` scans."""
    whole = progressive_jpeg("L")
    last = whole.rindex(START_OF_SCAN)
    missing = count - whole.count(START_OF_SCAN)
    return whole[:-2] + whole[last:-2] * missing + whole[-2:]


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_every_picture_that_an_encoder_writes_has_few_enough_scans(mode: str) -> None:
    contents = progressive_jpeg(mode)
    assert 1 < contents.count(START_OF_SCAN) <= MAX_SCANS
    check_structure(contents)


def test_a_jpeg_of_more_scans_is_refused_naming_how_many_there_may_be() -> None:
    check_structure(with_scans(MAX_SCANS))
    with pytest.raises(UnsupportedPhoto, match="at most 18 scans"):
        check_structure(with_scans(MAX_SCANS + 1))
