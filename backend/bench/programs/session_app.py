"""A stand-in for Simple TensorFlow Serving: `python -m backend.bench.programs.session_app SAVED_MODEL PORT`.

It replaces the package, whose last release (0.8.2) does not start: it needs Flask before 2.3, and uWSGI. The steps are the
same: Flask's own server, one request at a time, JSON by the standard library, a TensorFlow 1 session that is fed the values as
they came, and lists made of the arrays.
"""

import json
import sys

import tensorflow as tf
from flask import Flask, Response, jsonify, request


class Session:
    """A SavedModel in a TensorFlow 1 session."""

    def __init__(self, saved_model: str):
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        graph = tf.compat.v1.saved_model.load(self._session, [tf.saved_model.SERVING], saved_model)
        self._signature = graph.signature_def["serving_default"]

    def run(self, data: dict) -> dict:
        inputs = {info.name: data[alias] for alias, info in self._signature.inputs.items()}
        outputs = {alias: info.name for alias, info in self._signature.outputs.items()}
        arrays = self._session.run(list(outputs.values()), feed_dict=inputs)
        return {alias: array.tolist() for alias, array in zip(outputs, arrays, strict=True)}


def create_app(saved_model: str) -> Flask:
    app, session = Flask(__name__), Session(saved_model)

    @app.post("/")
    def inference() -> Response:
        return jsonify(session.run(json.loads(request.data)["data"]))

    @app.get("/health")
    def health() -> str:
        return "healthy"

    return app


if __name__ == "__main__":
    create_app(sys.argv[1]).run("127.0.0.1", int(sys.argv[2]), threaded=False)
