"""dogsnap: tells a dog's breed from a photo, and serves the model behind it."""

from importlib.metadata import version

__version__ = version("dogsnap")
