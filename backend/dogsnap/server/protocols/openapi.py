"""The OpenAPI 3.1 document at /openapi.json, and the page /docs to try it.

Paths come from the routes, fields from the tables that requests are checked with, limits from the settings.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask, Response, current_app, redirect, request, send_from_directory
from werkzeug.routing import Rule

from dogsnap import __version__
from dogsnap.server.middleware.access_control import KEY_HEADER
from dogsnap.server.middleware.json_bodies import json_response
from dogsnap.server.protocols import (
    admin,
    app_api,
    console,
    generated_clients,
    open_inference,
)
from dogsnap.server.protocols.fields import TEXT, WHOLE, Body, Kind
from dogsnap.server.protocols.web_app import HEADERS
from dogsnap.serving.answers.levels import Level
from dogsnap.settings import MEBIBYTE, Settings, table, variable

PAGE = Path(__file__).parents[1] / "pages" / "docs"
JSON, TEXT_TYPE, HTML, CSV = "application/json", "text/plain", "text/html", "text/csv"
LIMITS = (
    "max_body_mb",
    "max_tensor_body_mb",
    "max_photo_pixels",
    "max_photos",
    "max_request_pixels",
    "max_json_depth",
    "max_json_values",
)
# How the paths of the document begin, in its order: those of the app, TensorFlow Serving's, administration, all others.
ORDER = (
    "/api/classify",
    "/api/breeds",
    "/api/models",
    "/api/upright",
    "/api/feedback",
    "/v1/",
    "/v2",
    "/api/admin",
    "",
)
# Who uses the paths that begin so.
USERS = {
    "/api/admin": "administrators",
    "/api/": "the app and its clients",
    "/v1/": "clients of TensorFlow Serving",
    "/v2": "clients of the Open Inference Protocol",
    "/console": "administrators",
    "": "operation, pages and Simple TensorFlow Serving",
}
PARAMETER = re.compile(r"<(?:(\w+)(?:\((.*?)\))?:)?(\w+)>")

Schema = Mapping[str, Any]


def object_with(
    optional: Mapping[str, Schema] | None = None, /, **properties: Schema
) -> dict[str, Any]:
    """An object that has at least these, and perhaps the optional ones."""
    return {
        "type": "object",
        "properties": {**properties, **(optional or {})},
        "required": list(properties),
    }


def list_of(items: Schema) -> dict[str, Any]:
    return {"type": "array", "items": items}


def nullable(schema: Schema, text: str) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"], "description": text}


NAME, NUMBER, FLAG, ANYTHING = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {}
OBJECT, NOT_EMPTY = {"type": "object"}, {"type": "string", "minLength": 1}
ERROR = object_with(error=NOT_EMPTY, request_id=NOT_EMPTY)
SHARE = {"type": "number", "minimum": 0, "maximum": 1.000001}
BREED = object_with(id=NAME, name=NAME, name_zh=NAME, probability=SHARE)
GROUP = object_with(
    id=NAME,
    name=NAME,
    name_zh=NAME,
    members=list_of(NAME),
    probability=SHARE,
    difference=NAME,
    difference_zh=NAME,
)
LEVELS = {
    "enum": [level.value for level in Level],
    "description": "what the answer claims: one breed; a group of look-alikes; that the breed is one of `set`; not sure; "
    "a dog of a breed that the model does not know; no dog",
}
FEEDBACK_ID = nullable(
    NAME, "what POST /api/feedback takes as request_id; where the server takes feedback"
)
NAMED: dict[str, Schema] = {
    "confident": {"type": ["boolean", "null"]},
    "level": LEVELS,
    "breeds": list_of(BREED),
    "group": nullable(
        GROUP,
        "the look-alikes to which the first breed belongs, their probability in all, and how to tell them apart",
    ),
    "set": nullable(list_of(NAME), "ids of the breeds of which one is right in 95 % of photos"),
    "box": nullable(
        {**list_of(SHARE), "minItems": 4, "maxItems": 4},
        "where the dog is: left, top, right, bottom, as fractions of the upright photo",
    ),
}
DOGS = {
    **list_of(object_with({"feedback_id": FEEDBACK_ID}, **NAMED)),
    "description": "each dog, from the largest to the smallest; the fields outside are those of the first",
}
ASKED = "whether to ask the user if the first breed is right: only these answers count in a comparison of versions"
TURNED = {
    "enum": [90, 180, 270],
    "description": "degrees clockwise by which the upright photo was turned for this answer; absent where it was not",
}
CLASSIFICATION = object_with(
    {
        "feedback_id": FEEDBACK_ID,
        "feedback_asked": {**FLAG, "description": ASKED},
        "turned": TURNED,
    },
    model=object_with(name=NAME, version=NUMBER),
    dog={"type": ["boolean", "null"]},
    **NAMED,
    dogs=DOGS,
    more_dogs={**FLAG, "description": "whether the photo shows more dogs than these"},
    request_id=NAME,
)
NOTE = "`note` says why it does not count in a comparison of versions, e.g. as the second vote of the same phone"
CLASSES = nullable(
    NUMBER, "how many breeds it names: 0, and /api/classify refuses it; null: not known yet"
)
VERSION = object_with(version=NUMBER, state=NAME, classes=CLASSES)
MODEL = object_with(name=NAME, versions=list_of(VERSION), labels=OBJECT)
EITHER = {"type": ["object", "null"]}
STATUS = object_with(
    model_version_status=list_of(object_with(version=NAME, state=NAME, status=OBJECT))
)
ALIVE, SWITCHED = object_with(status=NAME), object_with(switch=EITHER, model=EITHER)
BODIES = {**admin.BODIES, **app_api.BODIES, **console.BODIES}
SUMMARIES = {
    "label": "point a label to a version, or remove it (null)",
    "default": "choose the default version; null: the largest",
    "load": "load or unload a version",
    "split": "send a share of the requests to another version",
    "shadow": "send copies of the photos to a version, which does not answer",
    "undo": "undo the last switch, or one by its id",
}
# A tensor as JSON: a value, {"b64": bytes} or lists of them.
VALUE = {"description": 'a value, {"b64": "<base64>"} for bytes, or lists of equal sizes of them'}


@dataclass(frozen=True)
class Operation:
    """Summary, 200 response, specific error statuses, and input of an endpoint."""

    summary: str
    answer: Schema | None = None
    refusals: tuple[int, ...] = ()
    kind: str = JSON
    bodies: Mapping[str, Schema] = field(default_factory=dict)
    query: Mapping[str, Kind] = field(default_factory=dict)


def photo_bodies(
    settings: Settings, kinds: Mapping[str, Kind] = app_api.FIELDS
) -> dict[str, Schema]:
    """A photo with its fields as JSON or as a form, or as the raw body."""
    text = {
        "type": "string",
        "minLength": 1,
        "maxLength": settings.max_body_mb * MEBIBYTE,
        "contentEncoding": "base64",
    }
    fields = {name: dict(kind.schema) for name, kind in kinds.items()}
    form = {name: {"type": "string"} for name in kinds}
    file = {"type": "string", "contentMediaType": "image/*"}
    return {
        JSON: {"type": "object", "properties": {"image": text, **fields}, "required": ["image"]},
        "multipart/form-data": {
            "type": "object",
            "properties": {"image": file, **form},
            "required": ["image"],
        },
        "image/*": {},
    }


def operations(settings: Settings) -> dict[str, Operation]:
    """By Flask endpoint; those of TensorFlow Serving's API are in `rest_operations`."""
    photo_refusals = (400, 413, 415, *((422,) if settings.content_check else ()))
    simple = object_with({"model_name": TEXT.schema, "model_version": WHOLE.schema}, data=OBJECT)
    signature = {"version": WHOLE, "signature_name": TEXT}
    language = Kind(TEXT.check, {"enum": list(generated_clients.LANGUAGES)})
    return {
        **{
            f"admin.{name}": Operation(text, SWITCHED, (400, 403, 404, 415))
            for name, text in SUMMARIES.items()
        },
        "health.healthz": Operation("liveness", ALIVE),
        "health.readyz": Operation(
            "readiness: whether every model that is configured or was ready before has an available version",
            ALIVE,
        ),
        "health.prometheus": Operation("metrics for Prometheus", kind=TEXT_TYPE),
        "admin.models": Operation("status of all models", object_with(models=list_of({})), (403,)),
        "admin.one_model": Operation("status of one model", object_with(model=OBJECT), (403, 404)),
        "admin.switches": Operation(
            "the log of switches, newest first",
            object_with(switches=list_of(OBJECT)),
            (403,),
            query={"model": TEXT},
        ),
        "admin.verdict": Operation(
            "which version is better, by what people said",
            object_with(model=NAME, feedback=EITHER, shadow=EITHER),
            (403, 404),
            query={"model": TEXT},
        ),
        "admin.feedback_csv": Operation("the table of feedback", None, (403,), CSV),
        "console.page": Operation("the console", kind=HTML),
        "console.file": Operation("its script and style", kind="*/*"),
        "console.code": Operation(
            "a code for the link to the console, which is taken once",
            object_with(code=NAME),
            (403,),
        ),
        "console.login": Operation("the token, for a code", object_with(token=NAME), (401,)),
        "console.models": Operation("the part of the console that refreshes", None, (403,), HTML),
        "api.classify": Operation(
            "name the breed in a photo",
            CLASSIFICATION,
            (404, *photo_refusals),
            bodies=photo_bodies(settings),
            query=app_api.FIELDS,
        ),
        "api.upright": Operation(
            "a small upright JPEG of a photo, as base64, for apps that cannot show its format; no photo is stored",
            object_with(image=NAME, request_id=NAME),
            (400, 413, 415),
            bodies=photo_bodies(settings, {}),
        ),
        "api.give_feedback": Operation(
            "say what an answer was about: that it is right, or which breed it is; `text` (at most 60 characters) names a breed "
            "that is not known, with the verdict `other`",
            object_with(kept=FLAG, request_id=NAME) | {"description": NOTE},
            (400, 404, 409),
        ),
        "api.forget_feedback": Operation(
            "remove the feedback on answers", object_with(forgotten=NUMBER, request_id=NAME), (400,)
        ),
        "api.breeds": Operation(
            "the breeds with their descriptions", object_with(breeds=list_of({}))
        ),
        "api.models": Operation(
            "models with versions, states (FAILED has its reason in `error`) and labels",
            object_with(models=list_of(MODEL)),
        ),
        "simple.infer": Operation(
            "run a model, in the form of Simple TensorFlow Serving",
            OBJECT,
            (400, 404, 413, 415),
            bodies={JSON: simple},
        ),
        "simple.health": Operation("liveness", kind=TEXT_TYPE),
        "simple.models": Operation(
            "models with their default signatures", list_of(object_with(model_name=NAME))
        ),
        "simple.gen_json": Operation(
            "example data for a signature", ANYTHING, (400, 404), query=signature
        ),
        "simple.gen_client": Operation(
            "a client for a signature, in one of four languages",
            None,
            (400, 404),
            TEXT_TYPE,
            query={"language": language, **signature},
        ),
        **open_inference_operations(),
        "web.page": Operation("the app", kind="*/*"),
        "openapi.document": Operation("this document", object_with(openapi=NAME)),
        "openapi.page": Operation("a page to try it", kind=HTML),
        "openapi.file": Operation("its script and style", kind="*/*"),
    }


