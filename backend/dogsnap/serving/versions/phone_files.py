"""Where a version keeps the network that answers on phones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path("assets.extra") / "phone"
DESCRIPTION = "description.json"


def parts_of(stated: Mapping[str, Any]) -> Sequence[float]:
    """The shares of a photo's width and height, around its middle, that the
    network looks at one by one: in what was written before there were parts,
    the whole.
    """
    parts: Sequence[float] = stated.get("parts", (1.0,))
    return parts
