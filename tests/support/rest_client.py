"""Requests of TensorFlow Serving's REST API, sent byte by byte as they are written."""

import json
from typing import Any

import pytest
import requests

from support.contract_table import Case
from support.refusals import assert_refused


def raw(
    server: Any, method: str, path: str, body: bytes = b"", headers: Any = None
) -> requests.Response:
    """A request whose path is sent exactly as written."""
    request = requests.Request(method, server.url, data=body, headers=headers).prepare()
    request.url = server.url + path
    with requests.Session() as session:
        return session.send(request, timeout=60)


def assert_contract(server: Any, case: Case) -> None:
    """The server answers as the case says."""
    body = (
        case.body
        if isinstance(case.body, bytes)
        else b""
        if case.body is None
        else json.dumps(case.body).encode()
    )
    response = raw(server, case.method, f"/v1/models/{case.path}", body)
    assert response.headers["Content-Type"] == "application/json"
    if case.status == 200:
        assert response.status_code == 200, response.text
        assert json.loads(response.text, parse_constant=pytest.fail) == case.answer
    else:
        assert_refused(response, case.status, case.error)
