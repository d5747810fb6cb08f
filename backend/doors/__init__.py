"""One file per protocol: translate in, call the predictor, translate out. No logic."""
