"""What the flags of `dogsnap serve` are called by the command that runs, in
errors and in the log.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# A flag, which the name of its variable may follow.
FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)(?![\w-])( \(DOGSNAP_[A-Z_]+\))?")
_names: dict[str, str] = {}


@contextmanager
def naming_flags(names: Mapping[str, str]) -> Iterator[None]:
    """In the block, flags have these names."""
    _names.update(names)
    try:
        yield
    finally:
        _names.clear()


def in_flags_of_command(message: str) -> str:
    """The message with the flags that the command takes which was started."""
    return FLAG.sub(_rename_flag, message) if _names else message


def _rename_flag(flag: re.Match[str]) -> str:
    name = _names.get(flag[1], flag[1])
    variable = flag[2] or ""
    return name if variable == f" ({name})" else f"{name}{variable}"
