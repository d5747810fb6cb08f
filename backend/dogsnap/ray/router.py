"""The deployment behind Ray's gRPC proxy: routes a call to a replica of the requested version.

If a replica dies during a call, the call is repeated on another one: predictions change nothing.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import grpc
from grpc_health.v1 import health_pb2
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from tensorflow_serving.apis import get_model_status_pb2

from dogsnap.errors import (
    DeadlineExceeded,
    DogsnapError,
    Full,
    NotFound,
    Unavailable,
    Unimplemented,
)
from dogsnap.ray.messages import Answer
from dogsnap.ray.routes import Routes
from dogsnap.server.protocols import grpc_messages as translate
from dogsnap.server.protocols.grpc_health import HEALTH_NAMES

REPLICA = "Replica"  # the only deployment of each version's application
ASK_AGAIN_SECONDS = 0.1
HEALTH = health_pb2.HealthCheckResponse
WATCH_SECONDS = 1.0
STATES = get_model_status_pb2.ModelVersionStatus


def _method(answer: Callable[..., Awaitable[Answer]]) -> Callable[..., Awaitable[Answer]]:
    """A method of a service as Ray's proxy calls it: an error becomes the status of the proxy's call."""

    async def call(self: Any, request: Any, grpc_context: Any) -> Answer:
        try:
            answered = await answer(self, request)
        except DogsnapError as error:
            code, message = translate.status(error)
            answered = Answer(code.name, message)
        if answered.code != "OK":
            grpc_context.set_code(grpc.StatusCode[answered.code])
            grpc_context.set_details(answered.message)
        return answered

    return call


def _forwarding(name: str) -> Callable[..., Awaitable[Answer]]:
    """A method that a replica answers."""

    async def forward(self: "Router", request: Any) -> Answer:
        spec = (
            translate.tasks_of(request)[0]
            if name == "MultiInference"
            else translate.spec_of(request)
        )
        return await self._ask(self._routes.application(spec), name, request.SerializeToString())

    return _method(forward)


class Router:
    """Has a method for each method of the services, called by Ray's proxy."""

    def __init__(self, seconds: float):
        """`seconds`: the timeout of a call, including retries."""
        self._seconds = seconds
        self._routes = Routes()
        self._handles: dict[str, Any] = {}
        self._running: set[str] = set()

    def reconfigure(self, table: Mapping[str, Any]) -> None:
        """Use a new routing table; running calls finish with the old one."""
        self._routes = Routes.from_json(table)
        self._handles = {name: self._handles.get(name) for name in self._routes.all_applications()}

    def table(self) -> dict[str, Any]:
        return self._routes.to_json()

    # -- tensorflow.serving.PredictionService --------------------------------------------------------------------------

    Predict = _forwarding("Predict")
    Classify = _forwarding("Classify")
    Regress = _forwarding("Regress")
    MultiInference = _forwarding("MultiInference")
    GetModelMetadata = _forwarding("GetModelMetadata")

    # -- tensorflow.serving.ModelService -------------------------------------------------------------------------------

    @_method
    async def GetModelStatus(self, request: Any) -> Answer:
        """A version without a running replica is reported as loading."""
        versions = self._routes.asked_for_status(translate.spec_of(request))
        running = await self._running_now()
        response = get_model_status_pb2.GetModelStatusResponse()
        for number, name in versions.items():
            state = STATES.AVAILABLE if name in running else STATES.LOADING
            response.model_version_status.add(version=number, state=state).status.SetInParent()
        return Answer(response=response.SerializeToString())

    @_method
    async def HandleReloadConfigRequest(self, request: Any) -> Answer:
        raise Unimplemented("models are configured by `dogsnap deploy ray`, not by a request")

    # -- grpc.health.v1.Health -----------------------------------------------------------------------------------------

    @_method
    async def Check(self, request: Any) -> Answer:
        """SERVING while every model has an available version, as in our own server."""
        if request.service not in HEALTH_NAMES:
            raise NotFound(
                f"unknown service {request.service!r}; expected one of {', '.join(HEALTH_NAMES)}"
            )
        return _health(await self._health_now())

    async def Watch(self, request: Any) -> AsyncIterator[Answer]:
        """The status now, and again whenever it changes, until the client leaves."""
        if request.service not in HEALTH_NAMES:
            yield _health(HEALTH.SERVICE_UNKNOWN)
        known = None
        while request.service in HEALTH_NAMES:
            now = await self._health_now()
            if now != known:
                yield _health(now)
            known = now
            await asyncio.sleep(WATCH_SECONDS)

    async def _health_now(self) -> int:
        running = await self._running_now()
        models = [set(versions.values()) for versions in self._routes.applications.values()]
        return (
            HEALTH.SERVING
            if models and all(running & each for each in models)
            else HEALTH.NOT_SERVING
        )

    async def _running_now(self) -> set[str]:
        """The applications with a running replica, by Ray Serve's status: calls to replicas would queue behind requests."""
        with suppress(Exception):  # the controller is unreachable for a moment
            status = await asyncio.to_thread(serve.status)
            self._running = {
                name
                for name, application in status.applications.items()
                if any(
                    each.replica_states.get("RUNNING") for each in application.deployments.values()
                )
            }
        return self._running

    # -- replicas ------------------------------------------------------------------------------------------------------

    async def _ask(self, application: str, method: str, request: bytes) -> Answer:
        """Raises Full, or Unavailable or DeadlineExceeded if no replica answered in time."""
        end = time.monotonic() + self._seconds
        while True:
            try:
                if self._handles.get(application) is None:
                    self._handles[application] = serve.get_deployment_handle(
                        REPLICA, app_name=application
                    )
                answer = self._handles[application].answer.remote(method, request, self._seconds)
                return await asyncio.wait_for(answer, max(0.0, end - time.monotonic()))
            except BackPressureError as error:
                message = "the server is full: all replicas are busy and their queues are full; try again later"
                raise Full(message) from error
            except TimeoutError:
                message = "the answer was not ready before the request's deadline; try again later"
                raise DeadlineExceeded(message) from None
            except (RayActorError, DeploymentUnavailableError) as error:
                if time.monotonic() + ASK_AGAIN_SECONDS >= end:
                    message = (
                        "the replica died with this call, and no other took it in time; try again"
                    )
                    raise Unavailable(message) from error
                await asyncio.sleep(ASK_AGAIN_SECONDS)


def _health(status: int) -> Answer:
    return Answer(response=HEALTH(status=status).SerializeToString())
