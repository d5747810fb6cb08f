"""Builds versions that can be served: export, merge, acceleration.

Serving never imports it.
"""

from collections.abc import Callable

from dogsnap.tensorflow_import import import_tensorflow

import_tensorflow()

Report = Callable[[str], None]  # takes a sentence on what is done or left out

# beside the weights: breeds that the version that answers the app knows besides theirs
TAUGHT = "taught.json"
# and the network whose opinion it adds
SECOND_OPINION = "second_opinion.json"
