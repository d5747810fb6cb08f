"""Image-to-image networks and detectors, wrapped by merging: files of pictures in; PNG files, or named boxes, out."""

import base64
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from click.testing import Result
from dogsnap.exporting.merging.merge import MergeError, Options, merge
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.serving.versions.warmup import warm_up
from PIL import Image
from support.colour_photos import encode
from support.command_line import dogsnap, output_of
from support.exported import png
from support.stub_service import StubService

pytestmark = pytest.mark.early

SIZE = (16, 16)


def save(folder: Path, network: Callable, *shape: int | None, dtype: tf.DType = tf.float32) -> Path:
    """A SavedModel of somebody else's that takes `image` and gives what `network` makes of it."""

    @tf.function(input_signature=[tf.TensorSpec(shape, dtype, "image")])
    def serving_default(image):
        answer = network(image)
        return answer if isinstance(answer, dict) else {"generated": answer}

    tf.saved_model.save(tf.Module(), str(folder), signatures=serving_default)
    return folder


def pixels(seed: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)


def run(folder: Path, *files: bytes) -> dict[str, np.ndarray]:
    loaded = tf.saved_model.load(str(folder))  # holds the variables of its signatures
    outputs = loaded.signatures["serving_default"](tf.constant(files, tf.string))
    return {name: value.numpy() for name, value in outputs.items()}


def made(folder: Path, *pictures: np.ndarray) -> list[np.ndarray]:
    """What comes back as PNG files for pixels that go in as PNG files."""
    files = run(folder, *map(png, pictures))["output_bytes"]
    return [np.asarray(Image.open(io.BytesIO(file))) for file in files]


def wrapped(source: Path, said: list[str] | None = None, **options) -> Path:
    report = (lambda _: None) if said is None else said.append
    return merge(source, Options(decode="bytes", encode="png", **options), report)


def test_numbers_from_minus_1_to_1_are_stated_for_output_and_input(tmp_path) -> None:
    source = save(
        tmp_path / "m" / "1",
        lambda image: tf.reshape(tf.tanh(-image), (-1, *SIZE, 3)),
        None,
        *SIZE,
        3,
    )
    both = r"held numbers from -0.* to .*--output-range LOW HIGH.*--input-range LOW HIGH"
    with pytest.raises(MergeError, match=both):
        wrapped(source)
    assert [file.name for file in source.parent.iterdir()] == ["1"]
    folder = wrapped(source, input_range=(-1, 1), output_range=(-1, 1))
    before = pixels(1)
    expected = np.round((np.tanh(1 - before / 127.5) + 1) * 127.5)
    np.testing.assert_allclose(made(folder, before)[0], expected, atol=1)


def test_numbers_beyond_0_and_1_that_nothing_explains_are_refused_until_they_are_stated(
    tmp_path,
) -> None:
    source = save(tmp_path / "m" / "1", lambda image: image * 255, None, *SIZE, 3)
    with pytest.raises(
        MergeError, match=r"held numbers from .* to 25\d in a trial .* --output-range LOW HIGH"
    ):
        wrapped(source)
    with pytest.raises(MergeError, match="--output-range is 0 0; expected two different numbers"):
        wrapped(source, output_range=(0, 0))
    before = pixels(2)
    np.testing.assert_array_equal(made(wrapped(source, output_range=(0, 255)), before)[0], before)


TAKEN = [
    "images go in as numbers from 0 (black) to 1 (white), since its first layers multiply them by -1 and add 1; "
    "--input-range LOW HIGH says otherwise",
    'output "generated" holds numbers from 0 (black) to 1 (white), as a trial with noise shows; '
    "--output-range LOW HIGH says otherwise",
]
BYTES = ["images go in as whole numbers from 0 (black) to 255 (white), as their type says"]


@pytest.mark.parametrize(
    ("white", "shape", "dtype", "taken"),
    [
        (1, (None, *SIZE, 3), tf.float32, TAKEN),
        (1, (None, 3, *SIZE), tf.float32, TAKEN),
        (255, (None, *SIZE, 3), tf.uint8, BYTES),
    ],
    ids=["0 to 1", "channels first", "bytes"],
)
def test_a_network_of_0_to_1_or_bytes_needs_no_range_and_is_told_which(
    tmp_path, white, shape, dtype, taken
) -> None:
    said: list[str] = []
    folder = wrapped(
        save(tmp_path / "m" / "1", lambda image: white - image, *shape, dtype=dtype), said
    )
    pictures = [pixels(seed) for seed in range(3)]
    np.testing.assert_array_equal(made(folder, *pictures), 255 - np.stack(pictures))
    assert [line for line in said if "(black)" in line] == taken


