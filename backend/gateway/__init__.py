"""The gateway: models that run elsewhere, behind TensorFlow Serving's PredictionService, in place of the repository's own."""
