"""The health service: what one watching client waits for holds up nobody else."""

import threading
from types import SimpleNamespace

from dogsnap.server.protocols.grpc_health import Health
from grpc_health.v1 import health_pb2
from support.waiting import wait_until


def test_a_client_that_ends_its_watch_while_it_is_told_holds_up_neither_itself_nor_the_stop():
    health, may_go_on, told, ended = Health(lambda: ""), threading.Event(), [], []

    def send(response):
        """As gRPC: it waits for the thread that is to call back at the end of the call."""
        told.append(response)
        if len(told) == 2:
            assert may_go_on.wait(10)

    context = SimpleNamespace(add_callback=ended.append)
    health.Watch(health_pb2.HealthCheckRequest(service=""), context, send)
    stopping = threading.Thread(target=health.enter_graceful_shutdown)
    stopping.start()
    wait_until(lambda: len(told) == 2, 10)
    (close,) = ended
    closing = threading.Thread(target=close)
    closing.start()
    closing.join(5)
    assert not closing.is_alive()
    may_go_on.set()
    stopping.join(5)
    assert not stopping.is_alive()
    assert told[1].status == health_pb2.HealthCheckResponse.NOT_SERVING