def test_a_grey_network_takes_colour_and_gives_grey(tmp_path) -> None:
    folder = wrapped(save(tmp_path / "m" / "1", lambda image: 1 - image, None, *SIZE, 1))
    before = pixels(4)
    (after,) = made(folder, before)
    assert after.shape == SIZE
    np.testing.assert_allclose(after, 255 - before @ [0.2989, 0.587, 0.114], atol=1)


def test_a_network_of_any_size_takes_the_one_that_is_stated_and_grey_and_jpeg(tmp_path) -> None:
    folder = wrapped(
        save(tmp_path / "m" / "1", lambda image: image, None, None, None, 3), size=SIZE
    )
    assert [each.shape for each in made(folder, pixels(7, (8, 12)), pixels(8, (31, 9)))] == [
        (*SIZE, 3)
    ] * 2
    files = [
        encode(Image.fromarray(pixels(5)[..., 0]), "PNG"),
        encode(Image.new("RGB", SIZE, (200, 30, 30)), "JPEG"),
    ]
    grey, jpeg = (
        np.asarray(Image.open(io.BytesIO(file))) for file in run(folder, *files)["output_bytes"]
    )
    np.testing.assert_array_equal(grey[..., 1], pixels(5)[..., 0])
    np.testing.assert_allclose(jpeg[8, 8], (200, 30, 30), atol=3)


def test_a_network_of_any_size_that_gives_classes_too_names_them_beside_the_picture(
    tmp_path,
) -> None:
    def network(image):
        return {
            "generated": 1 - image,
            "prediction": tf.nn.softmax(9 * tf.reduce_mean(image, (1, 2))),
        }

    labels = [{"id": name, "name": name, "name_zh": name} for name in ("red", "green", "blue")]
    folder = wrapped(save(tmp_path / "m" / "1", network, None, None, None, 3), labels=labels)
    blue = np.full((8, 12, 3), (10, 20, 200), np.uint8)
    np.testing.assert_array_equal(made(folder, blue)[0], 255 - blue)
    loaded = tf.saved_model.load(str(folder))
    named = loaded.signatures["labels"](tf.constant([png(blue)]))["labels"].numpy()
    assert named.tolist() == [[b"blue", b"green", b"red"]]


@pytest.mark.parametrize("batch", [None, 1])
def test_a_network_of_any_size_sees_each_picture_in_its_own_unless_it_is_damaged_or_too_large(
    tmp_path, batch
) -> None:
    folder = wrapped(save(tmp_path / "m" / "1", lambda image: 1 - image, batch, None, None, 3))
    pictures = [pixels(7, (16, 20)), pixels(8, (31, 9)), pixels(9, (5, 5))]
    for before, after in zip(pictures, made(folder, *pictures), strict=True):
        np.testing.assert_array_equal(after, 255 - before)
    assert run(folder)["output_bytes"].shape == (0,)
    assert warm_up(LocalServable(ServableId("m", 2), folder)) == 1
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"cannot decode the photos at these places .*\[1\]"
    ):
        run(folder, png(pixels(1)), png(pixels(2))[:50], png(pixels(3)))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="expected a picture of at most 4194304 pixels"
    ):
        run(folder, png(np.zeros((2049, 2048, 3), np.uint8)))


