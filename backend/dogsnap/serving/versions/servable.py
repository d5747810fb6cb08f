"""One loaded version of a model: its signatures, its description, and the call
that runs it.
"""

import copy
import logging
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from dogsnap.errors import (
    DogsnapError,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    TooLarge,
    Unavailable,
    Unimplemented,
)
from dogsnap.serving.execution.batching import Batcher, BatchingParameters
from dogsnap.serving.photos import preprocessing
from dogsnap.serving.photos.base64_text import to_web_safe_base64
from dogsnap.serving.photos.photo_values import Decoding, is_base64_of_photo, is_photo
from dogsnap.serving.tensors.signatures import (
    BYTES_SUFFIX,
    DEFAULT_SIGNATURE,
    Arrays,
    Inputs,
    ServableId,
    Signature,
    UnknownSignature,
)
from dogsnap.serving.tensors.tensor_protos import STRING_BYTES, tensor_bytes
from dogsnap.serving.versions import (
    checksums,
    low_priority,
    openvino_runtime,
    saved_model_file,
    tensorflow1_sessions,
)
from dogsnap.serving.versions.description import DESCRIPTION_FILE, Description
from dogsnap.settings import MEBIBYTE, Settings

log = logging.getLogger("dogsnap.servable")

PHOTO_SIGNATURES = ("scores", "image_bytes", DEFAULT_SIGNATURE)  # in the order of preference
NO_MEMORY = (
    "the server has no memory left for this request; send fewer or smaller inputs, or try again"
)
# Errors of operations that mean bad input.
INPUT_ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.OutOfRangeError,
    tf.errors.DataLossError,
    tf.errors.UnimplementedError,
)

# Of a graph that reads files: its own, unless the client named them.
FILE_ERRORS = (tf.errors.NotFoundError, tf.errors.FailedPreconditionError)
LONGEST_NAME = 4096  # bytes of a path on Linux
NO_FILE = "No such file or directory"
MISSING_FILE = (
    "; the graph of this version reads that file: put it on the server's machine, or export the "
    "model with the file as an asset (tf.saved_model.Asset)"
)


# What to send, for every protocol.
FILES = 'send the bytes of the files, in JSON as {"b64": text}'
TEXT = 'send that text, in JSON as a plain string without {"b64": ...}'
WITHOUT_ROWS = (
    "this graph takes one value: send it without a list around it, as a tensor of shape (), "
    'in JSON as {"inputs": ...} since "instances" is a list of rows'
)
BY_TENSORS = "call it by its tensors, /v1/models/{0}:predict or --json-instances FILE --model {0}"

Answer: TypeAlias = "tuple[Arrays, BaseServable]"  # all outputs, and the version that gave them


