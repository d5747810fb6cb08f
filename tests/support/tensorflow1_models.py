"""SavedModels of TensorFlow 1, made in the steps of two articles around tiny networks.

An image-to-image network behind a placeholder of shape [], and a retrained classifier that takes pixels, with the version of it
that takes base64 text in front. All of them rely on TensorFlow Serving's session: it feeds a placeholder with any shape.
Then TensorFlow Serving's own half_plus_two, and graphs of which one signature feeds what another computes.
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


def save(folder: Path, graph: tf.Graph, **signatures: tuple[str, dict, dict]) -> Path:
    """Signatures of a graph by name: their method, and the tensors of their inputs and outputs by alias."""
    describe = v1.saved_model.build_tensor_info
    definitions = {}
    for name, (method, inputs, outputs) in signatures.items():
        definitions[name] = v1.saved_model.build_signature_def(
            inputs={alias: describe(tensor) for alias, tensor in inputs.items()},
            outputs={alias: describe(tensor) for alias, tensor in outputs.items()},
            method_name=f"tensorflow/serving/{method}",
        )
    with v1.Session(graph=graph) as session:
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=definitions)
        builder.save()
    return folder


def half_plus_two(folder: Path) -> Path:
    """As TensorFlow Serving's saved_model_half_plus_two.py writes it: predict feeds x, which the others parse from tf.Examples.

    And `classify_with_labels`, which gives classes, too.
    """
    with tf.Graph().as_default() as graph:
        a, b, c = (
            v1.get_variable(name, initializer=value)
            for name, value in (("a", 0.5), ("b", 2.0), ("c", 3.0))
        )
        examples = v1.placeholder(tf.string, name="tf_example")
        features = {
            "x": tf.io.FixedLenFeature([1], tf.float32),
            "x2": tf.io.FixedLenFeature([1], tf.float32, default_value=[0.0]),
        }
        parsed = tf.io.parse_example(examples, features)
        x = tf.identity(parsed["x"], name="x")
        y = tf.add(tf.multiply(a, x), b, name="y")
        y2 = tf.add(tf.multiply(a, x), c, name="y2")
        x2 = tf.identity(parsed["x2"], name="x2")
        y3 = tf.add(tf.multiply(a, x2), c, name="y3")
        labels = tf.repeat(tf.constant([["plus", "minus"]]), tf.shape(y)[0], axis=0)
        labelled = {"scores": tf.concat([y, -y], axis=1), "classes": labels}
        return save(
            folder,
            graph,
            serving_default=("predict", {"x": x}, {"y": y}),
            regress_x_to_y=("regress", {"inputs": examples}, {"outputs": y}),
            regress_x_to_y2=("regress", {"inputs": examples}, {"outputs": y2}),
            regress_x2_to_y3=("regress", {"inputs": x2}, {"outputs": y3}),
            classify_x_to_y=("classify", {"inputs": examples}, {"scores": y}),
            classify_with_labels=("classify", {"inputs": examples}, labelled),
        )


def dropout(folder: Path) -> Path:
    """2 x keep: `train` feeds keep, which is 1 otherwise."""
    with tf.Graph().as_default() as graph:
        x, keep = v1.placeholder(tf.float32, [None]), v1.placeholder_with_default(1.0, [])
        y = v1.get_variable("a", initializer=2.0) * x * keep
        return save(
            folder,
            graph,
            serving_default=("predict", {"x": x}, {"y": y}),
            train=("predict", {"x": x, "keep": keep}, {"y": y}),
        )


def decoded_picture(folder: Path) -> Path:
    """The mean of a picture: of a PNG, or of the pixels that it is decoded to, which `pixels` feeds."""
    with tf.Graph().as_default() as graph:
        contents = v1.placeholder(tf.string, [], name="contents")
        pixels = tf.image.decode_png(contents, channels=3)
        mean = tf.reduce_mean(tf.cast(pixels, tf.float32)) * v1.get_variable("one", initializer=1.0)
        return save(
            folder,
            graph,
            serving_default=("predict", {"image_bytes": contents}, {"mean": mean}),
            pixels=("predict", {"pixels": pixels}, {"mean": mean}),
        )


def odd_parts(folder: Path) -> Path:
    """Double x by the default signature; others have a sparse input or output, or give a variable by reference."""
    with tf.Graph().as_default() as graph:
        x, rows = v1.placeholder(tf.float32, [None]), v1.sparse_placeholder(tf.float32, [None, 2])
        two = v1.get_variable("two", initializer=2.0, use_resource=False)
        return save(
            folder,
            graph,
            serving_default=("predict", {"x": x}, {"y": two * x}),
            of_sparse=("predict", {"rows": rows}, {"sum": tf.sparse.reduce_sum(rows)}),
            to_sparse=("predict", {"x": x}, {"y": two * x, "rows": tf.sparse.from_dense(x)}),
            by_reference=("predict", {"x": x}, {"two": two}),
        )


def sparse(folder: Path) -> Path:
    """The sums of sparse rows, by the default signature."""
    with tf.Graph().as_default() as graph:
        rows = v1.sparse_placeholder(tf.float32, [None, 2])
        sums = tf.sparse.reduce_sum(rows) * v1.get_variable("one", initializer=1.0)
        return save(folder, graph, serving_default=("predict", {"rows": rows}, {"sum": sums}))
