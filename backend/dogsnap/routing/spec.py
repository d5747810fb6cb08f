"""What a request asks for: a model, by version, label or default."""

from dataclasses import dataclass

from dogsnap.errors import InvalidArgument

MAX_INT64 = 2**63 - 1  # the largest version number, as TensorFlow Serving's


@dataclass(frozen=True)
class ModelSpec:
    """A model by version, label or default.

    In a split, a `sticky_key` is always on the same side.
    """

    name: str
    version: int | None = None
    label: str | None = None
    sticky_key: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidArgument("ModelSpec has no name specified.")
        if self.version is not None and self.label is not None:
            raise InvalidArgument(
                f"expected a version or a label, received both: {self.version} and {self.label}"
            )
