"""Imports TensorFlow without its log lines and without Keras, which only
training needs (saves 1.7 s and 48 MB).
"""

import os
import re
import sys
import tempfile
from contextlib import suppress

# Lines that TensorFlow's C++ part writes before its own log level takes hold:
# information (I), and the error (E) that a machine without a GPU has no GPU driver.
CHATTER = re.compile(
    rb"^(I\d{4} .*|E\d{4} .*cuda_platform.*|WARNING: All log messages before absl::InitializeLog.*)\n",
    re.MULTILINE,
)


def import_tensorflow() -> None:
    """Import TensorFlow and list its devices; prints what it writes to standard
    error meanwhile, except known noise.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # hides later information and warnings
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            _import_without_keras()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            with suppress(OSError):  # the log's disk may be full
                os.write(2, CHATTER.sub(b"", caught.read()))


def _import_without_keras() -> None:
    """Import TensorFlow without Keras (saves 1.7 of 5.6 s and 48 MB):
    TF_USE_LEGACY_KERAS asks for Keras 2, which is not installed. Afterwards
    `import keras` and `tf.keras` work as usual.
    """
    name = "TF_USE_LEGACY_KERAS"
    before = os.environ.pop(name, None)
    os.environ[name] = "1"
    try:
        import tensorflow as tf

        tf.config.list_physical_devices()
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
