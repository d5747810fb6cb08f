"""Answers of a server that refuses a request."""

from collections.abc import Container

import requests

from support.process_readings import most_seconds


def assert_refused(response: requests.Response, status: int, *sentences: str) -> None:
    """The answer has this status and the one error body, with the request's id and each of the sentences."""
    body = response.json()
    assert (response.status_code, set(body)) == (status, {"error", "request_id"}), response.text
    assert body["request_id"] == response.headers["X-Request-Id"]
    for sentence in sentences:
        assert sentence in body["error"], body["error"]


def assert_clear(response: requests.Response, statuses: Container[int] = range(200, 500)) -> None:
    """The answer came in time, has one of these statuses and, where it refuses, the one error body."""
    assert response.elapsed.total_seconds() < most_seconds(), f"it took {response.elapsed}"
    assert response.status_code in statuses, f"status {response.status_code}: {response.text[:300]}"
    if response.status_code >= 400:
        body = response.json()
        assert (set(body), all(body.values())) == ({"error", "request_id"}, True), body
