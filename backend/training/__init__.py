"""From photos to stored weights: data set, network, training, evaluation. Serving never imports it."""

from backend.tensorflow_import import import_tensorflow

import_tensorflow()