class BaseServable(ABC):
    """A version, wherever it runs: its signatures, its description, and how it
    takes photos.
    """

    # Whether inputs have to be of their declared shapes; else the graph decides, as in
    # TensorFlow Serving.
    holds_shapes = True
    # Where labels are expected, for error messages.
    label_source = "its assets.extra/dogsnap.json"
    max_answer_mb = Settings().max_answer_mb
    path: Path | None = None  # its folder, where that is on this machine
    # By signature: what runs several requests at once.
    _batchers: Mapping[str, Batcher] = {}

    def __init__(
        self,
        identity: ServableId,
        description: Description,
        signature_defs: Mapping[str, Any],
        names: Iterable[str],
    ):
        """`names` are the signatures that can be run.

        Raises ValueError for labels that do not fit them.
        """
        self.id = identity
        self.description = description
        self.decoding = Decoding()
        self.runtime: Mapping[str, Any] = {}
        self.signature_defs = signature_defs
        self.signatures: dict[str, Signature] = {}
        self._refused: dict[str, str] = {}  # why a signature cannot be served, by name
        for name in names:
            try:
                self.signatures[name] = Signature.of(name, signature_defs[name])
            except InvalidArgument as error:
                self._refused[name] = error.message
        self._check_labels()

    def check_answer_size(self, count: int) -> None:
        """Raises TooLarge, naming the limit, for outputs of so many bytes."""
        if count > self.max_answer_mb * MEBIBYTE:
            raise TooLarge(
                f"the answer has {count / MEBIBYTE:.1f} MiB of tensors; at most "
                f"{self.max_answer_mb} MiB are given, twice DOGSNAP_MAX_TENSOR_BODY_MB; "
                "send fewer or smaller values at once"
            )

    @abstractmethod
    def answer(self, signature: Signature, inputs: Inputs) -> Answer:
        """Run a signature on its inputs by alias; returns every output, and the
        version that answered.

        Raises Switched where that cannot be this one any more.
        """

    def signature(self, name: str = "") -> Signature:
        """The signature with that name, the default one for "".

        Raises UnknownSignature with the existing names, and InvalidArgument for
        one with an input that cannot be served.
        """
        name = name or DEFAULT_SIGNATURE
        if name in self._refused:
            raise InvalidArgument(self._refused[name])
        if name not in self.signatures:
            raise UnknownSignature(name, list(self.signatures))
        return self.signatures[name]

    def default_signature(self) -> Signature:
        """serving_default, or the first there is. Raises as `signature` does."""
        is_there = not self.signatures or DEFAULT_SIGNATURE in self.signatures
        return self.signature(DEFAULT_SIGNATURE if is_there else next(iter(self.signatures)))

    def picture_inputs(self, signature: Signature) -> list[str]:
        """The inputs whose values are pictures: files or texts that are
        decoded, or the image of a version for photos.
        """
        aliases = []
        tensors = self.decoding.tensors
        for alias, spec in signature.inputs.items():
            name = self.signature_defs[signature.name].inputs[alias].name
            if spec.dtype == tf.string:
                is_picture = self.decoding.pictures and (tensors is None or name in tensors)
            else:
                is_picture = spec.shape.rank == 4 and self.description.input_size is not None
            if is_picture:
                aliases.append(alias)
        return aliases

    def shares_runs(self, signature: Signature) -> bool:
        return signature.name in self._batchers

    def of_bytes(self, signature: Signature) -> Signature | None:
        """The counterpart of `signature` with file bytes instead of base64
        text, which merged versions have; else None.
        """
        is_merged = self.description.raw.get("source", {}).get("decode") == "base64"
        other = self.signatures.get("".join(signature.inputs) + BYTES_SUFFIX)
        is_same = (
            other and list(other.inputs) == [other.name] and other.outputs == signature.outputs
        )
        return other if is_merged and is_same else None

    def _check_labels(self) -> None:
        """Raises ValueError if the labels do not fit the outputs, since breeds
        would be named wrongly.
        """
        labels = len(self.description.labels)
        for signature in self.signatures.values():
            prediction = signature.outputs.get("prediction")
            classes = prediction.shape[1] if prediction and prediction.shape.rank == 2 else None
            if labels and classes not in (None, labels):
                raise ValueError(
                    f"signature {signature.name} has {classes} classes, the version's labels "
                    f"are {labels}"
                )

    def photo_signature(self) -> Signature:
        """The signature that names breeds: preferably "scores", the only one
        that can answer "no dog".
        """
        for name in PHOTO_SIGNATURES:
            signature = self.signatures.get(name)
            if signature and len(signature.inputs) == 1 and "prediction" in signature.outputs:
                return signature
        raise FailedPrecondition(
            f"{self.id} cannot name a photo: expected a signature "
            f"{' or '.join(PHOTO_SIGNATURES)} with one input and the "
            f"output prediction, it has: {', '.join(self.signatures)}; {BY_TENSORS.format(self.id.name)}"
        )

    def run_photos(self, signature: Signature, photos: Sequence[bytes]) -> Arrays:
        """Run a signature with one input on photos (bytes from
        `Photo.upright`), one row of output for each.
        """
        return self.answer_photos(signature, photos)[0]

    def answer_photos(self, signature: Signature, photos: Sequence[bytes]) -> Answer:
        """As `answer`, on photos as in `run_photos`: as bytes, base64 text or
        images. Raises FailedPrecondition otherwise.
        """
        alias, spec = self.photo_input(signature)
        values = self._photo_values(alias, spec, photos)
        if spec.shape.rank != 0:
            try:
                return self.answer(signature, {alias: values})
            except InvalidArgument:
                if spec.shape.rank is not None or not photos:
                    raise
        # A value, or of unknown rank and it takes no vector.
        return self._answer_one_by_one(signature, alias, values)

    def _answer_one_by_one(self, signature: Signature, alias: str, values: Any) -> Answer:
        """For a graph that takes a single value: one run for each, whose
        answers become rows.
        """
        servable, answers = self, []
        for value in values:
            outputs, servable = servable.answer(signature, {alias: value})
            answers.append(outputs)
        rows = {}
        for output in signature.outputs:
            parts = [answer[output] for answer in answers]
            has_rows = all(part.shape[:1] == (1,) for part in parts)  # as most have
            rows[output] = np.concatenate(parts) if has_rows else np.stack(parts)
        return rows, servable

    def photo_input(self, signature: Signature) -> tuple[str, tf.TensorSpec]:
        """The only input of a signature.

        Raises FailedPrecondition if it has another number of them.
        """
        if len(signature.inputs) != 1:
            raise FailedPrecondition(
                f"signature {signature.name} of {self.id} cannot take a photo: expected one "
                f"input, it has {', '.join(signature.inputs)}"
            )
        return next(iter(signature.inputs.items()))

    def _photo_values(self, alias: str, spec: tf.TensorSpec, photos: Sequence[bytes]) -> Any:
        if spec.dtype == tf.string:
            takes_files = alias.endswith(BYTES_SUFFIX)
            return list(photos) if takes_files else list(map(to_web_safe_base64, photos))
        if spec.dtype != tf.float32 or spec.shape.rank != 4:
            raise FailedPrecondition(
                f'input "{alias}" of {self.id} cannot take a photo: it takes {spec.dtype.name} '
                f"{spec.shape}, expected strings or float32 images (n, h, w, 3)"
            )
        size = self.description.input_size or tuple(spec.shape[1:3])
        if None in size:
            raise FailedPrecondition(
                f"{self.id} does not say which size of image it takes: expected input_size in "
                f"{DESCRIPTION_FILE}"
            )
        try:
            return preprocessing.photos_to_images(tf.constant(list(photos), tf.string), size)
        except tf.errors.OpError as error:
            raise _translate_error(error) from error


