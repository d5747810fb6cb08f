"""Makes what serving loads: data set, network, training, evaluation, export, merge. Serving never imports it."""
