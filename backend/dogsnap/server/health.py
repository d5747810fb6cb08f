"""Whether a server answers: for one that takes its place, and for a container's health
check, `python -m dogsnap.server.health PORT`.
"""

import argparse
import dataclasses
import os
import ssl
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dogsnap.addresses import local_url
from dogsnap.settings import Settings

TIMEOUT_SECONDS = 4.0
# The flags that say where a server listens, by its command, and their settings.
SHARED = {"--host": "host", "--tls-cert": "tls_cert", "--settings-file": "settings_file"}
FLAGS = {"serve": {"--port": "port", **SHARED}, "model-server": {"--rest_api_port": "port"}}
# What stands in front of a server in a container.
STARTERS = ("sh", "bash", "dash", "ash", "tini", "docker-init", "dumb-init", "catatonit")


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


def flags_of(command_line: Sequence[str]) -> dict[str, str] | None:
    """The settings by which a server that was started so listens; None for another program."""
    names = [Path(word).name for word in command_line]
    words = command_line[names.index("dogsnap") + 1 :] if "dogsnap" in names else []
    if not words or words[0] not in FLAGS:
        return None
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for flag, setting in FLAGS[words[0]].items():
        parser.add_argument(flag, dest=setting)
    return vars(parser.parse_known_args(words)[0])


def find_server() -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Flags and environment of the server that is a container's first process, or that this
    one has started, one of STARTERS; without one no flags and this environment.
    """
    first = Path("/proc/1")
    processes = [first]
    with suppress(OSError):  # some kernels do not tell of children
        if Path(_words_of(first / "cmdline")[0]).name in STARTERS:
            children = (first / "task/1/children").read_text(encoding="ascii").split()
            processes += [first.parent / child for child in children]
    for process in processes:
        with suppress(OSError):  # it has ended, or is another user's
            flags = flags_of(_words_of(process / "cmdline"))
            if flags is not None:
                environ: Mapping[str, str] = os.environ
                with suppress(OSError):  # another user's
                    words = _words_of(process / "environ")
                    environ = dict(word.split("=", 1) for word in words if "=" in word)
                return flags, environ
    return {}, os.environ


def _words_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="surrogateescape").split("\0")


def main(port: int) -> None:
    """Exit with 0 where a container's server answers; `port`: where none is set."""
    flags, environ = find_server()
    settings = Settings.from_environment(environ, **flags)
    if settings.port == Settings().port:
        settings = dataclasses.replace(settings, port=port)
    sys.exit(not is_alive(settings))


if __name__ == "__main__":
    main(int(sys.argv[1]))
