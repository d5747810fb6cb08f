"""Runs exported versions on photos, to score them, draw the scores and compare
two versions.
"""

from dogsnap.tensorflow_import import import_tensorflow

import_tensorflow()