def open_inference_operations() -> dict[str, Operation]:
    """Those under /v2; bodies with binary tensors behind the JSON have no schema."""
    tensor = object_with(
        {"data": ANYTHING, "parameters": OBJECT},
        name=NAME,
        datatype={"enum": list(open_inference.TYPES)},
        shape=list_of({"type": "integer", "minimum": 0}),
    )
    asked = object_with(
        {"id": NAME, "parameters": OBJECT, "outputs": list_of(object_with(name=NAME))},
        inputs=list_of(tensor),
    )
    described = object_with(name=NAME, versions=list_of(NAME), inputs=list_of({}))
    answered = object_with(model_name=NAME, model_version=NAME, outputs=list_of({}))
    return {
        "open_inference.server": Operation("name and extensions", object_with(name=NAME)),
        "open_inference.live": Operation("liveness", object_with(live=FLAG)),
        "open_inference.ready": Operation("readiness", object_with(ready=FLAG)),
        "open_inference.model": Operation("inputs and outputs of a version", described, (400, 404)),
        "open_inference.model_ready": Operation(
            "whether a version answers", object_with(ready=FLAG), (400, 404)
        ),
        "open_inference.infer": Operation(
            "run a version on tensors, in the Open Inference Protocol (KServe, Triton, MLServer); an image input takes the photo "
            "itself, as BYTES",
            answered,
            (400, 404, 413, 415),
            bodies={JSON: asked},
        ),
    }


