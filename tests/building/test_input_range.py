"""What merging takes for black and white in a Keras network that rescales its input, and that it then answers as Keras does."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from dogsnap.exporting.merging.input_range import fitting_range
from dogsnap.exporting.merging.merge import merge
from dogsnap.exporting.merging.options import Options
from keras import layers
from support.command_line import dogsnap, refused
from support.exported import SIZE, Loaded, photos

PHOTOS = photos()
BGR_MEANS = keras.applications.resnet50.preprocess_input


def normalization(white: float) -> layers.Layer:
    """As fitted to pictures from 0 to `white`."""
    layer = layers.Normalization()
    layer.adapt(white * np.random.default_rng(1).random((8, *SIZE, 3), np.float32))
    return layer


def network(*first: keras.layers.Layer) -> keras.Model:
    keras.utils.set_random_seed(3)
    image = keras.Input((*SIZE, 3))
    seen = image
    for layer in first:
        seen = layer(seen)
    maps = layers.Conv2D(4, 3, activation="relu")(seen)
    pooled = layers.GlobalAveragePooling2D()(maps)
    return keras.Model(image, layers.Dense(4, activation="softmax")(pooled))


def resized(low: float, high: float) -> np.ndarray:
    """The photos as a training pipeline reads them, with numbers from `low` to `high`."""
    images = [tf.image.resize(tf.io.decode_png(each, 3), SIZE, antialias=True) for each in PHOTOS]
    return low + (high - low) * np.stack(images) / 255


def name_of(part: object) -> str:
    """The same in every process, as the tests are distributed by their names."""
    return getattr(part, "name", getattr(part, "__name__", str(part)))


@pytest.mark.parametrize("save", [keras.Model.export, tf.saved_model.save], ids=["export", "save"])
@pytest.mark.parametrize(
    ("first", "ends"),
    [
        ([layers.Rescaling(1 / 255)], (0, 255)),
        ([layers.Rescaling(1 / 127.5, -1)], (0, 255)),
        ([layers.Resizing(*SIZE), keras.Sequential([layers.Rescaling(1 / 255)])], (0, 255)),
        ([normalization(255)], (0, 255)),
        ([layers.Rescaling(1 / 255), normalization(1)], (0, 255)),
        ([BGR_MEANS], (0, 255)),
        ([layers.Rescaling(2, -1)], (0, 1)),
        ([normalization(1)], (0, 1)),
        ([layers.Rescaling(0.5, 0.5)], (-1, 1)),
        ([], (0, 1)),
    ],
    ids=lambda value: "-".join(map(name_of, value)),
)
def test_a_merged_network_answers_as_keras_does(tmp_path, first, ends, save) -> None:
    model = network(*first)
    save(model, str(tmp_path / "m" / "1"))
    said: list[str] = []
    merged = Loaded(merge(tmp_path / "m" / "1", Options(decode="bytes"), said.append))
    (answer,) = merged.serving_default(input_bytes=tf.constant(PHOTOS)).values()
    np.testing.assert_allclose(answer, model(resized(*ends)), atol=1e-4)
    assert any(f"from {ends[0]} (black) to {ends[1]} (white)" in line for line in said)


@pytest.mark.parametrize(
    ("factor", "offset", "ends"),
    [
        (1 / 255 / 0.225, -0.45 / 0.225, (0, 255)),
        (1, -115, (0, 255)),
        (-1, 1, (0, 1)),
        (0, 1, (0, 1)),
    ],
)
def test_the_range_holds_what_becomes_zero(factor, offset, ends) -> None:
    assert fitting_range(factor, offset) == ends


def test_augmentation_that_stays_active_is_refused_with_the_export_that_answers(tmp_path) -> None:
    augmentation = [layers.RandomFlip("horizontal"), layers.RandomRotation(0.1)]
    model = network(*augmentation, layers.Rescaling(1 / 255))
    model.export(tmp_path / "m" / "1", verbose=False)
    said = refused(dogsnap("merge", tmp_path / "m" / "1"), "augmentation")
    folder = tmp_path / "good" / "1"
    advice = said.partition("Export it for answering: ")[2].strip()
    advice = advice.replace("HEIGHT, WIDTH", "16, 16").replace("models/NAME/1", str(folder))
    exec(advice, {"keras": keras, "model": model})
    merged = Loaded(merge(folder, Options(decode="bytes")))
    (answer,) = merged.serving_default(input_bytes=tf.constant(PHOTOS)).values()
    np.testing.assert_allclose(answer, model(resized(0, 255), training=False), atol=1e-4)


@pytest.mark.parametrize("ending", [".keras", ".h5"])
def test_a_file_of_keras_is_told_how_to_export_it(tmp_path, ending) -> None:
    file = tmp_path / f"mine{ending}"
    network().save(file)
    for source in (file, tmp_path):
        refused(dogsnap("merge", source), '.export("models/NAME/1") writes a version')
