"""Merging: photos in, the source's own answers out; the source untouched; ambiguous graphs refused with what to choose."""

import base64
import shutil
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from dogsnap.exporting.freezing import SHARED_BYTES, FreezingError
from dogsnap.exporting.merging import merge as merging
from dogsnap.exporting.merging.merge import MergeError, Options, merge
from dogsnap.serving.answers.levels import Decision
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.description import DESCRIPTION_FILE, Description
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.serving.versions.warmup import warm_up
from support import tensorflow1_models
from support.command_line import dogsnap, output_of, refused
from support.exported import LABELS, SIZE, Loaded, contents_of, export, nodes_of, photos
from support.tiny_models import save, signature

pytestmark = pytest.mark.early

PHOTOS = photos(4)
PLACE = 'input "image" (float32 (-1, 16, 16, 3)) of signature "serving_default"'
TEXTS = tf.constant([base64.urlsafe_b64encode(photo).rstrip(b"=") for photo in PHOTOS])


@cache
def network_images() -> tf.Tensor:
    """What a network gets of PHOTOS; made when it is asked for, since every process imports this file."""
    return photos_to_images(tf.constant(PHOTOS), SIZE)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> SimpleNamespace:
    """`one`: a version; `two`: the one that the command merged from it; `said`: what the command said."""
    source = export(tmp_path_factory.mktemp("models") / "tiny")
    before = contents_of(source)
    done = dogsnap("merge", source)
    assert contents_of(source) == before
    return SimpleNamespace(one=Loaded(source), two=Loaded(source.with_name("2")), said=done.output)


def same(answer: dict[str, tf.Tensor], expected: dict[str, tf.Tensor], atol: float = 1e-6) -> None:
    assert set(answer) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(answer[name], value, atol=atol, err_msg=name)


def images_spec(
    *shape: int | None, dtype: tf.DType = tf.float32, name: str = "image"
) -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype, name)


IMAGE = images_spec(None, *SIZE, 3)


def mean_colour(folder: Path, spec: tf.TensorSpec) -> Path:
    """One image input of any kind; its mean over rows and columns."""
    axes = [-3, -2] if spec.shape[-1] in (1, 3) else [-2, -1]
    mean = signature(
        lambda image: {"mean": tf.reduce_mean(tf.cast(image, tf.float32), axis=axes)}, spec
    )
    return save(folder, serving_default=mean)


def test_the_command_says_where_it_merged_and_what_it_wrote(made) -> None:
    assert made.said.splitlines() == [
        f"decoding base64 in front of {PLACE}",
        "images go in as 16 x 16 (height x width), red, green and blue last",
        "images go in as numbers from 0 (black) to 1 (white), since its first layers multiply them by 2 and add -1; "
        "--input-range LOW HIGH says otherwise",
        'output "prediction" holds probabilities; --softmax says that it holds logits',
        f"wrote {made.two.folder}",
    ]
    description = Description.read(made.two.folder).raw
    assert description["labels"] == LABELS
    assert description["source"] == {"merged_from": "tiny/1", "decode": "base64"}


def test_it_has_the_four_signatures_of_a_dog_model_each_of_one_string_vector(made) -> None:
    def told(specs: dict[str, tf.TensorSpec]) -> dict[str, tuple]:
        return {alias: (spec.dtype.name, *spec.shape) for alias, spec in specs.items()}

    signatures = made.two.signatures.items()
    texts, numbers = ("string", None), ("float32", None, 3)
    assert {name: told(each.structured_input_signature[1]) for name, each in signatures} == {
        "serving_default": {"image": texts},
        "image_bytes": {"image_bytes": texts},
        "scores": {"image_bytes": texts},
        "labels": {"image": texts},
    }
    assert {name: told(each.structured_outputs) for name, each in signatures} == {
        "serving_default": {"prediction": numbers},
        "image_bytes": {"prediction": numbers},
        "scores": {"prediction": numbers, "dog": ("float32", None)},
        "labels": {"labels": ("string", None, 3), "probabilities": numbers},
    }


def test_base64_text_bytes_and_the_image_itself_get_the_same_answer_and_none_an_answer_of_none(
    made,
) -> None:
    one, two = made.one, made.two
    expected = one.serving_default(image=network_images())
    same(two.serving_default(image=TEXTS), expected)
    same(two.image_bytes(image_bytes=tf.constant(PHOTOS)), expected)
    same(two.scores(image_bytes=tf.constant(PHOTOS)), one.scores(image=network_images()))
    assert two.scores(image_bytes=tf.constant([], tf.string))["prediction"].shape == (0, 3)