class Switched(Exception):
    """Behind a gateway, what was asked means another version since: `servable`."""

    def __init__(self, servable: BaseServable):
        super().__init__(str(servable.id))
        self.servable = servable


class LocalServable(BaseServable):
    """A loaded SavedModel. Thread-safe: running a signature does not change it."""

    path: Path

    def __init__(self, identity: ServableId, path: Path):
        """Loads it. Raises FailedPrecondition for a changed file, and TensorFlow's
        errors for a damaged one.
        """
        self.path = path
        low_priority.run(checksums.verify, path)
        graphs = saved_model_file.read(path)
        meta_graph = next(
            (graph for graph in graphs if list(graph.meta_info_def.tags) == ["serve"]), graphs[0]
        )
        # What the functions need, a SavedModel or a network of another runtime, lives as long.
        self._loaded: Any
        self._loaded, runtime = openvino_runtime.load(path, identity)
        in_session = self._loaded is None and tensorflow1_sessions.is_of_tensorflow_1(graphs)
        if in_session:
            self._loaded = tensorflow1_sessions.SessionModel(path, meta_graph)
        elif self._loaded is None:
            self._loaded = tf.saved_model.load(str(path), tags=list(meta_graph.meta_info_def.tags))
        self._functions = dict(self._loaded.signatures)
        # Copies: a part of a protobuf message keeps the whole one in memory, with all constants.
        definitions = {name: copy.deepcopy(each) for name, each in meta_graph.signature_def.items()}
        super().__init__(identity, Description.read(path), definitions, self._functions)
        self.holds_shapes = not in_session
        tensors = {info.name for each in definitions.values() for info in each.inputs.values()}
        self.decoding = Decoding.of(meta_graph.graph_def, tensors)
        self.runtime = runtime

    def answer(self, signature: Signature, inputs: Inputs) -> Answer:
        return self.run(signature, inputs), self

    def enable_batching(
        self, parameters: BatchingParameters, on_run: Callable[[int], None] = lambda rows: None
    ) -> None:
        """Batch requests of signatures whose inputs and outputs all have an
        open first dimension, that of the rows.

        `on_run` is called before each run with its rows.
        """
        self._batchers = {
            name: Batcher(partial(self._run, signature), parameters, on_run)
            for name, signature in self.signatures.items()
            if _has_rows(signature.inputs) and _has_rows(signature.outputs)
        }

    def run(self, signature: Signature, inputs: Inputs) -> Arrays:
        """All outputs for `inputs` of the declared dtypes; strings are object
        arrays of bytes in both. Raises InvalidArgument.
        """
        batcher = self._batchers.get(signature.name)
        if batcher is None:
            return self._run(signature, inputs)
        arrays = {}
        for alias, value in inputs.items():
            # Without a dtype, NumPy would strip zero bytes from the end of strings.
            arrays[alias] = np.asarray(value, signature.inputs[alias].dtype.as_numpy_dtype)
        return batcher.run(arrays)

    def _run(self, signature: Signature, inputs: Inputs) -> Arrays:
        try:
            tensors = {
                alias: tf.constant(value, signature.inputs[alias].dtype)
                for alias, value in inputs.items()
            }
            answer = self._functions[signature.name](**tensors)
            outputs = {alias: answer.pop(alias) for alias in signature.outputs}
            self._release_if_large(outputs, sum(map(_least_bytes, outputs.values())))
            arrays = {alias: np.asarray(output) for alias, output in outputs.items()}
            self._release_if_large(arrays, sum(map(tensor_bytes, arrays.values())))
            return arrays
        except tf.errors.OpError as error:
            note = _unlike_declared(signature, inputs) + self._encoding_hint(signature, inputs)
            raise _translate_error(error, note, names_of_files(inputs)) from error
        except UnicodeDecodeError as error:  # TensorFlow quotes bytes of the input in its reason
            raise InvalidArgument(
                f'signature "{signature.name}" of {self.id} refuses these values; its '
                "reason quotes them, and is no text"
            ) from error
        except MemoryError as error:
            raise Unavailable(NO_MEMORY) from error
        except RuntimeError as error:  # what OpenVINO raises
            log.error("signature %s of %s failed", signature.name, self.id, exc_info=error)
            raise Internal(
                f"{self.id} failed on this request; the server's log has the reason"
            ) from error

    def _release_if_large(self, outputs: dict[str, Any], size: int) -> None:
        """Raises TooLarge for outputs of `size` bytes, which the error's
        traceback would hold.
        """
        if size > self.max_answer_mb * MEBIBYTE:
            outputs.clear()
        self.check_answer_size(size)

    def _encoding_hint(self, signature: Signature, inputs: Inputs) -> str:
        """How to send photos that came as base64 text where the graph takes
        files, or the other way round; "" otherwise.
        """
        for alias, spec in signature.inputs.items():
            takes_files = alias.endswith(BYTES_SUFFIX)
            is_other = is_base64_of_photo if takes_files else is_photo
            if spec.dtype != tf.string or not any(
                map(is_other, np.asarray(inputs[alias], object).flat)
            ):
                continue
            hint = f'; input "{alias}" received files: if it takes base64 text, {TEXT}'
            if takes_files:
                hint = f'; input "{alias}" takes files and received base64 text: {FILES}'
            for other in self.signatures.values():
                takes = [
                    (each.endswith(BYTES_SUFFIX), its.dtype) for each, its in other.inputs.items()
                ]
                if takes == [(not takes_files, tf.string)]:
                    return f'{hint}, or use signature "{other.name}"'
            return hint
        return ""


