"""One loaded version: what it says about itself, what it refuses, and the sentence of a kernel that fails."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.errors import FailedPrecondition, Internal, InvalidArgument, Unavailable
from dogsnap.serving.answers.classification import name_breeds
from dogsnap.serving.assembly import create_predictor
from dogsnap.serving.inference.request_kinds import Values
from dogsnap.serving.repository.model import ModelSpec
from dogsnap.serving.tensors.signatures import ServableId, UnknownSignature
from dogsnap.serving.versions.servable import LocalServable, kernel_sentence
from dogsnap.serving.versions.warmup import warm_up
from dogsnap.settings import Settings
from support import tiny_models
from support.colour_photos import GREEN, encode, plain

ME = ServableId("m", 1)
LABELS = list(tiny_models.COLOURS)
DECISION = {"dog_threshold": 0.5, "confident_threshold": 0.6}


@pytest.fixture(scope="module")
def colours(colour_models) -> Path:
    return colour_models / "inception_v3"


def images(folder: Path, outputs: str = "prediction") -> Path:
    """A foreign model without a word about itself: images in, the mean colour out."""

    @tf.function(input_signature=[tiny_models.spec(tf.float32, None, 8, 8, 3, name="pixels")])
    def serving_default(pixels):
        return {outputs: tf.reduce_mean(pixels, axis=[1, 2])}

    return tiny_models.save(folder, serving_default=serving_default)


def described(folder: Path, **description) -> Path:
    (folder / "assets.extra").mkdir(exist_ok=True)
    (folder / "assets.extra" / "dogsnap.json").write_text(json.dumps(description), encoding="utf-8")
    return folder


def test_an_unknown_signature_is_refused_naming_those_there_are(colours):
    with pytest.raises(
        UnknownSignature, match=r'Serving signature name: "x" not found in signature def.*"scores"'
    ):
        LocalServable(ME, colours / "1").signature("x")


def test_a_merged_version_has_a_signature_of_bytes_for_the_one_of_base64_text(colours, tmp_path):
    merged = LocalServable(ME, colours / "2")
    assert merged.of_bytes(merged.signature()) == merged.signature("image_bytes")
    for name in ("image_bytes", "scores", "labels"):
        assert merged.of_bytes(merged.signature(name)) is None
    foreign = shutil.copytree(colours / "2", tmp_path / "2")
    shutil.rmtree(foreign / "assets.extra")
    assert LocalServable(ME, foreign).of_bytes(merged.signature()) is None


def test_a_foreign_model_with_labels_alone_names_photos_by_the_size_of_its_input(tmp_path):
    servable = LocalServable(
        ME, described(images(tmp_path / "1"), labels=LABELS, decision=DECISION)
    )
    outputs = servable.run_photos(servable.photo_signature(), [encode(plain(GREEN), "PNG")])
    answer = name_breeds(servable, outputs, row=0, top_k=1)
    assert (answer.breeds[0].id, answer.dog, answer.confident) == (
        "c2",
        True,
        True,
    )  # it has no way to say "no dog"


def test_a_prediction_of_unknown_rank_is_served_with_labels_and_without(tmp_path):
    @tf.function(input_signature=[tiny_models.spec(tf.float32, None, 8, 8, 3, name="pixels")])
    def serving_default(pixels):
        mean = tf.reduce_mean(pixels, axis=[1, 2])
        return {"prediction": tf.raw_ops.PlaceholderWithDefault(input=mean, shape=None)}

    folder = tiny_models.save(tmp_path / "1", serving_default=serving_default)
    pixels = np.zeros((1, 8, 8, 3), np.float32)
    for description in ({"input_size": [8, 8]}, {"labels": LABELS}):
        servable = LocalServable(ME, described(folder, **description))
        assert servable.signature().outputs["prediction"].shape.rank is None
        assert servable.run(servable.signature(), {"pixels": pixels})["prediction"].shape == (1, 3)


ODD = {
    "is no plain tensor (RAGGED_TENSOR_SPEC)": lambda x: tf.RaggedTensor.from_row_lengths(
        x, [tf.size(x)]
    ),
    "is a sparse tensor": tf.sparse.from_dense,
    "is of the dtype qint8": lambda x: tf.quantization.quantize(x, -1.0, 1.0, tf.qint8).output,
}


@pytest.mark.parametrize(("reason", "make"), ODD.items(), ids=ODD)
def test_an_output_that_cannot_be_served_is_refused_by_name_and_leaves_the_rest(
    tmp_path, reason, make
):
    x = tiny_models.spec(tf.float32, None)
    folder = tiny_models.save(
        tmp_path / "odd" / "1",
        serving_default=tiny_models.signature(lambda x: {"y": 2 * x}, x),
        odd=tiny_models.signature(lambda x: {"y": 2 * x, "pieces": make(x)}, x),
    )
    predictor = create_predictor(Settings(models=folder.parents[1]), ModelSpec("odd"))
    arrays = {"x": np.array([1, 2], np.float32)}

    def ask(signature: str, output_filter: tuple[str, ...] = ()) -> dict:
        works = [Values(lambda _: arrays, signature, output_filter)]
        (prediction,) = predictor.answer(ModelSpec("odd"), works)
        return {alias: value.tolist() for alias, value in prediction.outputs.items()}

    assert ask("serving_default") == ask("odd", ("y",)) == {"y": [2.0, 4.0]}
    for wanted in ((), ("pieces",), ("y", "pieces")):
        with pytest.raises(InvalidArgument, match=re.escape(f'output "pieces" {reason}; expected')):
            ask("odd", wanted)


def test_labels_that_do_not_fit_the_classes_fail_the_load(tmp_path):
    with pytest.raises(ValueError, match="has 3 classes, the version's labels are 2"):
        LocalServable(ME, described(images(tmp_path / "1"), labels=LABELS[:2], decision=DECISION))


def test_a_version_without_thresholds_never_says_no_dog_is_never_sure_and_says_so(tmp_path):
    servable = LocalServable(ME, described(images(tmp_path / "1"), labels=LABELS))
    outputs = {"prediction": np.array([[0.01, 0.99, 0.0]]), "dog": np.array([0.0])}
    answer = name_breeds(servable, outputs, row=0, top_k=1).to_json()
    assert (answer["breeds"][0]["id"], answer["dog"], answer["confident"]) == ("c2", True, False)
    assert "has no thresholds" in answer["note"]


def test_an_answer_that_claims_a_group_lists_all_of_its_members_unless_a_number_was_asked_for(
    tmp_path,
):
    @tf.function(input_signature=[tiny_models.spec(tf.float32, None, 8, 8, 3, name="pixels")])
    def serving_default(pixels):
        return {"prediction": tf.tile(tf.reduce_mean(pixels, axis=[1, 2]), [1, 3])}

    labels = [{"id": f"c{number}", "name": f"class {number}"} for number in range(9)]
    group = {"id": "a", "name": "class 0 or class 8", "name_zh": "", "members": ["c0", "c1", "c8"]}
    thresholds = {"group_threshold": 0.85, "set_threshold": 0.9, "unknown_threshold": 0.05}
    folder = tiny_models.save(tmp_path / "1", serving_default=serving_default)
    decision = {**DECISION, "confident_threshold": 0.95, **thresholds}
    described(folder, labels=labels, decision=decision, groups=[group])
    outputs = {"prediction": np.array([[0.9, 0.02, *[0.01] * 6, 0.005]]), "dog": np.array([1.0])}
    servable = LocalServable(ME, folder)
    answer = name_breeds(servable, outputs, row=0, top_k=None)
    assert (answer.level, [breed.id for breed in answer.breeds][-1]) == ("group", "c8")
    assert len(answer.breeds) == 6
    assert len(name_breeds(servable, outputs, row=0, top_k=2).breeds) == 2


def test_a_version_with_labels_but_without_a_prediction_warms_up_and_says_what_is_missing(tmp_path):
    servable = LocalServable(
        ME, described(images(tmp_path / "1", outputs="mean"), labels=LABELS, decision=DECISION)
    )
    assert warm_up(servable) == 0
    with pytest.raises(
        FailedPrecondition, match="one input and the output prediction, it has: serving_default"
    ):
        servable.photo_signature()


def test_a_photo_for_an_input_of_open_size_needs_the_size_said(tmp_path):
    @tf.function(input_signature=[tiny_models.spec(tf.float32, None, None, None, 3, name="image")])
    def serving_default(image):
        return {"prediction": tf.reduce_mean(image, axis=[1, 2])}

    folder = tiny_models.save(tmp_path / "1", serving_default=serving_default)
    photo = encode(plain(GREEN), "PNG")
    servable = LocalServable(ME, folder)
    with pytest.raises(
        FailedPrecondition, match="size of image it takes: expected input_size in assets"
    ):
        servable.run_photos(servable.signature(), [photo])
    servable = LocalServable(ME, described(folder, input_size=[8, 8]))
    assert servable.run_photos(servable.signature(), [photo])["prediction"].shape == (1, 3)


@pytest.mark.parametrize(
    ("raised", "expected", "said"),
    [
        (
            RuntimeError("Exception from src/inference.cpp:216"),
            Internal,
            "m version 1 failed .* the server's log has",
        ),
        (MemoryError(), Unavailable, "no memory left for this request"),
    ],
)
def test_what_another_runtime_raises_becomes_an_error_for_the_client(
    tmp_path, caplog, raised, expected, said
):
    servable = LocalServable(ME, images(tmp_path / "1"))

    def fail(**_: object) -> None:
        raise raised

    servable._functions["serving_default"] = fail
    with pytest.raises(expected, match=said):
        servable.run(servable.signature(), {"pixels": np.zeros((1, 8, 8, 3), np.float32)})
    assert ("src/inference.cpp" in caplog.text) == (expected is Internal)


def test_the_kernels_sentence_is_found_with_and_without_a_trace():
    trace = 'Graph execution error:\n\nDetected at node X defined at (most recent call last):\n  File "a.py", line 1, in f\n\n'
    told = kernel_sentence(trace + "It is\nwrong.\n\t [[{{node X}}]] [Op:__inference_f_1]")
    assert told == "It is wrong. [[{{node X}}]]"
    bare = "Graph execution error:\n\nDetected at node X defined at:\n<stack traces unavailable>\nIt is wrong."
    assert kernel_sentence(bare) == "It is wrong."
    assert kernel_sentence("It is wrong. [Op:X]") == "It is wrong."


def test_a_file_that_the_graph_reads_is_the_servers_and_one_that_the_client_names_is_not(tmp_path):
    def of_graph(x):
        return {"y": x + tf.cast(tf.strings.length(tf.io.read_file("/nowhere/names.txt")), x.dtype)}

    def of_client(name):
        return {"y": tf.io.read_file(name)}

    one = tiny_models.save(
        tmp_path / "m" / "1",
        serving_default=tiny_models.signature(of_graph, tf.TensorSpec([], tf.float32, "x")),
        read=tiny_models.signature(of_client, tf.TensorSpec([], tf.string, "name")),
    )
    servable = LocalServable(ServableId("m", 1), one)
    with pytest.raises(
        Internal, match=r"/nowhere/names.txt; No such file .*: put it on the server"
    ):
        servable.run(servable.signature(), {"x": 1.0})
    with pytest.raises(InvalidArgument, match=r"/nowhere/mine\.txt; No such file"):
        servable.run(servable.signature("read"), {"name": b"/nowhere/mine.txt"})


def test_a_version_that_refuses_the_black_photo_is_loaded_without_it(tmp_path):
    def least(image_bytes):
        def of_one(contents):
            picture = tf.io.decode_image(contents, channels=3, expand_animations=False)
            with tf.control_dependencies([tf.debugging.assert_positive(picture)]):
                return tf.constant([0.9, 0.1])

        kind = tf.TensorSpec([2], tf.float32)
        return {"prediction": tf.map_fn(of_one, image_bytes, fn_output_signature=kind)}

    one = tiny_models.save(
        tmp_path / "m" / "1",
        serving_default=tiny_models.signature(
            least, tf.TensorSpec([None], tf.string, "image_bytes")
        ),
    )
    (one / "assets.extra").mkdir()
    labels = [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]
    (one / "assets.extra/dogsnap.json").write_text(json.dumps({"labels": labels}))
    servable = LocalServable(ServableId("m", 1), one)
    assert warm_up(servable) == 0
    white = encode(plain((255, 255, 255)), "PNG")
    assert servable.run_photos(servable.photo_signature(), [white])["prediction"].shape == (1, 2)
