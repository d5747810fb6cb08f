"""The OpenAPI 3.1 document at /openapi.json, and the page /docs to try it.

`openapi.json` beside this file is the document; limits and version are filled in.
"""

from pathlib import Path
from typing import Any

import orjson
from flask import Blueprint, Response

from dogsnap import __version__
from dogsnap.server.bodies.json_bodies import json_response
from dogsnap.server.protocols.web_app import add_page
from dogsnap.settings import MEBIBYTE, Settings, table, variable

DOCUMENT = Path(__file__).with_name("openapi.json")
LIMITS = (
    "max_body_mb",
    "max_tensor_body_mb",
    "max_photo_pixels",
)


def describe(settings: Settings) -> dict[str, Any]:
    """The document of a server with these settings."""
    document = orjson.loads(DOCUMENT.read_bytes())
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
