"""Runs the warm-up requests stored in a version, so that the first request is not slow."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import input_pb2, prediction_log_pb2

from dogsnap.errors import DogsnapError, FailedPrecondition, InvalidArgument
from dogsnap.serving.photos import photo
from dogsnap.serving.tensors.examples import merge_context
from dogsnap.serving.versions import low_priority
from dogsnap.serving.versions.servable import LocalServable, kernel_sentence

log = logging.getLogger("dogsnap.servable")

RECORDS_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
MAX_RECORDS = 1000  # as in TensorFlow Serving; more fail the load


def warm_up(servable: LocalServable) -> int:
    """Run every record of the version's warm-up file; returns their number.

    Raises if a record fails.

    A version that names breeds also runs a photo: for one that takes image
    tensors, the records do not cover decoding.
    """
    if servable.description.labels:
        with suppress(FailedPrecondition):  # it has labels, but no signature for photos
            # A black photo, checked like a user's: the first check loads the readers of
            # all file formats, which takes 10 ms.
            sides = servable.description.input_size or (photo.REDUCED_SIDE, photo.REDUCED_SIDE)
            black = photo.check(tf.io.encode_png(tf.zeros((*sides, 3), tf.uint8)).numpy())
            signature = servable.photo_signature()
            try:
                low_priority.run(servable.run_photos, signature, [black.upright()])
            except InvalidArgument as error:  # it may take others
                log.warning("%s takes no black photo to warm up: %s", servable.id, error)
    file = servable.path / RECORDS_FILE
    if not file.exists():
        return 0
    try:
        records = list(read_records(file))
    except (tf.errors.DataLossError, DecodeError) as error:
        raise FailedPrecondition(
            f"{RECORDS_FILE} holds no warm-up requests: expected a TFRecord file with "
            "messages of the type "
            f"PredictionLog; write it so, or remove it ({kernel_sentence(str(error))})"
        ) from error
    for number, record in enumerate(records):
        try:
            low_priority.run(_run, servable, record)
        except Exception as error:  # a graph can raise anything for values that do not fit
            message = error.message if isinstance(error, DogsnapError) else repr(error)
            raise FailedPrecondition(
                f"warm-up request {number} of {RECORDS_FILE} fails: {message}; write "
                "the file for this version, or remove it"
            ) from error
    return len(records)


def read_records(file: Path) -> Iterator[prediction_log_pb2.PredictionLog]:
    """The records of a TFRecord file. Raises ValueError for more than MAX_RECORDS."""
    dataset = tf.data.TFRecordDataset(str(file)).take(MAX_RECORDS + 1)
    for number, record in enumerate(dataset.as_numpy_iterator(), start=1):
        if number > MAX_RECORDS:
            raise ValueError(
                f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) at {file}"
            )
        yield prediction_log_pb2.PredictionLog.FromString(record)


def _run(servable: LocalServable, record: prediction_log_pb2.PredictionLog) -> None:
    kind = record.WhichOneof("log_type")
    if kind == "predict_log":
        request = record.predict_log.request
        inputs = {alias: tf.make_ndarray(tensor) for alias, tensor in request.inputs.items()}
        signature = servable.signature(request.model_spec.signature_name)
        servable.run(signature, {**signature.defaults, **inputs})
    elif kind in ("classify_log", "regress_log", "multi_inference_log"):
        request = getattr(record, kind).request
        for task in request.tasks if kind == "multi_inference_log" else [request]:
            signature = servable.signature(task.model_spec.signature_name)
            (alias,) = signature.inputs
            servable.run(
                signature, {alias: np.array(serialized_examples(request.input), dtype=object)}
            )
    else:
        raise ValueError(
            f"a warm-up record of {servable.id} is a {kind}; expected predict, classify or regress"
        )


def serialized_examples(examples: input_pb2.Input) -> list[bytes]:
    """The serialized tf.Examples of an Input, each merged with the shared context."""
    if examples.WhichOneof("kind") == "example_list_with_context":
        shared = examples.example_list_with_context
        return [merge_context(example, shared.context) for example in shared.examples]
    return [example.SerializeToString() for example in examples.example_list.examples]
