"""`dogsnap.load`: a version in this process, with the answers of a server."""

import io
import logging
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import dogsnap
import numpy as np
import pytest
import tensorflow as tf
from dogsnap.errors import FailedPrecondition, InvalidArgument, NotFound
from dogsnap.exporting.merging.merge import Options, merge
from dogsnap.local_model import LocalModel, photo_bytes
from dogsnap.serving.answers.classification import Classification
from PIL import ExifTags, Image
from support import coloured_dogs, tiny_models
from support.coloured_dogs import ONE


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return merge(coloured_dogs.export(tmp_path_factory.mktemp("models") / "tiny"), Options())


@pytest.fixture(scope="module")
def model(version: Path) -> LocalModel:
    return dogsnap.load(version)


def test_a_photo_is_named_whatever_holds_it(model: LocalModel, tmp_path: Path) -> None:
    file = tmp_path / "dog.png"
    file.write_bytes(ONE)
    image = Image.open(file).convert("RGB")
    pixels = np.asarray(image)
    (entry,) = os.scandir(tmp_path)
    photos = [str(file), file, entry, ONE, image, pixels, (pixels / 255).astype(np.float32)]
    answers = model.classify(photos)
    assert all(isinstance(answer, Classification) for answer in answers)
    assert {answer.breeds[0].name for answer in answers} == {"blue spaniel"}
    first = answers[0].breeds[0]
    assert f"{first.probability:6.1%}  blue spaniel" in str(answers[0])
    assert len(model.classify(ONE, top_k=2).breeds) == 2
    assert model.labels[0]["name"] == "red hound"


def test_a_picture_of_pillow_is_turned_and_put_on_white_as_its_file_is(
    model: LocalModel, tmp_path: Path
) -> None:
    picture = Image.open(io.BytesIO(ONE)).convert("RGB")
    on_its_side = tmp_path / "on its side.jpg"
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    picture.resize((48, 32)).save(on_its_side, exif=exif)
    clear = tmp_path / "clear.png"
    picture.putalpha(picture.convert("L").point(lambda grey: 255 * (grey > 60)))
    picture.save(clear)
    deep = tmp_path / "deep.png"
    Image.fromarray(np.arange(1024, dtype=np.uint16).reshape(32, 32) * 64).save(deep)
    late = tmp_path / "EXIF behind the pixels.png"
    file = io.BytesIO()
    picture.resize((48, 32)).convert("L").save(file, "PNG", exif=exif)
    head, _, rest = file.getvalue().partition(b"eXIf")
    size = int.from_bytes(head[-4:], "big")
    chunk, rest = head[-4:] + b"eXIf" + rest[: size + 4], rest[size + 4 :]
    late.write_bytes(head[:-4] + rest[:-12] + chunk + rest[-12:])
    with Image.open(late) as opened:
        assert "exif" not in opened.info
        kept = Image.open(io.BytesIO(photo_bytes(opened))).getexif()
    assert kept[ExifTags.Base.Orientation] == 6
    for file in (on_its_side, clear, deep, late):
        of_file, of_picture = model.classify([file, Image.open(file)])
        assert of_picture.to_json()["breeds"] == of_file.to_json()["breeds"], file
    assert model.classify(bytearray(ONE)).breeds == model.classify(ONE).breeds


def test_a_picture_that_the_program_has_turned_is_not_turned_once_more(
    model: LocalModel,
) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    file = io.BytesIO()
    Image.open(io.BytesIO(ONE)).convert("RGB").resize((48, 32)).save(file, "PNG", exif=exif)
    stored = Image.open(file)
    for turned in (stored.transpose(Image.Transpose.ROTATE_270), stored.rotate(-90, expand=True)):
        assert Image.open(io.BytesIO(photo_bytes(turned))).getexif() == {}
        as_numbers = np.asarray(turned.convert("RGB"))
        of_picture, of_numbers, of_file = model.classify([turned, as_numbers, file.getvalue()])
        assert of_picture.breeds == of_numbers.breeds == of_file.breeds


@pytest.mark.parametrize("mode", sorted(Image.MODES))
def test_a_picture_of_pillow_has_an_answer_in_each_of_its_modes(
    model: LocalModel, mode: str
) -> None:
    assert model.classify(Image.new(mode, (32, 32))).breeds


def test_grey_values_of_32_bits_are_taken_as_those_of_8_or_16_bits_that_they_are() -> None:
    grey = np.arange(256, dtype=np.int32).reshape(16, 16)
    for values, bits in ((grey, grey), (257 * grey, 257 * grey.astype(np.uint16))):
        stored = np.asarray(Image.open(io.BytesIO(photo_bytes(Image.fromarray(values)))))
        np.testing.assert_array_equal(stored.reshape(16, 16, -1)[..., 0], bits)


def test_texts_are_taken_in_every_array_that_holds_them(tmp_path: Path) -> None:
    tiny_models.save(tmp_path / "echo" / "1", serving_default=echo)
    column = np.array(["a", b"b", "\u00e4"], dtype=object)
    with dogsnap.load(tmp_path / "echo" / "1") as model:
        for texts in (column, list(column[[0, 2]]), np.array(["a", "\u00e4"]), column[:1]):
            expected = [each.encode() if isinstance(each, str) else each for each in texts]
            assert model.predict({"x": texts})["y"].tolist() == expected
        with pytest.raises(InvalidArgument, match=r'input "x" is no array: .*surrogates'):
            model.predict({"x": ["\ud800"]})
        with pytest.raises(InvalidArgument, match="expected numbers, texts or bytes, received int"):
            model.predict({"x": [2**64]})


