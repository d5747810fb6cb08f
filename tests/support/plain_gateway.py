"""The least that a gateway can be: decode the photo, ask an engine, answer. No limits, checks, metrics or logs.

An application for gunicorn, with the engine's address in the environment variable ENGINE.
"""

import base64
import os

import grpc
from flask import Flask, request
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

app = Flask(__name__)
engine = prediction_service_pb2_grpc.PredictionServiceStub(
    grpc.insecure_channel(os.environ["ENGINE"])
)


@app.post("/")
def classify() -> dict[str, list[float]]:
    photo = base64.b64decode(request.get_json()["image"])
    row = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING, string_val=[photo], tensor_shape={"dim": [{"size": 1}]}
    )
    asked = predict_pb2.PredictRequest(
        model_spec={"name": "inception_v3"}, inputs={"image_bytes": row}
    )
    return {"prediction": list(engine.Predict(asked, 60).outputs["prediction"].float_val)}
