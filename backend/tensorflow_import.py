"""Imports TensorFlow without its log lines and without Keras, which only training needs (saves 1.7 s and 48 MB)."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Lines that TensorFlow's C++ part writes before its own log level takes hold: information (I), and the error (E) that a
# machine without a GPU has no GPU driver.
CHATTER = re.compile(
    rb"^(I\d{4} .*|E\d{4} .*cuda_platform.*|WARNING: All log messages before absl::InitializeLog.*)\n", re.MULTILINE
)


def import_tensorflow() -> None:
    """Import TensorFlow and look for devices once; what standard error receives meanwhile is shown, less the chatter."""
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # its later information and warnings
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            with _keras_left_out():
                import tensorflow as tf

            tf.config.list_physical_devices()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            with suppress(OSError):  # a log on a full disk is no reason not to serve
                os.write(2, CHATTER.sub(b"", caught.read()))


@contextmanager
def _keras_left_out() -> Iterator[None]:
    """TensorFlow's import ends with Keras' (1.7 of 5.6 s and 48 MB, figures and all), unless told that Keras 2 is wanted and
    that is not there. Told so only meanwhile: `import keras` and `tf.keras` work as ever after it.
    """
    name = "TF_USE_LEGACY_KERAS"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
