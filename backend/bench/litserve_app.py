"""A SavedModel behind LitServe, as in its documentation: `litserve_app.py
SAVED_MODEL PORT`.
"""

import sys
from typing import Any

import litserve
import tensorflow as tf


class SavedModelApi(litserve.LitAPI):
    """Base64 text in, probabilities out, by the default signature."""

    def setup(self, device: str) -> None:
        self.loaded = tf.saved_model.load(sys.argv[1])
        self.run = self.loaded.signatures["serving_default"]

    def decode_request(self, request: dict[str, Any]) -> list[str]:
        return request["instances"]

    def predict(self, texts: list[str]) -> list[list[float]]:
        return self.run(image=tf.constant(texts))["prediction"].numpy().tolist()

    def encode_response(self, output: list[list[float]]) -> dict[str, Any]:
        return {"predictions": output}


if __name__ == "__main__":
    server = litserve.LitServer(SavedModelApi(), accelerator="cpu", timeout=60)
    port = int(sys.argv[2])
    server.run(host="127.0.0.1", port=port, generate_client_file=False, log_level="warning")