def rest_operations() -> dict[tuple[str, str], Operation]:
    """By HTTP method and the end of the path, which follows the model and its version or label."""
    predicted = {"anyOf": [object_with(predictions=ANYTHING), object_with(outputs=ANYTHING)]}
    tensors = {
        "signature_name": NAME,
        "instances": {**list_of(VALUE), "minItems": 1},
        "inputs": VALUE,
    }
    either = [{"required": ["instances"]}, {"required": ["inputs"]}]
    examples = list_of({**OBJECT, "propertyNames": {"minLength": 1}})
    on_examples = Operation(
        "run a signature on tf.Examples",
        object_with(results={"type": "array"}),
        (400, 404),
        bodies={JSON: object_with({"signature_name": NAME}, examples=examples)},
    )
    return {
        ("get", ""): Operation("states of a model's versions", STATUS, (400, 404)),
        ("get", "/metadata"): Operation(
            "signatures of a version", object_with(metadata=OBJECT), (404,)
        ),
        ("post", ":classify"): on_examples,
        ("post", ":regress"): on_examples,
        ("post", ":predict"): Operation(
            "run a signature on tensors",
            predicted,
            (400, 404, 413),
            bodies={JSON: {**OBJECT, "properties": tensors, "oneOf": either}},
        ),
    }


