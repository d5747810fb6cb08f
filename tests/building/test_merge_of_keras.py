"""Networks as `model.export()` of Keras writes them: merged with one command, named alike each time, answering as in Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from dogsnap.exporting.merging.merge import MergeError, Options, merge
from keras import layers
from PIL import Image
from support import tensorflow1_models
from support.colour_photos import encode
from support.command_line import dogsnap, output_of
from support.exported import Loaded

GREY = np.full((20, 20, 3), 128, np.uint8)
PAIR = [{"id": "cat", "name": "cat"}, {"id": "dog", "name": "dog"}]


def small(*head: layers.Layer, name: str | None = None) -> keras.Model:
    photo = keras.Input((16, 16, 3), name=name)
    return keras.Sequential([photo, layers.GlobalAveragePooling2D(), *head])


def exported(model: keras.Model, folder) -> str:
    model.export(str(folder), verbose=False)
    return folder


def png(pixels: np.ndarray) -> bytes:
    return encode(Image.fromarray(pixels), "PNG")


def interface(version) -> dict[str, tuple[list[str], list[str]]]:
    found = {}
    for name, signature in Loaded(version).signatures.items():
        inputs = signature.structured_input_signature[1]
        found[name] = (sorted(inputs), sorted(signature.structured_outputs))
    return found


def test_a_network_that_is_exported_again_has_the_same_names(tmp_path):
    interfaces = []
    for folder in ("a", "b"):
        model = small(layers.Dense(2, activation="softmax"))
        interfaces.append(
            interface(merge(exported(model, tmp_path / folder / "1"), Options(labels=PAIR)))
        )
    assert interfaces[0] == interfaces[1]
    assert interfaces[0]["serving_default"] == (["image"], ["prediction"])


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.network = small(layers.Dense(2, activation="softmax"))

    def call(self, photo):
        return self.network(photo)


def test_a_network_of_a_class_of_its_own_has_the_names_of_any_other(tmp_path):
    model = Subclassed()
    model(np.zeros((1, 16, 16, 3), np.float32))
    found = interface(merge(exported(model, tmp_path / "a" / "1"), Options(labels=PAIR)))
    assert found["serving_default"] == (["image"], ["prediction"])


def test_names_that_somebody_chose_stay(tmp_path):
    model = small(layers.Dense(2, activation="softmax"), name="photo")
    found = interface(merge(exported(model, tmp_path / "a" / "1"), Options(labels=PAIR)))
    assert found["serving_default"][0] == ["photo"]
    assert "photo_bytes" in found


def test_further_inputs_without_a_name_are_counted_from_one(tmp_path):
    interfaces = []
    for folder in ("a", "b"):
        photo, age = keras.Input((16, 16, 3)), keras.Input((1,))
        pooled = layers.GlobalAveragePooling2D()(photo)
        classes = layers.Dense(2, activation="softmax")(layers.Concatenate()([pooled, age]))
        source = exported(keras.Model([photo, age], classes), tmp_path / folder / "1")
        interfaces.append(interface(merge(source, Options(labels=PAIR))))
    assert interfaces[0] == interfaces[1]
    assert interfaces[0]["serving_default"][0] == ["image", "input_1"]


@pytest.mark.parametrize("shape", [(-1, 1), (-1,)], ids=["(n, 1)", "(n,)"])
@pytest.mark.parametrize("activation", ["sigmoid", "linear"])
def test_one_number_for_two_classes_becomes_both_probabilities(tmp_path, shape, activation):
    pooled = layers.GlobalAveragePooling2D()(photo := keras.Input((16, 16, 3)))
    number = layers.Dense(1, activation=activation, bias_initializer="ones")(pooled)
    flat = number if shape == (-1, 1) else layers.Flatten()(number)[:, 0]
    model = keras.Model(photo, flat)
    said = []
    options = Options(labels=PAIR, softmax=activation == "linear")
    version = merge(exported(model, tmp_path / "a" / "1"), options, said.append)
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    given = np.ravel(model.predict(pixels[None] / 255.0, verbose=0))[0]
    second = given if activation == "sigmoid" else 1 / (1 + np.exp(-given))
    answer = Loaded(version).image_bytes(image_bytes=[png(pixels)])["prediction"].numpy()
    np.testing.assert_allclose(answer, [[1 - second, second]], atol=1e-5)
    assert any('p of "dog"' in line and '"cat" gets 1 - p' in line for line in said)


def test_one_number_that_is_no_probability_is_refused(tmp_path):
    model = small(layers.Dense(1, bias_initializer=keras.initializers.Constant(9)))
    with pytest.raises(MergeError, match="no probabilities; add --softmax if they are logits"):
        merge(exported(model, tmp_path / "a" / "1"), Options(labels=PAIR))


def test_a_network_whose_training_broke_down_is_refused(tmp_path):
    broken = keras.initializers.Constant(np.nan)
    model = small(layers.Dense(2, "softmax", bias_initializer=broken))
    with pytest.raises(MergeError, match="held NaN or infinity in a trial with noise"):
        merge(exported(model, tmp_path / "a" / "1"), Options(labels=PAIR))
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["1"]


def resnet() -> keras.Model:
    return keras.applications.ResNet50(weights=None, classes=5)


def efficient_net() -> keras.Model:
    return keras.applications.EfficientNetB0(weights=None, classes=5)


def mobile_net() -> keras.Model:
    body = keras.applications.MobileNetV2(weights=None, include_top=False, pooling="avg")
    photo = keras.Input((224, 224, 3))
    return keras.Model(photo, layers.Dense(1, activation="sigmoid")(body(photo)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("build", "preprocess", "classes", "flags"),
    [
        (resnet, keras.applications.resnet.preprocess_input, 5, ["--preprocessing", "caffe"]),
        (efficient_net, keras.applications.efficientnet.preprocess_input, 5, []),
        (
            mobile_net,
            keras.applications.mobilenet_v2.preprocess_input,
            2,
            ["--preprocessing", "tf"],
        ),
    ],
)
def test_keras_own_networks_answer_as_in_keras(tmp_path, build, preprocess, classes, flags):
    keras.utils.set_random_seed(3)
    model = build()
    source = exported(model, tmp_path / "mine" / "1")
    (tmp_path / "labels.txt").write_text("\n".join(f"class {n}" for n in range(classes)))
    output_of(dogsnap("merge", source, "--labels", tmp_path / "labels.txt", *flags))
    pixels = np.random.default_rng(0).integers(0, 256, (3, 224, 224, 3), np.uint8)
    expected = model.predict(preprocess(pixels.astype(np.float32)), verbose=0)
    if classes == 2:
        expected = np.concatenate([1 - expected, expected], axis=1)
    photos = [png(each) for each in pixels]
    answer = Loaded(tmp_path / "mine" / "2").image_bytes(image_bytes=photos)["prediction"]
    np.testing.assert_allclose(answer, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("given", "kept"),
    [("input-image", "input_image"), ("photo.1", "photo_1"), ("1st", "arg_1st")],
)
def test_an_input_goes_by_the_name_that_tensorflow_made_of_the_one_it_was_given(
    tmp_path, given, kept
):
    source = exported(small(layers.Softmax(), name=given), tmp_path / "m" / "1")
    said = output_of(dogsnap("merge", source, "--softmax", "--input", given))
    assert f'input "{given}" becomes {kept}' in said
    merged = Loaded(source.with_name("2"))
    answer = merged.serving_default(**{kept: tf.io.encode_base64([png(GREY)])})
    assert answer["prediction"].shape == (1, 3)


def test_odd_names_of_outputs_stay_and_those_of_inputs_are_told(tmp_path):
    with tf.Graph().as_default() as graph:
        image = tf.compat.v1.placeholder(tf.float32, [None, 16, 16, 3])
        least = tf.compat.v1.placeholder(tf.float32, [])
        answer = tf.nn.softmax(tf.reduce_mean(image, [1, 2])) - least
        inputs, outputs = (
            {"照片": image, "least:0": least},
            {"dense/Softmax:0": answer, "框": least},
        )
        source = tensorflow1_models.save(
            tmp_path / "m" / "1", graph, serving_default=("predict", inputs, outputs)
        )
    said = output_of(dogsnap("merge", source, "--softmax", "--output", "dense/Softmax:0"))
    assert 'input "照片" becomes image' in said
    assert 'input "least:0" becomes least_0' in said
    merged = Loaded(source.with_name("2"))
    texts = tf.io.encode_base64([png(GREY)])
    given = merged.serving_default(image=texts, least_0=tf.constant(0.0))
    assert set(given) == set(outputs)
