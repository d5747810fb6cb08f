"""The OpenAPI 3.1 document at /openapi.json, the page /docs to try it, and JSON
bodies that fit its schemas.

`openapi.json` beside this file is the document; limits and version are filled in.
"""

from functools import cache
from pathlib import Path
from typing import Any

import orjson
from flask import Blueprint, Response, request

from dogsnap import __version__
from dogsnap.errors import InvalidArgument
from dogsnap.schemas import validator_type
from dogsnap.server.bodies.json_bodies import json_response, parse_json
from dogsnap.server.bodies.receiving import read_body
from dogsnap.server.protocols.web_app import add_page
from dogsnap.settings import MEBIBYTE, Settings, table, variable

# Read with the code: while the server runs, another release may replace the file.
DOCUMENT = Path(__file__).with_name("openapi.json").read_bytes()
LIMITS = (
    "max_body_mb",
    "max_tensor_body_mb",
    "max_photo_pixels",
)


# Of values in JSON, what a field has to be.
KINDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a JSON object",
    "null": "null for none",
}


@cache
def read_schemas() -> dict[str, dict[str, Any]]:
    """The schemas of JSON objects in requests, by endpoint."""
    schemas = {}
    for methods in orjson.loads(DOCUMENT)["paths"].values():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema")
            if schema is not None:
                schemas[operation["operationId"]] = schema
    return schemas


def read_fields(is_empty_allowed: bool = False) -> dict[str, Any]:
    """The fields of this request's body, a JSON object; a text that is null is "".

    Raises TooLarge, and InvalidArgument for a missing, unknown or wrong one.
    """
    schema = read_schemas()[request.endpoint or ""]
    known = schema["properties"]
    required = schema.get("required", ())
    body = read_body(1, "a fixed limit")
    fields = {} if is_empty_allowed and not body else parse_json(body)
    if beside := sorted(set(request.args) & set(known)):
        raise InvalidArgument(
            f"expected {', '.join(beside)} in the JSON body, received in the query; send it there"
        )
    missing = sorted(set(required) - set(fields))
    unknown = sorted(set(fields) - set(known))
    if missing or unknown:
        raise InvalidArgument(
            f"expected the fields {', '.join(sorted(known)) or 'none'}; "
            f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
        )
    for name, value in fields.items():
        if not validator_type()(known[name]).is_valid(value):
            expected = known[name].get("description") or _name_kinds(known[name]["type"])
            raise InvalidArgument(f"{name} is {value!r:.100}; expected {expected}")
        if value is None and "string" in known[name]["type"]:
            fields[name] = ""
    return fields


def _name_kinds(kinds: str | list[str]) -> str:
    """What `type` of a schema allows."""
    return ", or ".join(KINDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))


def describe(settings: Settings) -> dict[str, Any]:
    """The document of a server with these settings."""
    document = orjson.loads(DOCUMENT)
    document["info"]["version"] = __version__
    document["info"]["description"] += "".join(f"\n- {line}" for line in _limits(settings))
    photo = document["components"]["schemas"]["PhotoText"]
    photo["maxLength"] = settings.max_body_mb * MEBIBYTE
    if not settings.content_check:
        del document["paths"]["/api/classify"]["post"]["responses"]["422"]
    return document


def _limits(settings: Settings) -> list[str]:
    """One line for each of LIMITS."""
    helps = {row.name: row.metadata["help"] for row in table()}
    lines = []
    for name in LIMITS:
        lines.append(f"{helps[name]}: {getattr(settings, name)} (`{variable(name)}`)")
    return lines


def blueprint(settings: Settings) -> Blueprint:
    routes = Blueprint("openapi", __name__)

    @routes.get("/openapi.json")
    def document() -> Response:
        return json_response(describe(settings))

    add_page(routes, "docs")
    return routes
