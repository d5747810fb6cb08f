"""From photos to stored weights and thresholds: data set, training, scores.

Serving never imports it.
"""

from dogsnap.tensorflow_import import import_tensorflow

import_tensorflow()
