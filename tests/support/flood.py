"""A flood of the largest requests: 24 gRPC messages of 87 MiB and 70 photos of 16 MiB at once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import requests

from support.grpc_client import connected, predict_request


def flood(server, model: str, alias: str) -> Counter:
    """How often each answer came: gRPC's names of codes, HTTP's statuses, or what broke a connection."""
    message = predict_request(model, **{alias: np.zeros(87 * 2**18, np.float32)})
    photo = b'{"image": "' + b"A" * (16 * 2**20 - 13) + b'"}'

    def by_grpc() -> object:
        with connected(server.grpc_port) as client:
            try:
                return client.prediction.Predict(message, 60) and "OK"
            except grpc.RpcError as error:
                return f"{error.code().name}"

    def by_http() -> object:
        try:
            return requests.post(f"{server.url}/api/classify", data=photo, timeout=60).status_code
        except requests.RequestException as error:  # refused while the photo was still being sent
            return type(error).__name__

    with ThreadPoolExecutor(94) as pool:
        answers = [pool.submit(ask) for ask in [by_grpc] * 24 + [by_http] * 70]
        return Counter(answer.result() for answer in answers)
