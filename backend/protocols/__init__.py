"""One file per protocol: translates requests in, calls the predictor, translates answers out."""
