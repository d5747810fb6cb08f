"""Where a version keeps the network that answers on phones."""

from pathlib import Path

FOLDER = Path("assets.extra") / "phone"
DESCRIPTION = "description.json"
