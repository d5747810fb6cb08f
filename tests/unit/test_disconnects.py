"""Clients that disconnect while they wait; how that frees their place in the queue is shown with real servers elsewhere."""

import os
import select
import socket
import threading
from collections.abc import Callable

from waiting import wait_until

from backend.middleware.disconnects import DisconnectWatcher


class SlowEpoll:
    """An epoll object after whose first event something happens before the event is seen."""

    def __init__(self, meanwhile: Callable[[], None]):
        self._epoll = select.epoll()
        self._meanwhile = meanwhile
        self.register, self.modify, self.unregister = self._epoll.register, self._epoll.modify, self._epoll.unregister

    def poll(self) -> list[tuple[int, int]]:
        events = self._epoll.poll()
        self._meanwhile()
        self._meanwhile = lambda: None
        return events


def test_a_client_is_told_once_when_it_disconnects():
    ours, client = socket.socketpair()
    told: list[str] = []
    with ours:
        assert DisconnectWatcher().on_disconnect(ours, lambda: told.append("gone"))
        client.close()
        wait_until(lambda: told)
    assert told == ["gone"]


def test_the_next_client_on_the_same_file_descriptor_does_not_count_as_disconnected(monkeypatch):
    ours, client = socket.socketpair()
    next_ours, next_client = socket.socketpair()
    told: list[str] = []
    is_reused = threading.Event()

    def reuse() -> None:
        watcher.forget(ours)
        os.dup2(next_ours.fileno(), ours.fileno())  # what closing one connection and accepting another comes to
        watcher.on_disconnect(ours, lambda: told.append("next"))
        is_reused.set()

    watcher = DisconnectWatcher()
    monkeypatch.setattr(watcher, "_epoll", SlowEpoll(reuse))
    watcher.on_disconnect(ours, lambda: told.append("first"))
    client.close()
    assert is_reused.wait(30)
    again, other = socket.socketpair()
    watcher.on_disconnect(again, lambda: told.append("other"))
    other.close()
    wait_until(lambda: "other" in told)  # the watcher has been through the events before this one
    assert told == ["other"]
    next_client.close()
    wait_until(lambda: "next" in told)
    for each in (ours, next_ours, again):
        each.close()
