"""JSON in requests and answers."""

from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import orjson
from flask import Response, request

from dogsnap.errors import InvalidArgument, TooLarge
from dogsnap.server.bodies.receiving import read_body
from dogsnap.server.bodies.request_fields import refuse_choice_in_query
from dogsnap.serving.tensors.json_parsing import (
    MOST_LEVELS,
    FromList,
    check_values,
    is_deeper,
    reading,
)
from dogsnap.serving.tensors.json_tensors import most_json_bytes
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.settings import MEBIBYTE, Settings

FLAT_VALUES = 100_000  # of an object of a few fields, counted as `check_values` does


def json_response(value: Any, status: int = 200, answered_by: ServableId | None = None) -> Response:
    """Strict JSON: NaN and infinities, which JSON does not have, become null.

    A header names the version that `answered_by`, for APIs whose bodies have no place for it.
    """
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    response = Response(body, status, mimetype="application/json")
    if answered_by:
        response.headers["X-Dogsnap-Model-Version"] = str(answered_by.version)
    return response


def hold_answer(
    outputs: Mapping[str, np.ndarray], settings: Settings, by_rows: bool = False
) -> None:
    """Count what outputs take as JSON in `max_held_mb` until the answer is sent.
    Raises TooLarge, NoRoom.
    """
    most = most_json_bytes(outputs, by_rows)
    if most > settings.max_answer_mb * MEBIBYTE:
        raise TooLarge(
            f"the answer may take {most / MEBIBYTE:.1f} MiB as JSON; at most "
            f"{settings.max_answer_mb} MiB are given, twice DOGSNAP_MAX_TENSOR_BODY_MB; "
            "send fewer rows at once, or ask by gRPC"
        )
    request.environ["wsgi.input"].hold_answer(most)


def read_tensor_body(settings: Settings) -> bytes:
    """Raises InvalidArgument, TooLarge and others, as `read_body`."""
    refuse_choice_in_query()
    return read_body(settings.max_tensor_body_mb, "DOGSNAP_MAX_TENSOR_BODY_MB")


class TensorDocument(ExitStack):
    """The JSON object of a request with tensors, as `json_parsing.reading` gives it.

    It is many times as large as its arrays, and a large one keeps others
    waiting: whoever makes arrays of `fields` then calls `close`, which empties them.
    """

    def __init__(self, body: bytes, from_list: FromList | None = None):
        super().__init__()
        self.fields = self.enter_context(reading(body, from_list))
        self.callback(self.fields.clear)

    def close_after(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """`read` for the fields and further arguments, which closes the document
        when it has made its arrays.
        """

        def read_and_close(*arguments: Any) -> Any:
            arrays = read(self.fields, *arguments)
            self.close()
            return arrays

        return read_and_close


def parse_json(body: bytes) -> dict[str, Any]:
    """A body that must be one JSON object. Raises InvalidArgument and TooLarge."""
    check_values(body, FLAT_VALUES)
    try:
        value = orjson.loads(body.removeprefix(BOM_UTF8))  # as of .NET
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(
            f"expected a JSON object as body, received {len(body)} bytes that are no JSON: {error}"
        ) from None
    if not isinstance(value, dict):
        raise InvalidArgument(
            f"expected a JSON object as body, received a JSON {type(value).__name__}"
        )
    if is_deeper(value, MOST_LEVELS):
        raise InvalidArgument(
            f"the body is nested deeper than {MOST_LEVELS} levels; send a flat object"
        )
    return value