def _has_rows(specs: Mapping[str, tf.TensorSpec]) -> bool:
    """Whether there are tensors, all with a first dimension that is open; an
    unknown rank may be anything.
    """
    return bool(specs) and all(spec.shape.rank and spec.shape[0] is None for spec in specs.values())


def _least_bytes(tensor: tf.Tensor | np.ndarray) -> int:
    """The memory of an output before it is an array; of strings without their characters."""
    if isinstance(tensor, np.ndarray):
        return 0  # it is an array already
    count = math.prod(tensor.shape)
    return count * (STRING_BYTES if tensor.dtype == tf.string else tensor.dtype.size)


def _unlike_declared(signature: Signature, inputs: Inputs) -> str:
    """Names the inputs whose shape is not the declared one, which the graph's
    message does not; "" for none. A list of one is as good as its value.
    """
    text, advice = "", ""
    for alias, value in inputs.items():
        declared, received = signature.inputs[alias].shape, np.shape(value)
        if declared.rank == 0 and np.size(value) == 1:
            continue
        if not declared.is_compatible_with(received):
            text += f'; input "{alias}": declared shape {declared}, received {received}'
            advice = f"; {ONE_BY_ONE}" if declared.rank == 0 else advice
    return text + advice


def names_of_files(inputs: Inputs) -> Iterator[str]:
    """The texts among values that may name a file."""
    for value in inputs.values():
        for each in np.asarray(value, object).flat:
            if isinstance(each, bytes | str) and 0 < len(each) <= LONGEST_NAME:
                yield each if isinstance(each, str) else each.decode(errors="replace")


