"""What errors advise to do, in the words of the protocol by which the client
came: an error carries marks, its door the words.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# Marks in the message of an error; the words follow what they stand beside, such as the
# name of a signature.
SIGNATURE = "\0signature\0"
FILES = "\0files\0"
TEXT = "\0text\0"
ONE_VALUE = "\0one value\0"
TENSORS = "\0tensors\0"
REST = "rest"
# By the name between the signs of a mark, and by protocol; another protocol has the words of REST.
WORDS = {
    "signature": {
        REST: 'send "signature_name":',
        "grpc": "set model_spec.signature_name to",
        "command": "add --signature-name",
    },
    "files": {
        REST: 'send {"b64": text}',
        "grpc": "send the bytes of the files",
        "command": 'write {"b64": text}',
    },
    "text": {
        REST: 'send that as a plain string, not as {"b64": text}',
        "grpc": "send that text",
        "command": 'write that as a plain string, not as {"b64": text}',
    },
    "one value": {
        REST: 'send it as {"inputs": ...}, since "instances" is a list of rows',
        "simple": "send it without a list around it",
        "grpc": "send it as a tensor of shape ()",
        "command": 'send it to a server as {"inputs": ...}, since a line is a row of a list',
    },
    "tensors": {
        REST: "call it by its tensors under /v1/models/",
        "command": "give its tensors with --json-instances FILE --model ",
    },
}
MARK = re.compile(f"\0({'|'.join(WORDS)})\0")
# A flag, which the name of its variable may follow.
FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)(?![\w-])( \(DOGSNAP_[A-Z_]+\))?")
# What the command that runs calls the flags of `dogsnap serve`, where it has other ones.
_flags: dict[str, str] = {}


def in_words_of(protocol: str, message: str) -> str:
    """The message with the words of a protocol instead of its marks."""
    return in_flags_of_command(MARK.sub(lambda mark: _find_words(mark[1], protocol), message))


@contextmanager
def naming_flags(names: Mapping[str, str]) -> Iterator[None]:
    """In the block, what is said by errors and the log has these names for flags of
    `dogsnap serve`.
    """
    _flags.update(names)
    try:
        yield
    finally:
        _flags.clear()


def in_flags_of_command(message: str) -> str:
    """The message with the flags that the command takes which was started."""
    return FLAG.sub(_rename_flag, message) if _flags else message


def _rename_flag(flag: re.Match[str]) -> str:
    name, variable = _flags.get(flag[1], flag[1]), flag[2] or ""
    return name if variable == f" ({name})" else f"{name}{variable}"


def put_marks(message: str, protocol: str) -> str:
    """The message of another server that was asked by `protocol`, with marks
    instead of that protocol's words.
    """
    for mark in WORDS:
        message = message.replace(_find_words(mark, protocol), f"\0{mark}\0")
    return message


def _find_words(mark: str, protocol: str) -> str:
    words = WORDS[mark]
    return words.get(protocol, words[REST])
