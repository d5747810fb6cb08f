"""Whether a server answers: for one that takes its place, and for a container's health
check, `python -m dogsnap.server.health PORT`.
"""

import argparse
import dataclasses
import ssl
import sys
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dogsnap.addresses import local_url
from dogsnap.settings import Settings

TIMEOUT_SECONDS = 4.0
# The flags that say where a server listens, by its command, and their settings.
SHARED = {"--host": "host", "--tls-cert": "tls_cert", "--settings-file": "settings_file"}
FLAGS = {"serve": {"--port": "port", **SHARED}, "model-server": {"--rest_api_port": "port"}}


def is_alive(settings: Settings) -> bool:
    """Whether the server on this machine with these settings answers in time; its
    certificate, which names it for others, is not checked.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
    with suppress(OSError, ValueError):
        opener = urllib.request.build_opener(*handlers)
        with opener.open(f"{local_url(settings)}/healthz", timeout=TIMEOUT_SECONDS):
            return True
    return False


def flags_of(command_line: Sequence[str]) -> dict[str, str]:
    """The settings by which a server that was started so listens; none of another program."""
    names = [Path(word).name for word in command_line]
    words = command_line[names.index("dogsnap") + 1 :] if "dogsnap" in names else []
    flags = FLAGS.get(words[0], {}) if words else {}
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for flag, setting in flags.items():
        parser.add_argument(flag, dest=setting)
    return vars(parser.parse_known_args(words)[0])


def main(port: int) -> None:
    """Exit with 0 where the server answers that is a container's first process; `port`:
    where none is set.
    """
    command_line = Path("/proc/1/cmdline").read_text(encoding="utf-8").split("\0")
    flags: dict[str, Any] = flags_of(command_line)
    settings = Settings.from_environment(**flags)
    if settings.port == Settings().port:
        settings = dataclasses.replace(settings, port=port)
    sys.exit(not is_alive(settings))


if __name__ == "__main__":
    main(int(sys.argv[1]))