def test_the_labels_signature_names_the_classes_in_falling_order(made) -> None:
    prediction = made.one.serving_default(image=network_images())["prediction"].numpy()
    named = made.two.labels(image=TEXTS)
    order = np.argsort(-prediction, axis=1)
    expected = [[LABELS[place]["name"] for place in row] for row in order]
    assert [[name.decode() for name in row] for row in named["labels"].numpy()] == expected
    np.testing.assert_allclose(
        named["probabilities"], np.take_along_axis(prediction, order, 1), atol=1e-6
    )


def test_corrupt_photos_in_a_batch_are_named_by_their_places(made) -> None:
    contents = [*PHOTOS, PHOTOS[0][:60], PHOTOS[1]]
    texts = [base64.b64encode(photo) for photo in contents]
    for name, inputs in (
        ("image_bytes", {"image_bytes": contents}),
        ("serving_default", {"image": texts}),
    ):
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"cannot decode the photos at these places .*\[4\]",
        ):
            made.two.signatures[name](
                **{alias: tf.constant(each) for alias, each in inputs.items()}
            )


def test_no_variable_is_left_and_each_large_constant_is_there_once(made) -> None:
    nodes = nodes_of(made.two.folder)
    assert not {"VarHandleOp", "ReadVariableOp"} & {node.op for node in nodes}
    constants = [node.attr["value"].tensor.tensor_content for node in nodes if node.op == "Const"]
    large = [content for content in constants if len(content) >= SHARED_BYTES]
    assert len(large) == len(set(large)) > 0


def test_scores_of_another_network_is_not_taken_for_the_same(tmp_path) -> None:
    mean = signature(lambda image: {"prediction": tf.reduce_mean(image, axis=(1, 2))}, IMAGE)
    scores = signature(
        lambda image: {"prediction": tf.reduce_max(image, axis=(1, 2)), "dog": image[:, 0, 0, 0]},
        IMAGE,
    )
    merged = Loaded(
        merge(save(tmp_path / "m" / "1", serving_default=mean, scores=scores), Options())
    )
    assert set(merged.signatures) == {"serving_default", "image_bytes"}
    same(merged.serving_default(image=TEXTS), mean(network_images()))


CHANNELS = Options(mean=(0.5, 0.4, 0.3), deviation=(0.25, 0.5, 1.0))


@pytest.mark.parametrize(
    ("spec", "options", "expected"),
    [
        (
            images_spec(None, 3, *SIZE),
            CHANNELS,
            lambda x: (x.mean((1, 2)) - CHANNELS.mean) / CHANNELS.deviation,
        ),
        (
            images_spec(None, None, None, 3, dtype=tf.uint8),
            Options(size=SIZE),
            lambda x: np.round(x * 255).mean((1, 2)),
        ),
        (
            images_spec(1, *SIZE, 1),
            Options(),
            lambda x: x.mean((1, 2)) @ [[0.2989], [0.587], [0.114]],
        ),
        (images_spec(*SIZE, 3), Options(), lambda x: x.mean((1, 2))),
    ],
    ids=[
        "channels first, mean and deviation",
        "bytes, size by option",
        "grey, batch of one",
        "no batch",
    ],
)
def test_any_image_input_is_fed_what_it_wants(tmp_path, spec, options, expected) -> None:
    merged = Loaded(merge(mean_colour(tmp_path / "m" / "1", spec), options))
    answer = merged.image_bytes(image_bytes=tf.constant(PHOTOS))["mean"]
    np.testing.assert_allclose(answer, expected(network_images().numpy()), rtol=1e-3, atol=1e-5)


def several(folder: Path) -> Path:
    """Two signatures, one of them with two images and a number."""
    light = signature(lambda image: {"light": tf.reduce_mean(image, axis=(1, 2, 3))}, IMAGE)

    def dark(ground, photo_bytes, threshold):
        return {"dark": tf.reduce_mean(ground - photo_bytes, axis=(1, 2, 3)) > threshold}

    specs = (
        *(images_spec(None, *SIZE, 3, name=name) for name in ("ground", "photo_bytes")),
        images_spec(name="threshold"),
    )
    return save(folder, light=light, dark=signature(dark, *specs))


