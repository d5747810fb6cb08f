"""The gateway: forwards to engines with TensorFlow Serving's PredictionService in place of running models."""