def corners(image: tf.Tensor) -> dict[str, tf.Tensor]:
    """A toy detector of bytes: a box around all that is bright red (class 0) or green (class 1), by falling score.

    Boxes as (top, left, bottom, right) in [0, 1]; the score is the bright share of the picture. A third box is always empty.
    """
    bright = tf.cast(tf.cast(image[0, ..., :2], tf.float32) > 200, tf.float32)
    high, wide = tf.unstack(tf.cast(tf.shape(image)[1:3], tf.float32))

    def extent(share: tf.Tensor, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        places = tf.cast(tf.where(share > 0)[:, 0], tf.float32)
        return tf.reduce_min(places) / size, (tf.reduce_max(places) + 1) / size

    found = []
    for channel in (0, 1):
        top, bottom = extent(tf.reduce_max(bright[..., channel], axis=1), high)
        left, right = extent(tf.reduce_max(bright[..., channel], axis=0), wide)
        found.append(tf.stack([top, left, bottom, right]))
    scores = tf.reduce_mean(bright, axis=(0, 1))
    order = tf.argsort(scores, direction="DESCENDING")
    return {
        "output_0": tf.concat([tf.gather(tf.stack(found), order), tf.zeros((1, 4))], axis=0)[
            tf.newaxis
        ],
        "output_1": tf.concat([order, [-1]], axis=0)[tf.newaxis],
        "output_2": tf.concat([tf.gather(scores, order), [0.0]], axis=0)[tf.newaxis],
        "num_detections": tf.constant([2.0]),
    }


def scene(size: tuple[int, int]) -> bytes:
    image = np.zeros((*size, 3), np.uint8)
    image[4:8, 2:6] = (255, 0, 0)
    image[10:20, 8:16] = (0, 255, 0)
    return png(image)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """negative/, and detector/ as TensorFlow's Object Detection API exports: for one picture in bytes; each with version 2."""
    models = tmp_path_factory.mktemp("pictures")
    wrapped(save(models / "negative" / "1", lambda image: 1 - image, None, None, None, 3))
    source = save(models / "detector" / "1", corners, 1, None, None, 3, dtype=tf.uint8)
    names = models / "names.txt"
    names.write_text("red dog\ngreen dog")
    options = [
        "--decode",
        "bytes",
        "--encode",
        "detections",
        "--first-class",
        "1",
        "--labels",
        names,
    ]
    options += ["--boxes", "output_0", "--classes", "output_1", "--scores", "output_2"]
    done = dogsnap("merge", source, *options)
    assert done.exit_code == 0, done.output
    return models


def test_a_detector_answers_boxes_classes_scores_and_names_through_rest(server) -> None:
    rows = [{"b64": base64.b64encode(scene(size)).decode()} for size in ((20, 20), (40, 32))]
    reply = server.post("/v1/models/detector/versions/2:predict", json={"instances": rows})
    assert reply.status_code == 200, reply.text
    first, second = reply.json()["predictions"]
    named = {f"detection_{what}" for what in ("boxes", "classes", "scores", "names")}
    assert set(first) == {*named, "num_detections"}
    assert first["detection_names"] == ["green dog", "red dog", ""]
    assert first["detection_classes"] == [2, 1, 0]
    np.testing.assert_allclose(
        first["detection_boxes"][:2], [[0.5, 0.4, 1, 0.8], [0.2, 0.1, 0.4, 0.3]], atol=1e-6
    )
    np.testing.assert_allclose(first["detection_scores"], [80 / 400, 16 / 400, 0], atol=1e-6)
    np.testing.assert_allclose(
        second["detection_boxes"][0], [10 / 40, 8 / 32, 20 / 40, 16 / 32], atol=1e-6
    )
    assert first["num_detections"] == 2


def counted(image: tf.Tensor) -> dict[str, tf.Tensor]:
    """As many detections as the picture has bright columns of four, whose classes count from 1."""
    count = tf.cast(tf.reduce_sum(tf.image.resize(image, (1, 4))[0, 0, :, 0]), tf.int32)
    return {
        "boxes": tf.fill((1, count, 4), 0.5),
        "classes": tf.range(1.0, tf.cast(count + 1, tf.float32))[tf.newaxis],
        "scores": tf.fill((1, count), 0.9),
    }


def counted_of_one(image: tf.Tensor) -> dict[str, tf.Tensor]:
    """The same as of one picture, (k, 4) and (k,), though it takes a batch of one."""
    detections = {name: values[0] for name, values in counted(image).items()}
    return {**detections, "num_detections": tf.cast(tf.size(detections["scores"]), tf.float32)}


def detected(version: Path, *columns: int) -> dict[str, list]:
    """What a merged version answers to pictures with so many bright columns of four."""
    pictures = []
    for bright in columns:
        image = np.zeros((16, 16, 3), np.uint8)
        image[:, : 4 * bright] = 255
        pictures.append(png(image))
    signature = tf.saved_model.load(str(version)).signatures["serving_default"]
    answer = signature(input_bytes=tf.constant(pictures))
    return {name: values.numpy().tolist() for name, values in answer.items()}


@pytest.mark.parametrize(
    ("detect", "size"),
    [
        (counted, (16, 16)),
        (counted, (None, None)),
        (counted_of_one, (16, 16)),
        (counted_of_one, (None, None)),
    ],
)
def test_pictures_with_other_numbers_of_detections_are_answered_together(
    tmp_path, detect, size
) -> None:
    source = save(tmp_path / "m" / "1", detect, 1, *size, 3)
    labels = [{"id": name, "name": name} for name in ("cat", "dog", "horse")]
    options = Options(decode="bytes", encode="detections", labels=labels, classes_from=1)
    version = merge(source, options)
    answer = detected(version, 1, 3, 0)
    assert answer["num_detections"] == [1, 3, 0]
    assert answer["detection_names"] == [
        [b"cat", b"", b""],
        [b"cat", b"dog", b"horse"],
        [b"", b"", b""],
    ]
    assert answer["detection_scores"][0] == pytest.approx([0.9, 0, 0])
    assert detected(version, 2)["detection_names"] == [[b"cat", b"dog"]]


LABEL_FILES = {
    "label_map.pbtxt": "item {{\n  id: {}\n  name: '/m/1'\n  display_name: \"{}\"\n}}\n",
    "numbered.txt": "{} {}\n",
    "plain.txt": "{1}\n",
}


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("label_map.pbtxt", ()),
        ("numbered.txt", ("--first-class", "0")),
        ("plain.txt", ("--first-class", "1")),
        ("plain.txt", ()),
    ],
)
def test_a_detector_that_counts_from_one_gets_its_own_names(tmp_path, file, options) -> None:
    def three(image: tf.Tensor) -> dict[str, tf.Tensor]:
        count = tf.shape(image)[0]
        classes = tf.tile([[1.0, 2.0, 3.0]], (count, 1))
        return {"boxes": tf.zeros((count, 3, 4)), "classes": classes, "scores": classes / 4}

    source = save(tmp_path / "m" / "1", three, None, *SIZE, 3)
    lines = [LABEL_FILES[file].format(*each) for each in enumerate(("cat", "dog", "horse"), 1)]
    (tmp_path / file).write_text("".join(lines))
    given = ("--decode", "bytes", "--encode", "detections", "--labels", tmp_path / file)
    said = output_of(dogsnap("merge", source, *given, *options))
    assert 'class 1 is called "cat"; --classes-from says otherwise' in said
    answer = detected(source.with_name("2"), 1)
    assert answer["detection_names"] == [[b"cat", b"dog", b"horse"]]
    assert answer["detection_classes"] == [[0, 1, 2] if "0" in options else [1, 2, 3]]


