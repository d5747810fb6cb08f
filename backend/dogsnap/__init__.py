"""dogsnap: tells a dog's breed from a photo, and serves the model behind it.

`dogsnap.load("models/inception_v3/3").classify("dog.jpg")` needs no server.
"""

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dogsnap.local_model import LocalModel

__version__ = version("dogsnap")


def load(version: str | Path) -> "LocalModel":
    """Load a version folder, such as models/inception_v3/3, or of the folder of
    a model the largest version.

    Raises `dogsnap.errors.NotFound` where there is none, FailedPrecondition where
    it cannot be loaded, and InvalidArgument for a URL.
    """
    from dogsnap.local_model import load  # which imports TensorFlow

    return load(version)
