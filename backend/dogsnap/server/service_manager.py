"""Tells systemd when the server is ready and when it stops, for units with Type=notify."""

import logging
import os
import socket

log = logging.getLogger("dogsnap")

VARIABLE = "NOTIFY_SOCKET"
KEPT = "_DOGSNAP_NOTIFY_SOCKET"


def keep_socket() -> None:
    """Keep the socket from gunicorn, which would be ready before the models are."""
    if address := os.environ.pop(VARIABLE, ""):
        os.environ[KEPT] = address


def notify(*states: str) -> None:
    """Send states such as READY=1; nothing where no service manager has asked for them."""
    address = os.environ.get(KEPT, "")
    if not address:
        return
    if address.startswith("@"):  # in Linux's abstract namespace
        address = "\0" + address.removeprefix("@")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto("\n".join(states).encode(), address)
    except OSError as error:
        log.warning("the service manager was not told %s: %s", ", ".join(states), error)
