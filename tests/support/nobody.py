"""What a user without rights is told."""

import os
from collections.abc import Callable

import pytest

NOBODY = 65534


def as_nobody(function: Callable[[], object]) -> str:
    """The text of what a function raises for a user who owns nothing; "" for nothing."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            function()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said
