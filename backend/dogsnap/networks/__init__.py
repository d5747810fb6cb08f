"""The networks: image in, logits or image out; boxes. Serving never imports it."""

from dogsnap.tensorflow_import import import_tensorflow

import_tensorflow()
