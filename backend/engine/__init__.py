"""The engine: models that run elsewhere, behind TensorFlow Serving's PredictionService, in place of the repository's own.

It opens no door: the HTTP application stands before it as before loaded models.
"""
