"""How the shipped network and its numbers were made: run `python -m lab` in the checkout.

It imports the package, never the other way round, is in no wheel, and promises
no compatibility.
"""

from dogsnap.tensorflow_import import import_tensorflow

import_tensorflow()
