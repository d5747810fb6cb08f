"""The gateway: forwards to engines with TensorFlow Serving's PredictionService
instead of running models.
"""
