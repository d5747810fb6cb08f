"""A replica of one model version: a predictor with only that version, called by the gRPC servicer."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from google.protobuf import message_factory
from tensorflow_serving.apis import prediction_service_pb2

from dogsnap.errors import DogsnapError, FailedPrecondition, Internal
from dogsnap.ray.messages import Answer, CallContext
from dogsnap.ray.model_files import VersionFiles
from dogsnap.routing.spec import ModelSpec
from dogsnap.server.protocols import grpc_messages as translate
from dogsnap.server.protocols.tf_serving_grpc import PredictionService
from dogsnap.serving.assembly import create_predictor
from dogsnap.settings import MEBIBYTE, Settings

log = logging.getLogger("dogsnap.ray")

REQUESTS: dict[str, type[Any]] = {
    each.name: message_factory.GetMessageClass(each.input_type)
    for each in prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].methods
}


class Replica:
    """The Ray Serve deployment of one version, which is autoscaled."""

    def __init__(self, name: str, files: VersionFiles, settings: Settings, cache: Path):
        """Loads the version and warms it up, as a version of the model `name`.

        Raises FailedPrecondition, which ends its deployment with that sentence.
        """
        self._spec = ModelSpec(name, files.version)
        settings = replace(settings, model_base_path=str(files.local(cache)), model_name=name)
        self._predictor = create_predictor(settings, only=self._spec)
        self.check_health()
        self._threads = ThreadPoolExecutor(
            settings.run_threads + settings.queue_size, thread_name_prefix="call"
        )
        self._servicer = PredictionService(self._predictor, settings.max_tensor_body_mb * MEBIBYTE)

    def check_health(self) -> None:
        """Called by Ray Serve periodically. Raises FailedPrecondition while the version is not available."""
        repository = self._predictor.repository
        if reason := repository.not_ready():
            failed = [
                each.error for each in repository.status(ModelSpec(self._spec.name)) if each.error
            ]
            raise FailedPrecondition("; ".join([reason, *failed]))

    async def answer(self, method: str, request: bytes, seconds: float) -> Answer:
        """Run a call with the gRPC servicer of our own server, in at most so many seconds."""
        context, loop = CallContext(seconds), asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._answer, method, request, context)
        except asyncio.CancelledError:
            context.is_gone = True
            raise

    def _answer(self, method: str, body: bytes, context: CallContext) -> Answer:
        request = REQUESTS[method].FromString(body)
        for message in getattr(
            request, "tasks", [request]
        ):  # the router has resolved its label or default
            message.model_spec.version.value = self._spec.version
        try:
            return Answer(
                response=getattr(self._servicer, method)(request, context).SerializeToString()
            )
        except Exception as error:
            if not isinstance(error, DogsnapError):
                log.exception("a call of %s failed", method)
                error = Internal(
                    "the server failed on this call; the log of its replica has the reason"
                )
            code, message = translate.status(error)
            return Answer(code.name, message)
