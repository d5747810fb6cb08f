"""Where switches are kept: a log with numbers 1, 2, 3 and small notes, in
SQLite or Redis.
"""

from typing import Protocol

EXPECTED = "expected the path of a file, redis://host:6379, or off"


class NumberTaken(Exception):
    """Another server has written a switch with this number."""


class Store(Protocol):
    """Thread-safe.

    What fails raises Unavailable with a sentence; a write is on disk on return.
    `place`: where it is, without a password. `is_kept`: it outlives the server.
    """

    place: str
    is_kept: bool

    def read(self, after: int) -> list[tuple[int, str]]:
        """The numbers and texts of all switches with a larger number than
        `after`, in order.
        """

    def append(self, number: int, text: str) -> None:
        """Write a switch. Raises NumberTaken if there is one with this number."""

    def notes(self, kind: str) -> dict[str, str]:
        """The notes of a kind, by name."""

    def note(self, kind: str, name: str, text: str) -> None:
        """Write a note; the last writer wins."""

    def forget_note(self, kind: str, name: str) -> None:
        """Delete a note, if it is there."""

    def close(self) -> None: ...
