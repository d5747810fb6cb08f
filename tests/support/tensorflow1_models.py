"""SavedModels of TensorFlow 1, made in the steps of two articles around tiny networks.

An image-to-image network behind a placeholder of shape [], and a retrained classifier that takes pixels, with the version of it
that takes base64 text in front. All of them rely on TensorFlow Serving's session: it feeds a placeholder with any shape.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
SIDE = 64  # of the image-to-image network's pictures, in pixels
SIZE = (16, 16)  # of the classifier's, (height, width)


def noise(seed: int) -> np.ndarray:
    """Pixels for the image-to-image network, uint8 (64, 64, 3)."""
    return np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)


def image_to_image(folder: Path) -> Path:
    """input_bytes: one PNG of 64 x 64, declared () -> output_bytes (1): its negative as PNG.

    First the network with variables, frozen; then the graph in a SavedModel, with the batch that a signature has to have.
    """
    with tf.Graph().as_default() as graph, v1.Session() as session:
        contents = tf.reshape(v1.placeholder(tf.string, shape=[], name="input_bytes"), [])
        pixels = tf.image.convert_image_dtype(tf.image.decode_png(contents, channels=3), tf.float32)
        batch = tf.expand_dims(tf.reshape(pixels, [SIDE, SIDE, 3]), 0)
        kernel = v1.get_variable(
            "kernel", initializer=-np.eye(3, dtype=np.float32)[None, None], use_resource=False
        )
        generated = 1 + tf.nn.conv2d(batch, kernel, 1, "SAME")
        picture = tf.squeeze(tf.image.convert_image_dtype(generated, tf.uint8), [0])
        tf.identity(tf.image.encode_png(picture), name="output_bytes")
        session.run(v1.global_variables_initializer())
        frozen = v1.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["output_bytes"]
        )
    with tf.Graph().as_default(), v1.Session() as session:
        names = ["input_bytes:0", "output_bytes:0"]
        taken, given = tf.graph_util.import_graph_def(frozen, name="", return_elements=names)
        signature = v1.saved_model.build_signature_def(
            inputs={"input_bytes": v1.saved_model.build_tensor_info(taken)},
            outputs={"output_bytes": v1.saved_model.build_tensor_info(tf.expand_dims(given, 0))},
            method_name=v1.saved_model.signature_constants.PREDICT_METHOD_NAME,
        )
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map={"serving_default": signature}
        )
        builder.save()
    return folder


def retrained(folder: Path, use_resource: bool = False) -> Path:
    """image float32 (n, 16, 16, 3) -> prediction (n, 3): which of red, green and blue a picture is.

    With reference variables, or resource variables, which came with later releases.
    """
    with tf.Graph().as_default(), v1.Session() as session:
        image = v1.placeholder(tf.float32, [None, *SIZE, 3], name="Placeholder")
        weights = v1.get_variable(
            "weights", initializer=10 * np.eye(3, dtype=np.float32), use_resource=use_resource
        )
        result = tf.nn.softmax(tf.reduce_mean(image, axis=[1, 2]) @ weights, name="final_result")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), {"image": image}, {"prediction": result})
    return folder


def merged(source: Path, folder: Path) -> Path:
    """The retrained model behind layers that decode: image, one base64 text of unknown rank -> prediction (1, 3)."""
    with tf.Graph().as_default() as decoding:
        text = v1.placeholder(tf.string, name="input_string")
        picture = tf.image.decode_png(tf.io.decode_base64(text), channels=3)
        image = tf.expand_dims(tf.image.convert_image_dtype(picture, tf.float32), 0)
        tf.identity(v1.image.resize_bilinear(image, SIZE), name="decoded")
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.saved_model.loader.load(session, ["serve"], str(source))
        network = v1.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["final_result"]
        )
    with tf.Graph().as_default(), v1.Session() as session:
        text = v1.placeholder(tf.string, name="base64_string")
        (decoded,) = tf.graph_util.import_graph_def(
            decoding.as_graph_def(),
            input_map={"input_string:0": text},
            return_elements=["decoded:0"],
        )
        (result,) = tf.graph_util.import_graph_def(
            network, input_map={"Placeholder:0": decoded}, return_elements=["final_result:0"]
        )
        v1.saved_model.simple_save(session, str(folder), {"image": text}, {"prediction": result})
    return folder
