"""What is asked of the headers of an HTTP request and of the metadata of a gRPC call."""

from typing import Protocol


class Headers(Protocol):
    """Werkzeug's headers and a dict of strings both are."""

    def get(self, name: str, otherwise: str, /) -> str:
        """The header's value, or `otherwise` where it was not sent."""