@tf.function(input_signature=[tf.TensorSpec([None], tf.string, "x")])
def echo(x: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"y": tf.identity(x)}


def test_the_folder_of_a_model_is_its_largest_version(version: Path) -> None:
    with dogsnap.load(version.parent) as model:
        assert repr(model) == f"<tiny version {version.name}>"


def test_any_signature_is_run_on_arrays_and_lists(tmp_path: Path) -> None:
    tiny_models.half_plus(2.0, tmp_path / "half" / "1")
    model = dogsnap.load(tmp_path / "half" / "1")
    for values in ([1, 2.0], np.array([1, 2], np.float32)):
        assert model.predict({"x": values})["y"].tolist() == [2.5, 3.0]
    with pytest.raises(InvalidArgument, match="z"):
        model.predict({"z": [1.0]})


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([1.0], r"expected values by input \(a, b\), received a list"),
        ({"a": None, "b": [1]}, 'input "a": expected numbers, texts or bytes, received NoneType'),
        ({"a": [[1.0], [1.0, 2.0]], "b": [1]}, 'input "a" is no array: .*inhomogeneous'),
        ({"a": [1.0], "b": [3.7]}, 'input "b": expected int32 values'),
        ({"a": [1.0], "b": [2**40]}, 'input "b": expected int32 values'),
        ({"a": ["\u00e4", b"\xff"], "b": [1]}, 'input "a" is no array'),
        ({"a": [1.0], "b": [2**64]}, 'input "b": expected int32 values, received a .* too large'),
        ({"a": [1.0], "b": ["1"]}, 'input "b": expected int32 values, received string'),
        ({"a": [1j], "b": [1]}, 'input "a": expected float32 values, received complex128'),
        (
            {"a": np.array(["2026-01-01"], "M8[D]"), "b": [1]},
            r'input "a": expected float32 values, received datetime64\[D\]',
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused_and_not_made_to_fit(
    tmp_path: Path, inputs: object, words: str
) -> None:
    tiny_models.several(tmp_path / "several" / "1")
    with (
        dogsnap.load(tmp_path / "several" / "1") as model,
        pytest.raises(InvalidArgument, match=words),
    ):
        model.predict(inputs)


@pytest.mark.parametrize(
    ("photo", "words"),
    [
        (b"no photo", "photo"),
        (np.zeros((4, 4)), r"received ndarray float64 \(4, 4\)"),
        (np.full((4, 4, 3), 255.0), r"expected floats in \[0, 1\], received 255 to 255"),
        (7, "received int"),
        (np.zeros((0, 4, 3), np.uint8), r"received ndarray uint8 \(0, 4, 3\)"),
        (np.full((4, 4, 3), 256, np.uint16), "expected uint8, received uint16 up to 256; divide"),
        ("https://host/dog.jpg", "https://host/dog.jpg is a URL; expected the path or the bytes"),
    ],
)
def test_what_is_no_photo_is_refused_with_what_was_expected(
    model: LocalModel, photo: object, words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        model.classify(photo)


def test_what_is_no_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="holds no version; expected a version folder"):
        dogsnap.load(tmp_path / "nothing")
    with pytest.raises(InvalidArgument, match="gs://bucket/half is a URL, which servers read"):
        dogsnap.load("gs://bucket/half")
    network = tmp_path / "network.keras"
    network.write_bytes(b"PK\3\4")
    for given in (network, tmp_path):
        with pytest.raises(NotFound, match=r"network\.keras is a file of Keras: .*; expected a"):
            dogsnap.load(given)
    (tmp_path / "broken" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "1" / "saved_model.pb").write_bytes(b"broken")
    with pytest.raises(FailedPrecondition, match="broken version 1 failed to load"):
        dogsnap.load(tmp_path / "broken")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12: so it is
def test_a_model_that_was_closed_or_loaded_before_a_fork_says_so(version: Path) -> None:
    model = dogsnap.load(version)
    reading, writing = os.pipe()
    if not (process := os.fork()):  # where TensorFlow would wait for ever
        signal.alarm(20)
        with suppress(BaseException):
            try:
                model.classify(ONE)
            except FailedPrecondition as error:
                os.write(writing, error.message.encode())
            model.close()
        os._exit(0)
    os.waitpid(process, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert b"was loaded before this process was forked" in pipe.read()
    assert model.classify(ONE).breeds
    model.close()
    with pytest.raises(FailedPrecondition, match="was closed; load it again"):
        model.classify(ONE)


def test_a_program_that_loads_a_version_gets_its_answer_and_no_line_of_a_log(
    version: Path, tmp_path: Path
) -> None:
    (tmp_path / "dog.png").write_bytes(ONE)
    code = (
        f"import dogsnap; print(dogsnap.load({str(version)!r}).classify('dog.png').breeds[0].name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("blue spaniel\n", "")


def test_the_programs_own_log_stays_as_it_is(version: Path) -> None:
    root = logging.getLogger()
    before = list(root.handlers), root.level
    dogsnap.load(version).close()
    assert (list(root.handlers), root.level) == before
