"""The path of a request: predictor, executor and shadow runs."""
