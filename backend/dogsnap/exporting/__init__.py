"""Builds versions that can be served: export, merge, acceleration.

Serving never imports it.
"""

from dogsnap.tensorflow_import import import_tensorflow

import_tensorflow()

# beside the weights: breeds that the version that answers the app knows besides theirs
TAUGHT = "taught.json"
