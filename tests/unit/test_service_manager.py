"""The service manager is told at the address that it names, whatever its form."""

import os
import socket

import pytest
from dogsnap.server import service_manager


@pytest.mark.parametrize("form", ["a path with @", "an abstract name"])
def test_a_state_is_sent_to_the_address_that_the_service_manager_names(form, tmp_path, monkeypatch):
    path = tmp_path / "user@1000"
    abstract = f"dogsnap-{os.getpid()}"
    named, bound = {
        "a path with @": (str(path), str(path)),
        "an abstract name": (f"@{abstract}", f"\0{abstract}"),
    }[form]
    monkeypatch.setenv(service_manager.KEPT, named)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(bound)
        channel.settimeout(5)
        service_manager.notify("READY=1")
        assert channel.recv(1000) == b"READY=1"
