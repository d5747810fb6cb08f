"""A replica of one model version: a predictor with only that version behind Ray
Serve's gRPC proxy.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from google.protobuf import empty_pb2
from google.protobuf.message import Message
from grpc import StatusCode

from dogsnap.errors import DogsnapError, FailedPrecondition, Internal
from dogsnap.routing.spec import ModelSpec
from dogsnap.server.bodies.receiving import HeldMemory
from dogsnap.server.protocols import grpc_messages as translate
from dogsnap.server.protocols.tf_serving_grpc import ModelService, PredictionService
from dogsnap.serving.assembly import create_predictor
from dogsnap.serving.versions.model_files import VersionFiles
from dogsnap.settings import Settings

log = logging.getLogger("dogsnap.ray")


@dataclass
class CallContext:
    """The part of grpc.ServicerContext that our services use."""

    seconds: float
    is_gone: bool = False  # the client has disconnected
    is_over: bool = False
    callbacks: list[Callable[[], None]] = field(default_factory=list)

    def time_remaining(self) -> float:
        return self.seconds

    def is_active(self) -> bool:
        return not self.is_gone

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call it at the end of the call; False if that has ended."""
        if not self.is_over:
            self.callbacks.append(callback)
        return not self.is_over

    def end(self) -> None:
        self.is_over = True
        for callback in self.callbacks:
            callback()


class Replica:
    """The Ray Serve deployment of one version, which is autoscaled.

    Ray's proxy calls its methods.
    """

    def __init__(self, files: VersionFiles, settings: Settings, cache: Path):
        """Loads the version and warms it up.

        Raises FailedPrecondition, which ends its deployment with that sentence.
        """
        self._spec = ModelSpec(files.model, files.version)
        folder = str(files.local(cache))
        settings = replace(settings, model_base_path=folder, model_name=files.model)
        self._predictor = create_predictor(settings, only=self._spec)
        self.check_health()
        self._seconds = settings.deadline_ms / 1000
        self._threads = ThreadPoolExecutor(
            settings.run_threads + settings.queue_size, thread_name_prefix="call"
        )
        self._prediction = PredictionService(
            self._predictor, settings, HeldMemory(settings.max_held_mb)
        )
        self._models = ModelService(settings, self._predictor)

    def check_health(self) -> None:
        """Called by Ray Serve periodically.

        Raises FailedPrecondition while the version is not available.
        """
        repository = self._predictor.repository
        if reason := repository.not_ready():
            statuses = repository.status(ModelSpec(self._spec.name))
            errors = [status.error for status in statuses if status.error]
            raise FailedPrecondition("; ".join([reason, *errors]))

    async def Predict(self, request: Any, grpc_context: Any) -> Message:
        return await self._answer(self._prediction.Predict, request, grpc_context)

    async def Classify(self, request: Any, grpc_context: Any) -> Message:
        return await self._answer(self._prediction.Classify, request, grpc_context)

    async def Regress(self, request: Any, grpc_context: Any) -> Message:
        return await self._answer(self._prediction.Regress, request, grpc_context)

    async def MultiInference(self, request: Any, grpc_context: Any) -> Message:
        return await self._answer(self._prediction.MultiInference, request, grpc_context)

    async def GetModelMetadata(self, request: Any, grpc_context: Any) -> Message:
        return await self._answer(self._prediction.GetModelMetadata, request, grpc_context)

    async def GetModelStatus(self, request: Any, grpc_context: Any) -> Message:
        return await self._answer(self._models.GetModelStatus, request, grpc_context)

    async def _answer(self, method: Any, request: Any, grpc_context: Any) -> Message:
        """Run a method of our own server's; an error becomes the status of the
        proxy's call.
        """
        context = CallContext(self._seconds)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, method, request, context)
        except asyncio.CancelledError:
            context.is_gone = True
            raise
        except Exception as error:
            code, message = _status_of(error, method.__name__)
            grpc_context.set_code(code)
            grpc_context.set_details(message)
            return empty_pb2.Empty()  # the client gets the status alone
        finally:
            context.end()


def _status_of(error: Exception, method: str) -> tuple[StatusCode, str]:
    if not isinstance(error, DogsnapError):
        log.error("a call of %s failed", method, exc_info=error)
        error = Internal("the server failed on this call; the log of its replica has the reason")
    return translate.status(error)
