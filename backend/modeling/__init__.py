"""Makes what serving loads: data set, network, training, evaluation, export, merge. Serving never imports it."""

from backend.quiet import import_tensorflow

import_tensorflow()
