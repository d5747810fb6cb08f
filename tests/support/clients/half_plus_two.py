"""A gRPC client of half_plus_two, as the users of TensorFlow Serving write theirs; run as a program with the server's address.

It knows nothing of this project.
"""

import sys

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

SECONDS = 60.0


def main() -> None:
    channel = grpc.insecure_channel(sys.argv[1])
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

    request = predict_pb2.PredictRequest()
    request.model_spec.name = "half_plus_two"
    request.model_spec.signature_name = "serving_default"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0, 2.0, 5.0], shape=[3]))
    result = stub.Predict(request, SECONDS)
    print("predict", list(result.outputs["y"].float_val), result.model_spec.version.value)

    metadata = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    metadata.model_spec.name = "half_plus_two"
    signatures = get_model_metadata_pb2.SignatureDefMap()
    stub.GetModelMetadata(metadata, SECONDS).metadata["signature_def"].Unpack(signatures)
    print("metadata", sorted(signatures.signature_def["serving_default"].inputs))

    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = "half_plus_two"
    (version,) = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(status, SECONDS).model_version_status
    print("status", version.version, get_model_status_pb2.ModelVersionStatus.State.Name(version.state))


if __name__ == "__main__":
    main()
