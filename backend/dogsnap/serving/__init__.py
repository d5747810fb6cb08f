"""The core: from a checked request to named breeds. Knows neither Flask nor gRPC."""

from dogsnap.tensorflow_import import import_tensorflow

import_tensorflow()
