"""A client of TensorFlow Serving's gRPC API that knows nothing of this project: it asks the SavedModel for the input's name.

Usage: grpc_client.py HOST:PORT PHOTO VERSION_DIR
"""

import base64
import sys
from pathlib import Path

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

host, photo, version_dir = sys.argv[1:4]

loaded = tf.saved_model.load(version_dir)
(serving_input,) = loaded.signatures["serving_default"].structured_input_signature[1]
print("Serving function input:", serving_input)

request = predict_pb2.PredictRequest()
request.model_spec.name = "vit"
request.model_spec.signature_name = "serving_default"
text = base64.urlsafe_b64encode(Path(photo).read_bytes()).decode("utf-8")
request.inputs[serving_input].CopyFrom(tf.make_tensor_proto([text]))

with grpc.insecure_channel(host) as channel:
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    answer = stub.Predict(request, 60.0)  # seconds
print(list(answer.outputs["label"].string_val), list(answer.outputs["confidence"].float_val))
print("version", answer.model_spec.version.value)
