"""One version of a model in an engine: signatures from the engine, breed names
from the local models folder.
"""

import copy
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2

from dogsnap.errors import (
    DogsnapError,
    EngineFailed,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
)
from dogsnap.gateway.client import spec_message
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.photos.photo_values import Decoding
from dogsnap.serving.tensors.signatures import Inputs, ServableId, Signature
from dogsnap.serving.tensors.tensor_protos import to_arrays
from dogsnap.serving.versions.description import DESCRIPTION_FILE, Description
from dogsnap.serving.versions.servable import (
    MISSING_FILE,
    NO_FILE,
    Answer,
    BaseServable,
    Switched,
    kernel_sentence,
    names_of_files,
)

if TYPE_CHECKING:
    from dogsnap.gateway.engine_repository import EngineRepository

log = logging.getLogger("dogsnap.engine")

RUNTIME = {"name": "engine"}
INTERNAL_SIGNATURES = "__saved_model"  # prefix of signatures that only TensorFlow's loader uses
MAX_ANSWER_BYTES = 2**31  # of the tensors in a response: the limit of a protobuf message


class EngineServable(BaseServable):
    """A version in an engine; `for_request` makes a copy for one request.

    Classify and regress are sent as Predict with the same signature and
    serialized tf.Examples: TensorFlow Serving implements them so, and some
    engines have only Predict.
    """

    holds_shapes = False  # the engine checks shapes

    def __init__(
        self,
        identity: ServableId,
        signature_defs: Mapping[str, Any],
        folder: Path | None,
        versions: "EngineRepository",
    ):
        """`folder`: the version in the local models folder, for its
        description; None if it is missing.
        """
        names = [name for name in signature_defs if not name.startswith(INTERNAL_SIGNATURES)]
        super().__init__(identity, Description(), signature_defs, names)
        self.runtime = RUNTIME
        self._spec, self._versions = ModelSpec(*identity), versions
        file = f"{self.id.name}/{self.id.version}/{DESCRIPTION_FILE}"
        self.label_source = f"{file} of this server (--models has to hold what the engine's has)"
        if folder is None:
            return
        try:
            self.description = Description.read(folder)
            self._check_labels()
        except (OSError, ValueError) as error:
            log.error("%s of the engine has no breed names: %s", self.id, error)
            self.description = Description()
            self.label_source = f"a {file} that fits the engine's version"
        takes_text = any(_takes_text(signature) for signature in self.signatures.values())
        # Our exports decode pictures in every string input; about other graphs nothing
        # is known here.
        self.decoding = Decoding(pictures=bool(self.description.raw) and takes_text)

    def for_request(self, spec: ModelSpec) -> "EngineServable":
        request = copy.copy(self)
        request._spec = spec
        return request

    def answer(self, signature: Signature, inputs: Inputs) -> Answer:
        """Call the engine; raises Switched if an error shows that the label or
        default now means another version.
        """
        try:
            return self._call(signature, inputs)
        except (InvalidArgument, FailedPrecondition, NotFound) as error:
            successor = self._find_successor()
            if successor is None:
                raise
            raise Switched(successor) from error

    def _call(self, signature: Signature, inputs: Inputs) -> Answer:
        """The outputs that the version that answered promises, and that version."""
        request = predict_request(self._spec, signature, inputs)
        try:
            response = self._versions.engine.predict(request, self._spec)
        except NotFound as error:
            if NO_FILE not in error.message:
                raise
            # TensorFlow Serving says so of a file that the graph reads, too.
            sentence = kernel_sentence(error.message)
            if any(name in error.message for name in names_of_files(inputs)):
                raise InvalidArgument(sentence) from error
            raise EngineFailed(sentence + MISSING_FILE) from error
        servable = self._find_answering(response.model_spec)
        promised = servable.signatures.get(signature.name, signature)
        try:
            outputs = to_arrays(response.outputs, MAX_ANSWER_BYTES)
            return {alias: outputs[alias] for alias in promised.outputs}, servable
        except (DogsnapError, KeyError) as error:
            log.error(
                "the outputs of %s do not match its signature %s: %s",
                servable.id,
                signature.name,
                error,
            )
            raise EngineFailed(
                f"the engine's answer does not fit signature {signature.name} of {servable.id}"
            ) from error

    def _find_answering(self, answered: model_pb2.ModelSpec) -> "EngineServable":
        """The version that answered, which is used for the rest of the request."""
        if self._spec.version is not None:
            return self
        version = answered.version.value if answered.HasField("version") else self.id.version
        identity = ServableId(self.id.name, version)
        servable = self
        if identity != self.id:
            servable = self._versions.record_answer(self._spec, identity)
        exactly = ModelSpec(identity.name, version, sticky_key=self._spec.sticky_key)
        return servable.for_request(exactly)

    def _find_successor(self) -> "EngineServable | None":
        """The version that the label or default now means; None if it is this one.

        Raises FailedPrecondition for a removed label, so that the photo is not blamed.
        """
        if self._spec.version is not None:
            return None
        try:
            servable = self._versions.resolve(self._spec)
        except InvalidArgument as error:
            raise FailedPrecondition(error.message) from error
        return None if servable.id == self.id else servable.for_request(self._spec)


def _takes_text(signature: Signature) -> bool:
    return any(spec.dtype == tf.string for spec in signature.inputs.values())


def predict_request(spec: ModelSpec, signature: Signature, inputs: Inputs) -> bytes:
    """A serialized PredictRequest; temporary copies of the photos are freed on return."""
    request = predict_pb2.PredictRequest(model_spec=spec_message(spec))
    request.model_spec.signature_name = signature.name
    for alias, value in inputs.items():
        proto = tf.make_tensor_proto(value, signature.inputs[alias].dtype)
        request.inputs[alias].CopyFrom(proto)
    return request.SerializeToString()
