"""Asks and switches the small model of the fixture `models`."""

import requests

from support.administration import with_token

PATH = "/v1/models/half:predict"


def answer(server, session=requests, path: str = PATH) -> float:
    response = session.post(f"{server.url}{path}", json={"instances": [2.0]}, timeout=60)
    assert response.status_code == 200, response.text
    return response.json()["predictions"][0]


def switched(server, label: str, version: int) -> requests.Response:
    url = f"{server.url}/api/admin/models/half/labels/{label}"
    return requests.post(url, json={"version": version}, headers=with_token(server), timeout=60)