def test_a_label_map_may_leave_numbers_out(tmp_path) -> None:
    def sparse(image: tf.Tensor) -> dict[str, tf.Tensor]:
        count = tf.shape(image)[0]
        classes = tf.tile([[1.0, 17.0, 18.0]], (count, 1))
        return {"boxes": tf.zeros((count, 3, 4)), "classes": classes, "scores": classes / 20}

    source = save(tmp_path / "m" / "1", sparse, None, *SIZE, 3)
    file = tmp_path / "labels.pbtxt"
    file.write_text("item { id: 18 name: 'dog' } item { id: 1 name: 'person' }")
    given = ("--decode", "bytes", "--encode", "detections", "--labels", file)
    output_of(dogsnap("merge", source, *given))
    assert detected(source.with_name("2"), 1)["detection_names"] == [[b"person", b"", b"dog"]]


def boxes_twice(image: tf.Tensor) -> dict[str, tf.Tensor]:
    count = tf.shape(image)[0]
    boxes = {"rough_boxes": tf.zeros((count, 5, 4)), "fine_boxes": tf.ones((count, 5, 4))}
    return {**boxes, "scores": tf.zeros((count, 5)), "classes": tf.zeros((count, 5))}


def test_boxes_that_two_outputs_could_be_are_asked_for(tmp_path) -> None:
    source = save(tmp_path / "m" / "1", boxes_twice, None, *SIZE, 3)
    with pytest.raises(
        MergeError, match=r"one output with boxes \(n, k, 4\), found .*; choose with --boxes"
    ):
        merge(source, Options(decode="bytes", encode="detections"))
    with pytest.raises(MergeError, match='--boxes names "large_boxes"; available: '):
        merge(source, Options(decode="bytes", encode="detections", boxes="large_boxes"))
    answer = run(
        merge(source, Options(decode="bytes", encode="detections", boxes="fine_boxes")),
        png(pixels(1)),
    )
    assert set(answer) == {
        "detection_boxes",
        "detection_classes",
        "detection_scores",
        "rough_boxes",
    }
    assert answer["detection_boxes"].min() == 1


@pytest.fixture(params=["here", "by a server"])
def where(request, models, server) -> list[str]:
    return ["--models", str(models)] if request.param == "here" else ["--url", server.url]


