"""The commands say what they have to say, and nothing of TensorFlow's about drivers."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.early


def _stderr_of(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stderr


def test_what_is_no_chatter_still_comes_through() -> None:
    code = (
        "import os, sys\n"
        "class Loud:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tensorflow': os.write(2, b'I0000 chatter\\nsomething is really wrong\\n')\n"
        "sys.meta_path.insert(0, Loud())\n"
        "import dogsnap.serving"
    )
    assert _stderr_of(code) == "something is really wrong\n"


def test_what_serves_and_evaluates_writes_nothing_and_leaves_keras_out_until_tf_keras_is_asked_for() -> (
    None
):
    code = (
        "import sys, dogsnap.serving, tensorflow as tf; tf.constant(1) + 1\n"
        "assert 'keras' not in sys.modules, 'Keras was imported'\n"
        "assert tf.keras.__version__.startswith('3.'), tf.keras.__version__\n"
        "import dogsnap.training.evaluation.agreement, dogsnap.training.evaluation.exported_version"
    )
    assert _stderr_of(code) == ""
