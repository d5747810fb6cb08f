"""Requests of TensorFlow Serving's REST API, sent byte by byte as they are written."""

import json
from typing import Any

import requests
from contract_table import Case


def raw(server: Any, method: str, path: str, body: bytes = b"", headers: Any = None) -> requests.Response:
    """A request whose path is sent exactly as written."""
    request = requests.Request(method, server.url, data=body, headers=headers).prepare()
    request.url = server.url + path
    with requests.Session() as session:
        return session.send(request, timeout=60)


def ask(server: Any, case: Case) -> requests.Response:
    body = case.body if isinstance(case.body, bytes) else b"" if case.body is None else json.dumps(case.body).encode()
    return raw(server, case.method, f"/v1/models/{case.path}", body)