def _translate_error(
    error: tf.errors.OpError, note: str = "", names: Iterable[str] = ()
) -> DogsnapError:
    """`names`: of files, as the client may have given them."""
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return Unavailable(NO_MEMORY)
    if PYTHON_FUNCTION.search(error.message):
        return Unimplemented(
            "the graph of this version calls a Python function (tf.py_function, "
            "tf.numpy_function), which a "
            "SavedModel does not hold; no server can run it: export the model without it"
        )
    is_of_file = isinstance(error, FILE_ERRORS) and any(name in error.message for name in names)
    if not isinstance(error, INPUT_ERRORS) and not is_of_file:
        advice = MISSING_FILE if NO_FILE in error.message else ""
        return Internal(kernel_sentence(error.message) + advice)
    if ONE_ROW in error.message:
        note += f"; {WITHOUT_ROWS}"
    elif NOT_ONE in error.message and ONE_BY_ONE not in note:
        note += f"; {ONE_BY_ONE}"
    return InvalidArgument(kernel_sentence(error.message) + note)


# What an operation says that calls a function of the process which exported the graph.
PYTHON_FUNCTION = re.compile(r"\bcallback\b.{0,30}\bpyfunc_\d+")
# What an operation says of a graph for one value that was given a list of one row, and what to do.
ONE_ROW = "must be scalar but got shape[1]"
NOT_ONE = "must be scalar but got shape["
ONE_BY_ONE = (
    "this graph takes one value at a time: send a request for each; `dogsnap merge` "
    "makes of the network that takes images a "
    "version that takes several"
)
# Lines that TensorFlow adds to an operation's message: where the graph was built.
TRACE_LINE = re.compile(
    r"Graph execution error:|Detected at node |\s*File \"|<stack traces unavailable>|\s*$"
)


# Where an operation stands in the graph; without an inner bracket, so that the search is linear.
OPERATION = re.compile(r"\[Op:[^\[\]]*\]")
MAX_SENTENCE = 2000  # characters; operations repeat the whole text that they cannot read


def kernel_sentence(message: str) -> str:
    """An operation's message without where the graph was built, at most
    MAX_SENTENCE long.
    """
    lines = [line for line in message.splitlines() if not TRACE_LINE.match(line)]
    text = OPERATION.sub("", " ".join(lines))
    sentence = re.sub(r"\s+", " ", text).strip()
    return sentence if len(sentence) <= MAX_SENTENCE else sentence[:MAX_SENTENCE] + "..."