def predict(*arguments: object) -> Result:
    return dogsnap("predict", "--model", "negative", *arguments)


def test_a_picture_becomes_another_and_one_that_fails_leaves_the_earlier_result_whole(
    where, tmp_path
) -> None:
    picture, result = tmp_path / "picture.png", tmp_path / "results" / "result.png"
    picture.write_bytes(png(pixels(1)))
    done = predict(picture, "--out", result, *where)
    assert (done.exit_code, done.stdout) == (0, f"wrote {result}\n"), done.output
    np.testing.assert_array_equal(np.asarray(Image.open(result)), 255 - pixels(1))
    before = result.read_bytes()
    picture.write_bytes(b"no picture")
    done = predict(picture, "--out", result, *where)
    assert (done.exit_code, "Traceback" in done.output) == (1, False)
    assert {file.name: file.read_bytes() for file in result.parent.iterdir()} == {
        "result.png": before
    }


def test_a_folder_of_pictures_becomes_a_folder_and_the_bad_one_is_named(where, tmp_path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"{number}.png").write_bytes(png(pixels(number)))
    Image.fromarray(pixels(3)).save(folder / "1.bmp")
    (folder / "bad.png").write_bytes(png(pixels(1))[:50])
    (folder / "notes.txt").write_text("no picture")
    done = predict(folder, "--out", out, *where)
    assert done.exit_code == 1
    assert "wrote 3 of 4 pictures" in done.output
    assert done.output.splitlines()[-1].startswith("Error: bad.png: ")
    assert sorted(file.name for file in out.iterdir()) == ["1.bmp.png", "1.png.png", "2.png"]
    np.testing.assert_array_equal(np.asarray(Image.open(out / "1.bmp.png")), 255 - pixels(3))


REPLIES = {
    "an error": (404, '{"error": "Servable not found"}', "Servable not found"),
    "no predictions": (
        200,
        '{"outputs": ["x"]}',
        "with one row of predictions, received {'outputs'",
    ),
    "no row": (200, '{"predictions": []}', "expected an answer with one row of predictions"),
    "numbers": (200, '{"predictions": [[0.1, 0.9]]}', "expected a picture"),
    "a list": (200, "[1]", "expected a JSON object"),
    "no base64": (200, '{"predictions": [{"b64": "no base64!"}]}', "is no base64 text"),
    "a page": (
        502,
        "<html>Bad Gateway</html>",
        "answers, but not as a dogsnap server does (status 502)",
    ),
}


@pytest.mark.parametrize(("status", "body", "sentence"), REPLIES.values(), ids=REPLIES)
def test_an_answer_without_a_picture_is_one_sentence_and_writes_nothing(
    tmp_path, status, body, sentence
) -> None:
    (tmp_path / "picture.png").write_bytes(png(pixels(1)))
    with StubService() as service:
        service.set(body.encode(), status)
        done = predict(tmp_path / "picture.png", "--out", tmp_path / "x.png", "--url", service.url)
    assert done.exit_code == 1
    assert sentence in done.output
    assert done.output.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["picture.png"]


def test_folders_and_files_that_do_not_fit_and_a_version_without_pictures_are_refused(
    models, tmp_path
) -> None:
    folder, picture = tmp_path / "in", tmp_path / "picture.png"
    folder.mkdir()
    picture.write_bytes(png(pixels(1)))
    nowhere = ["--url", "http://127.0.0.1:9"]
    assert "holds no picture" in predict(folder, "--out", tmp_path / "out", *nowhere).output
    (folder / "1.png").write_bytes(picture.read_bytes())
    assert "is a file; expected a folder" in predict(folder, "--out", picture, *nowhere).output
    assert "expected another folder" in predict(folder, "--out", folder, *nowhere).output
    assert (
        "is a folder; expected the name of a file"
        in predict(picture, "--out", folder, *nowhere).output
    )
    assert "is a folder; expected a photo, or --out" in predict(folder, *nowhere).output
    assert (
        "--out is for the picture"
        in predict("--json-instances", picture, "--out", tmp_path / "x", *nowhere).output
    )
    done = predict(picture, "--out", tmp_path / "x.png", "--models", models, "--version", 1)
    said = "this version takes numbers, not files of pictures; ask one that `dogsnap merge --decode bytes --encode png` made"
    assert (done.exit_code, done.output.splitlines()[-1]) == (1, f"Error: {said}")
    assert not (tmp_path / "x.png").exists()
