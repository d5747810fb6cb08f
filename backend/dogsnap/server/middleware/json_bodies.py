"""JSON in requests and answers."""

from codecs import BOM_UTF8
from contextlib import AbstractContextManager
from typing import Any

import orjson
from flask import Response, current_app

from dogsnap.errors import InvalidArgument
from dogsnap.server.middleware.bodies import read_body
from dogsnap.serving.tensors.json_parsing import DEPTH_LIMIT, check_values, is_deeper, reading
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.settings import Settings

JSON_DEPTH = "JSON_DEPTH"  # the setting max_json_depth, in the application's configuration
FLAT_VALUES = 100_000  # of an object of a few fields, counted as `check_values` does


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Strict JSON: NaN and infinities, which JSON does not have, become null."""
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status, headers, mimetype="application/json")


def version_header(servable: ServableId) -> dict[str, str]:
    """The header that names the version that answered, for APIs whose bodies have no place for it."""
    return {"X-Dogsnap-Model-Version": str(servable.version)}


def tensor_fields(settings: Settings) -> AbstractContextManager[dict[str, Any]]:
    """The JSON object of a request with tensors, as `json_parsing.reading` gives it; nothing else of the body is kept."""
    body = read_body(settings.max_tensor_body_mb, "DOGSNAP_MAX_TENSOR_BODY_MB")
    return reading(body, settings.max_json_depth, settings.max_json_values)


def parse_json(body: bytes) -> dict[str, Any]:
    """A body that must be one JSON object. Raises InvalidArgument and TooLarge."""
    check_values(body, FLAT_VALUES, "")
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
    depth = current_app.config[JSON_DEPTH]
    if is_deeper(value, depth):
        raise InvalidArgument(
            f"the body is nested deeper than {DEPTH_LIMIT.format(depth)}; send a flat object"
        )
    return value
