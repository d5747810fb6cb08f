"""A SavedModel behind LitServe, as in its documentation: `python -m bench.programs.litserve_app SAVED_MODEL PORT`."""

import sys

import litserve


class SavedModelApi(litserve.LitAPI):
    """Base64 text in, probabilities out, by the default signature."""

    def __init__(self, saved_model: str):
        super().__init__()
        self._saved_model = saved_model

    def setup(self, device: str) -> None:
        import tensorflow as tf

        self._tf = tf
        self._loaded = tf.saved_model.load(self._saved_model)
        self._predict = self._loaded.signatures["serving_default"]

    def decode_request(self, request: dict) -> list[str]:
        return request["instances"]

    def predict(self, x: list[str]) -> list:
        return self._predict(image=self._tf.constant(x))["prediction"].numpy().tolist()

    def encode_response(self, output: list) -> dict:
        return {"predictions": output}


if __name__ == "__main__":
    server = litserve.LitServer(SavedModelApi(sys.argv[1]), accelerator="cpu", timeout=60)
    server.run(
        host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False, log_level="warning"
    )