def test_the_chosen_input_of_the_chosen_signature_takes_photos_and_the_others_are_passed_through(
    tmp_path,
) -> None:
    """An input that is named like bytes loses that ending where it takes text."""
    folder = merge(several(tmp_path / "m" / "1"), Options(signature="dark", input="photo_bytes"))
    merged, expected = Loaded(folder), 1 - network_images().numpy().mean((1, 2, 3))
    assert set(merged.signatures) == {"serving_default", "photo_bytes"}
    further = {
        "ground": tf.ones_like(network_images()),
        "threshold": tf.constant(float(np.median(expected))),
    }
    answer = merged.serving_default(photo=TEXTS, **further)
    np.testing.assert_array_equal(answer["dark"], expected > np.median(expected))
    same(merged.photo_bytes(photo_bytes=tf.constant(PHOTOS), **further), answer)
    assert warm_up(LocalServable(ServableId("m", 2), folder)) == 2


def test_a_network_that_cannot_be_frozen_leaves_the_folder_of_versions_as_it_was(tmp_path) -> None:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1.0]), 0.0)

    @tf.function(input_signature=[images_spec(None, *SIZE, 3)])
    def serving_default(image):
        return {"y": tf.reduce_mean(image, axis=(1, 2)) + table.lookup(tf.constant("a"))}

    module = tf.Module()
    module.table = table
    tf.saved_model.save(module, str(tmp_path / "m" / "1"), signatures=serving_default)
    with pytest.raises(FreezingError, match="lookup tables"):
        merge(tmp_path / "m" / "1", Options())
    assert [file.name for file in (tmp_path / "m").iterdir()] == ["1"]


@pytest.fixture(scope="module")
def logits(tmp_path_factory) -> Path:
    """Logits and features, to be named and described in different ways."""

    @tf.function(input_signature=[images_spec(None, *SIZE, 3)])
    def serving_default(image):
        mean = tf.reduce_mean(image, axis=(1, 2))
        return {"logits": 5 * mean, "features": tf.concat([mean, mean], axis=1)}

    return save(tmp_path_factory.mktemp("models") / "mine" / "1", serving_default=serving_default)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
@pytest.mark.parametrize("size", [SIZE, (None, None)], ids=["of one size", "of any size"])
def test_a_network_of_16_bits_gets_probabilities_that_json_has_a_form_for(
    tmp_path, dtype, size
) -> None:
    def network(image):
        mean = tf.cast(tf.reduce_mean(image, axis=[1, 2]), dtype)
        return {"prediction": tf.nn.softmax(mean), "mean": mean}

    spec = images_spec(None, *size, 3)
    main = signature(lambda image: {"prediction": network(image)["prediction"]}, spec)
    folder = save(tmp_path / "m" / "1", serving_default=main, scores=signature(network, spec))
    merged = Loaded(merge(folder, Options(labels=NAMES, size=SIZE)))
    for name, alias, values in (
        ("serving_default", "image", TEXTS),
        ("image_bytes", "image_bytes", tf.constant(PHOTOS)),
        ("scores", "image_bytes", tf.constant(PHOTOS)),
    ):
        answer = merged.signatures[name](**{alias: values})
        assert {value.dtype for value in answer.values()} == {tf.float32}
        np.testing.assert_allclose(
            answer["prediction"],
            tf.nn.softmax(tf.reduce_mean(network_images(), axis=[1, 2])),
            atol=0.01,
        )


def test_a_merged_version_without_labels_takes_files_where_it_takes_base64_text(tmp_path) -> None:
    folder = merge(mean_colour(tmp_path / "m" / "1", IMAGE), Options())
    servable = LocalServable(ServableId("m", 2), folder)
    assert servable.description.raw["source"] == {"merged_from": "m/1", "decode": "base64"}
    assert servable.of_bytes(servable.signature()) == servable.signature("image_bytes")
    raw = merge(folder.with_name("1"), Options(decode="bytes"))
    assert Description.read(raw).raw["source"]["decode"] == "bytes"


NAMES = [{"id": name, "name": name} for name in ("red", "green", "blue")]


