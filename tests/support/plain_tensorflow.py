"""Loads versions as TensorFlow Serving does, and runs their warm-up records: a script for a process without this project.

Its arguments are the folder with TensorFlow's package, a file for the answers (.npz), the loaders (session, or both), and version
folders. It prints, as JSON, what it ran. It does not judge the answers.
"""

import importlib.util
import json
import sys
from pathlib import Path


def main(packages: str, answers_file: str, loaders: str, *versions: str) -> None:
    sys.path.append(packages)
    if importlib.util.find_spec("dogsnap") is not None:
        sys.exit("this process can import dogsnap")
    import numpy as np

    ran, answers = {}, {}
    for version in map(Path, versions):
        ran[version.name] = runs(version, loaders)
        for number, run in enumerate(ran[version.name]):
            outputs = run.pop("outputs")
            run["shapes"] = {alias: array.shape for alias, array in outputs.items()}
            answers.update(
                {
                    f"{version.name}/{number}/{alias}": np.asarray(each)
                    for alias, each in outputs.items()
                }
            )
    texts = {name: array.astype("S") for name, array in answers.items() if array.dtype == object}
    np.savez(answers_file, **answers | texts)
    print(json.dumps(ran))


def runs(version: Path, loaders: str) -> list[dict]:
    """Each record by itself, as two rows in one batch, and, of both loaders, by that of TensorFlow 2 as well."""
    import numpy as np
    import tensorflow as tf

    session = tf.compat.v1.Session(graph=tf.Graph())
    signature_defs = tf.compat.v1.saved_model.load(session, ["serve"], str(version)).signature_def
    loaded = tf.saved_model.load(str(version)) if loaders == "both" else None
    done = []
    for request in requests(version):
        name = request.model_spec.signature_name
        inputs = {alias: tf.make_ndarray(proto) for alias, proto in request.inputs.items()}
        doubled = {alias: np.concatenate([array, array]) for alias, array in inputs.items()}
        asked = in_session(session, signature_defs[name])
        ways = [("session", asked, inputs), ("session", asked, doubled)]
        if loaded is not None:
            ways.append(("tensorflow 2", by_name(loaded.signatures[name]), inputs))
        for loader, ask, rows in ways:
            size = len(next(iter(rows.values())))
            done.append({"signature": name, "loader": loader, "rows": size, "outputs": ask(rows)})
    return done


def requests(version: Path) -> list:
    """The prediction requests of a version's warm-up file."""
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    records = tf.data.TFRecordDataset(
        str(version / "assets.extra" / "tf_serving_warmup_requests")
    ).as_numpy_iterator()
    return [
        prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        for record in records
    ]


def in_session(session, signature):
    """As TensorFlow Serving runs a signature: by the names of its tensors."""
    outputs = {alias: info.name for alias, info in signature.outputs.items()}
    return lambda rows: session.run(
        outputs, {signature.inputs[alias].name: array for alias, array in rows.items()}
    )


def by_name(signature):
    import tensorflow as tf

    dtypes = {alias: spec.dtype for alias, spec in signature.structured_input_signature[1].items()}

    def ask(rows):
        answer = signature(
            **{alias: tf.constant(array, dtypes[alias]) for alias, array in rows.items()}
        )
        return {alias: tensor.numpy() for alias, tensor in answer.items()}

    return ask


if __name__ == "__main__":
    main(*sys.argv[1:])
