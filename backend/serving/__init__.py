"""The room behind the doors: from a checked request to named breeds. Knows neither Flask nor gRPC."""

from backend.quiet import import_tensorflow

import_tensorflow()
