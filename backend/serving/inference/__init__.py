"""A request's way: the predictor, the executor's queue, and shadow runs."""
