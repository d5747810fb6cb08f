"""Triton's own client, over HTTP or gRPC: asks and administers the repository of a server, and prints what comes as JSON.

A process of its own: its messages have the same names as the server's.
"""

import importlib
import json
import sys
from typing import Any


def main(kind: str, address: str, token: str, *steps: str) -> None:
    """`kind`: http or grpc. A step is index, load=NAME, unload=NAME or load_with_config=NAME."""
    triton = importlib.import_module(f"tritonclient.{kind}")
    client = triton.InferenceServerClient(
        address, **({"network_timeout": 120.0} if kind == "http" else {})
    )
    headers = {"authorization": f"Bearer {token}"} if token else {}

    def act(step: str) -> Any:
        action, _, name = step.partition("=")
        if action == "index":
            options = {"as_json": True} if kind == "grpc" else {}
            found = client.get_model_repository_index(headers=headers, **options)
            return found.get("models", []) if kind == "grpc" else found
        if action == "load_with_config":
            return client.load_model(name, headers=headers, config='{"backend": "python"}')
        change = client.load_model if action == "load" else client.unload_model
        return change(name, headers=headers)

    outcomes = []
    for step in steps:
        try:
            outcomes.append(act(step))
        except triton.InferenceServerException as error:
            outcomes.append(str(error))
    client.close()
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