def test_logits_become_probabilities_and_names_for_a_network_that_describes_itself_by_what_it_was_given(
    logits,
) -> None:
    said: list[str] = []
    labels = [{**NAMES[0], "name_zh": "红"}, *NAMES[1:]]
    folder = merge(logits, Options(softmax=True, labels=labels), said.append)
    assert "has no thresholds" in said[-1]
    description, merged = Description.read(folder), Loaded(folder)
    assert (description.labels, description.input_size, description.raw["model"]) == (
        tuple(labels),
        SIZE,
        "mine",
    )
    expected = tf.nn.softmax(5 * tf.reduce_mean(network_images(), axis=(1, 2)))
    answer = merged.serving_default(image=TEXTS)
    np.testing.assert_allclose(answer["logits"], expected, atol=1e-6)
    assert answer["features"].shape == (4, 6)
    assert merged.labels(image=TEXTS)["labels"].numpy()[:3, 0].tolist() == [
        b"red",
        b"green",
        b"blue",
    ]
    np.testing.assert_allclose(
        merged.scores(image_bytes=tf.constant(PHOTOS))["prediction"], expected, atol=1e-6
    )

    fields = {"decision": {"confident_threshold": 0.6}, "labels": labels}
    again = merge(logits, Options(softmax=True, output="logits", description=fields), said.append)
    assert "thresholds" not in said[-1]
    description = Description.read(again)
    assert (description.labels, description.levels.decision) == (
        tuple(labels),
        Decision(confident=0.6),
    )
    np.testing.assert_allclose(
        Loaded(again).serving_default(image=TEXTS)["logits"], expected, atol=1e-6
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            Options(softmax=True),
            r"found (logits, features|features, logits) among: .*choose with --output",
        ),
        (
            Options(labels=[*NAMES, {"id": "grey", "name": "grey"}]),
            r"there are 4 labels, and output \"features\" has 6, \"logits\" has 3 classes",
        ),
        (
            Options(labels=NAMES),
            r"\"logits\" held numbers from .* which are no probabilities; add --softmax",
        ),
        (
            Options(softmax=True, description={"decison": {"confident_threshold": 0.5}}),
            r"--description: .*'decison' was unexpected",
        ),
        (
            Options(softmax=True, description={"decision": {"confidence_threshold": 0.5}}),
            r"--description: decision: .*'confidence_threshold' was unexpected",
        ),
        (
            Options(encode="png"),
            r"expected one output with images .* found none among: .*\"logits\"",
        ),
        (
            Options(
                softmax=True, description={"labels": NAMES, "decision": {"confident_threshold": 7}}
            ),
            r"decision.confident_threshold: 7 is greater than the maximum of 1",
        ),
        (
            Options(softmax=True, description={"labels": NAMES, "int8_ranges": {"colour": "red"}}),
            r"int8_ranges in .* is not as `dogsnap quantize` writes it",
        ),
    ],
)
def test_what_does_not_fit_the_network_is_refused_with_what_there_is(logits, options, said) -> None:
    before = list(logits.parent.iterdir())
    with pytest.raises(ValueError, match=said):
        merge(logits, options)
    assert list(logits.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("[]", r"dogsnap.json: \[\] is not of type 'object'"),
        ('{"labels": [{"id": "c1"}]}', r"dogsnap.json: labels\[0\]: 'name' is a required"),
        ('{"input_size": 7}', "dogsnap.json: input_size: 7 is not of type 'array'"),
        ("{", "dogsnap.json is no JSON"),
    ],
)
def test_a_source_that_does_not_describe_itself_rightly_is_refused_with_the_field(
    logits, stated, said, tmp_path
) -> None:
    version = shutil.copytree(logits, tmp_path / "m" / "1")
    file = version / DESCRIPTION_FILE
    file.parent.mkdir(exist_ok=True)
    file.write_text(stated)
    with pytest.raises(ValueError, match=said):
        merge(version, Options(softmax=True))


def open_sides(folder: Path, channels_first: bool) -> Path:
    """What saved_model_cli prints of older Hugging Face exports: pixel_values (-1, -1, -1, -1)."""

    def serving_default(pixel_values):
        last = tf.transpose(pixel_values, (0, 2, 3, 1)) if channels_first else pixel_values
        return {"logits": tf.nn.conv2d(last, tf.ones((1, 1, 3, 2)), 1, "SAME")[:, 0, 0]}

    spec = images_spec(None, None, None, None, name="pixel_values")
    return save(folder, serving_default=signature(serving_default, spec))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_an_input_whose_sides_are_all_open_is_merged_by_size_and_layout(tmp_path, layout) -> None:
    source = open_sides(tmp_path / "vit" / "1", layout == "nchw")
    merged = Loaded(merge(source, Options(size=SIZE, layout=layout)))
    answer = merged.serving_default(pixel_values=TEXTS)["logits"]
    np.testing.assert_allclose(
        answer[:, 0], tf.reduce_sum(network_images()[:, 0, 0], axis=1), atol=1e-5
    )