def describe(app: Flask, settings: Settings) -> dict[str, Any]:
    known = operations(settings)
    paths: dict[str, dict[str, Any]] = {}
    named: set[str] = set()
    for rule in app.url_map.iter_rules():
        if rule.endpoint in known:
            parameters = {
                name: _schema(kind, choices) for kind, choices, name in PARAMETER.findall(rule.rule)
            }
            operation_id = rule.endpoint + (f"-{rule.rule}" if rule.endpoint in named else "")
            named.add(rule.endpoint)
            for method in sorted({"GET", "POST"} & set(rule.methods or ())):
                described = _operation(
                    operation_id, known[rule.endpoint], parameters, BODIES.get(rule.endpoint)
                )
                paths.setdefault(path_of(rule), {})[method.lower()] = described
    model = {"name": {"type": "string", "pattern": "^[^/:]+$"}}
    ways = {"": {}, "/versions/{version}": {"version": NUMBER}, "/labels/{label}": {"label": NAME}}
    for which, parameter in ways.items():
        for (method, end), operation in rest_operations().items():
            operation_id = "-".join(["rest", end.strip("/:") or "status", *parameter])
            described = _operation(operation_id, operation, {**model, **parameter})
            paths.setdefault(f"/v1/models/{{name}}{which}{end}", {})[method] = described
    rows = {row.name: row.metadata["help"] for row in table()}
    limits = [f"- {rows[name]}: {getattr(settings, name)} (`{variable(name)}`)" for name in LIMITS]
    description = "\n".join(["Limits of this server, each with its setting:", *limits])
    return {
        "openapi": "3.1.0",
        "info": {"title": "dogsnap", "version": __version__, "description": description},
        "servers": [{"url": "."}],  # beside this document, below the path of a proxy, too
        "paths": {path: _tagged(path, paths[path]) for path in sorted(paths, key=_by_use)},
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": KEY_HEADER},
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{}, {"key": []}, {"token": []}],
    }


def _tagged(path: str, operations: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The operations of a path with the group of users that they are for."""
    tag = next(name for start, name in USERS.items() if path.startswith(start))
    return {method: {**operation, "tags": [tag]} for method, operation in operations.items()}


def _by_use(path: str) -> tuple[int, str]:
    return next(place for place, start in enumerate(ORDER) if path.startswith(start)), path


def path_of(rule: Rule) -> str:
    """A route in the form of OpenAPI: /a/<int:b> -> /a/{b}."""
    return PARAMETER.sub(r"{\3}", rule.rule)


def _schema(converter: str, choices: str) -> Schema:
    if converter == "any":
        return {"enum": [choice.strip(" '\"") for choice in choices.split(",")]}
    return {"type": "integer", "minimum": 0} if converter == "int" else NOT_EMPTY


def _operation(
    operation_id: str, operation: Operation, path: Mapping[str, Schema], checked: Body | None = None
) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in path.items()
    ]
    parameters += [
        {"name": name, "in": "query", "schema": dict(kind.schema)}
        for name, kind in operation.query.items()
    ]
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    sentence = "the request is refused: what was expected, what was received, what to do"
    answer = {operation.kind: {} if operation.answer is None else {"schema": operation.answer}}
    responses = {
        "200": {"description": operation.summary, "content": answer},
        **{
            str(status): {"description": sentence, "content": error}
            for status in operation.refusals
        },
        "default": {"description": "any other error, such as 401, 429 or 503", "content": error},
    }
    described = {"operationId": operation_id, "summary": operation.summary, "responses": responses}
    if parameters:
        described["parameters"] = parameters
    bodies = {JSON: checked.schema()} if checked else operation.bodies
    if bodies:
        content = {kind: {"schema": schema} for kind, schema in bodies.items()}
        described["requestBody"] = {"required": True, "content": content}
    return described


def blueprint(settings: Settings) -> Blueprint:
    routes = Blueprint("openapi", __name__)

    @routes.get("/openapi.json")
    def document() -> Response:
        return json_response(describe(current_app, settings))

    @routes.get("/docs", strict_slashes=False)
    def page() -> Any:
        if request.path.endswith("/"):
            return redirect("../docs")  # the page's addresses are relative to this one
        return file("page.html")

    @routes.get("/docs/<any('docs.js', 'docs.css'):name>")
    def file(name: str) -> Response:
        response = send_from_directory(PAGE, name)
        response.headers.update(HEADERS)
        return response

    return routes
