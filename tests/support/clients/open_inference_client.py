"""Triton's own client, over HTTP or gRPC: asks a server of two versions that tell colours apart, and prints what comes as JSON.

A process of its own: its messages have the same names as the server's.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(kind: str, address: str, model: str, photo: Path, image: Path) -> None:
    """`kind`: http or grpc; `image`: float32 (1, h, w, 3) as a .npy file."""
    triton = importlib.import_module(f"tritonclient.{kind}")
    client = triton.InferenceServerClient(address)
    contents = np.array([photo.read_bytes()], object)
    numbers = np.load(image)

    def metadata(version: str) -> Any:
        options = {"as_json": True} if kind == "grpc" else {}
        return client.get_model_metadata(model, version, **options)

    def infer(
        version: str, values: np.ndarray, datatype: str, is_shared: bool = False, **options: Any
    ) -> list:
        tensor = triton.InferInput("image", values.shape, datatype)
        if is_shared:
            tensor.set_shared_memory("region", values.nbytes)
        else:
            tensor.set_data_from_numpy(values)
        result = client.infer(model, [tensor], version, **options)
        found = result.as_numpy("prediction")[0]
        is_text = found.dtype == object
        return [value.decode() if is_text else float(value) for value in found]

    def refusal(version: str, values: np.ndarray, datatype: str, **options: Any) -> str:
        try:
            infer(version, values, datatype, **options)
        except triton.InferenceServerException as error:
            return str(error)
        return ""

    wanted = [triton.InferRequestedOutput("prediction")]
    counted = [triton.InferRequestedOutput("prediction", class_count=2)]
    shared = [triton.InferRequestedOutput("prediction")]
    shared[0].set_shared_memory("region", 64)
    answers = {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "model_ready": [client.is_model_ready(model, version) for version in ("", "1", "9")],
        "server": client.get_server_metadata(**({"as_json": True} if kind == "grpc" else {})),
        "metadata": metadata(""),
        "metadata_1": metadata("1"),
        "numbers": infer("1", numbers, "FP32"),
        "photo_1": infer("1", contents, "BYTES"),
        "photo_2": infer("2", contents, "BYTES", outputs=wanted, request_id="7"),
        "photo": infer("", contents, "BYTES"),
        "best": infer("2", contents, "BYTES", outputs=counted),
        "no_version": refusal("9", contents, "BYTES"),
        "no_photo": refusal("2", np.array([b"no photo"], object), "BYTES"),
        "wrong_type": refusal("1", numbers.astype(np.float64), "FP64"),
        "shared_input": refusal("1", numbers, "FP32", is_shared=True),
        "shared_output": refusal("1", numbers, "FP32", outputs=shared),
    }
    client.close()
    print(json.dumps(answers))


if __name__ == "__main__":
    kind, address, model, photo, image = sys.argv[1:]
    main(kind, address, model, Path(photo), Path(image))