def test_an_input_whose_sides_are_all_open_asks_for_what_is_missing(tmp_path) -> None:
    source = open_sides(tmp_path / "vit" / "1", True)
    with pytest.raises(
        MergeError, match="leaves the size of the image open; give it with --size HEIGHT WIDTH"
    ):
        merge(source, Options())
    with pytest.raises(MergeError, match=r"give it with --layout nhwc \(last\) or --layout nchw"):
        merge(source, Options(size=SIZE))


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_saved_model_of_tensorflow_1_merges_too(tmp_path, use_resource) -> None:
    merged = Loaded(
        merge(tensorflow1_models.retrained(tmp_path / "m" / "1", use_resource), Options())
    )
    expected = tf.nn.softmax(10 * tf.reduce_mean(network_images(), axis=(1, 2)))
    np.testing.assert_allclose(
        merged.serving_default(image=TEXTS)["prediction"], expected, rtol=1e-5
    )


def test_a_keras_models_own_export_merges_too(tmp_path) -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((*SIZE, 3)),
            keras.layers.Conv2D(4, 3),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )
    model.export(str(tmp_path / "m" / "1"), verbose=False)
    merged = Loaded(merge(tmp_path / "m" / "1", Options()))
    (name,) = merged.serving_default.structured_input_signature[1]
    (answer,) = merged.serving_default(**{name: TEXTS}).values()
    np.testing.assert_allclose(answer, model(network_images()), atol=1e-5)


def test_the_command_passes_its_options_on(tmp_path, monkeypatch) -> None:
    received = []
    monkeypatch.setattr(
        merging, "merge", lambda source, options, report: received.append(options) or source
    )
    names = tmp_path / "names.txt"
    names.write_text("red\ngreen\nblue\n")
    words = "--decode bytes --encode png --signature s --input i --output o --size 8 9 --mean 0.1,0.2,0.3 --deviation 0.5"
    more = "--output-range -1 1 --softmax --layout nchw --labels"
    output_of(dogsnap("merge", tmp_path, *words.split(), *more.split(), names))
    assert received == [
        Options(
            "bytes",
            "png",
            "s",
            "i",
            "o",
            (8, 9),
            (0.1, 0.2, 0.3),
            (0.5,),
            (-1, 1),
            True,
            labels=NAMES,
            layout="nchw",
        )
    ]


def test_the_command_says_in_a_sentence_why_it_cannot_merge(tmp_path) -> None:
    source = several(tmp_path / "m" / "1")
    done = dogsnap("merge", source)
    assert done.exit_code == 1
    assert done.output.startswith(
        'Error: there are 3 image inputs to merge in front of: input "ground" (float32 (-1, 16, 16, 3)) of signature '
        '"dark"; input "photo_bytes"'
    )
    assert [file.name for file in source.parent.iterdir()] == ["1"]
    for wrong in (["--mean", "grey"], ["--decode", "hex"]):
        assert dogsnap("merge", source, *wrong).exit_code == 2


def test_what_is_merged_goes_beside_the_path_that_was_given_or_nowhere(tmp_path: Path) -> None:
    stored = export(tmp_path / "store" / "tiny").rename(tmp_path / "store" / "abc")
    (tmp_path / "models" / "dogs").mkdir(parents=True)
    (tmp_path / "models" / "dogs" / "1").symlink_to(stored)
    before = contents_of(tmp_path / "store")
    said = output_of(dogsnap("merge", tmp_path / "models" / "dogs" / "1"))
    assert f"wrote {tmp_path}/models/dogs/2" in said
    assert Loaded(tmp_path / "models" / "dogs" / "2").signatures
    description = Description.read(tmp_path / "models" / "dogs" / "2").raw
    assert description["source"]["merged_from"] == "dogs/1"
    refused(dogsnap("merge", stored), f"move its files to {stored}/1")
    refused(dogsnap("teach", stored, stored), f"move its files to {stored}/1")
    assert contents_of(tmp_path / "store") == before
