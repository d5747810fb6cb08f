"""The administration API under /api/admin: versions, switches and their log."""

from typing import Any

from flask import Blueprint, Response, request

from backend.errors import InvalidArgument, UnsupportedMediaType
from backend.middleware.admin_auth import check_access
from backend.middleware.http_messages import json_response, parse_json, read_body
from backend.protocols.fields import PERCENT, TEXT, VERSION, Body
from backend.serving.administration.overview import overview
from backend.serving.administration.switchboard import ANY, Switchboard, checked_who
from backend.serving.inference.predictor import Predictor
from backend.serving.traffic.choices import Split
from backend.serving.traffic.switch_log import Switch, Who
from backend.settings import Settings

SHOWN_SWITCHES = 50
# What the paths that switch take, by the name of their function.
BODIES = {
    "label": Body({"version": VERSION}, {"from": VERSION, "by": TEXT}),
    "default": Body({"version": VERSION}, {"by": TEXT}),
    "load": Body({}, {"by": TEXT}),
    "split": Body({"version": VERSION, "percent": PERCENT}, {"label": TEXT, "by": TEXT}),
    "shadow": Body({"version": VERSION}, {"by": TEXT}),
    "undo": Body({}, {"id": VERSION, "model": TEXT, "by": TEXT}),
}


def blueprint(settings: Settings, predictor: Predictor) -> Blueprint:
    door = Blueprint("admin", __name__, url_prefix="/api/admin")
    board = Switchboard(predictor.repository)
    door.before_request(lambda: check_access(settings, request.remote_addr or "", request.headers))
    door.after_request(_keep_nowhere)

    @door.get("/models")
    def models() -> Response:
        return json_response(
            {"default_model": predictor.default_model(), "models": overview(predictor, predictor.repository.models())}
        )

    # The names that a configuration gives may hold slashes, so that these are paths.
    @door.get("/models/<path:model>")
    def one_model(model: str) -> Response:
        return json_response(_state(predictor, model))

    @door.post("/models/<path:model>/labels/<path:label>")
    def label(model: str, label: str) -> Response:
        fields, by = _fields()
        switch = board.label(model, label, fields["version"], by, fields.get("from", ANY))
        return _done(predictor, model, switch)

    @door.post("/models/<path:model>/default")
    def default(model: str) -> Response:
        fields, by = _fields()
        return _done(predictor, model, board.default(model, fields["version"], by))

    @door.post("/models/<path:model>/versions/<int:version>/<any(load, unload):what>")
    def load(model: str, version: int, what: str) -> Response:
        _, by = _fields()
        return _done(predictor, model, board.load(model, version, what == "load", by))

    @door.post("/models/<path:model>/split")
    def split(model: str) -> Response:
        fields, by = _fields()
        return _done(predictor, model, board.split(model, fields.get("label", ""), _split(**fields), by))

    @door.post("/models/<path:model>/shadow")
    def shadow(model: str) -> Response:
        fields, by = _fields()
        return _done(predictor, model, board.shadow(model, fields["version"], by))

    @door.get("/switches")
    def switches() -> Response:
        return json_response({"switches": log_of(board, request.args.get("model", ""))})

    @door.post("/undo")
    def undo() -> Response:
        fields, by = _fields()
        switch = board.undo(by, fields.get("id"), fields.get("model", ""))
        return _done(predictor, switch.subject.model, switch)

    return door


def log_of(board: Switchboard, model: str) -> list[dict[str, Any]]:
    """The last switches, newest first, each with its line for a reader, and whether it was or can be undone."""
    undone = board.switches.undone()
    newest = board.switches.switches(model)[:SHOWN_SWITCHES]
    return [
        {**each.to_json(), "text": str(each), "undone": each.id in undone, "undoable": board.is_undoable(each)}
        for each in newest
    ]


def _done(predictor: Predictor, model: str, switch: Switch | None) -> Response:
    """What was switched (null if everything was so already) and how the model stands now (null if it was about all)."""
    return json_response({"switch": switch and {**switch.to_json(), "text": str(switch)}, **_state(predictor, model)})


def _state(predictor: Predictor, model: str) -> dict[str, Any]:
    return {"model": overview(predictor, [model])[0] if model else None}


def _fields() -> tuple[dict[str, Any], Who]:
    """The body's fields as BODIES has them, and who sends them. Raises InvalidArgument for a missing or unknown field."""
    if request.mimetype != "application/json":
        raise UnsupportedMediaType(f"expected Content-Type: application/json, received {request.mimetype or 'none'}")
    body = BODIES[request.endpoint.rpartition(".")[2]]
    fields = body.checked(parse_json(read_body(1, "a fixed limit")))
    return fields, checked_who(fields.get("by", ""), request.remote_addr or "")


def _split(version: int | None, percent: float, **_: str) -> Split | None:
    if percent == 0:
        return None
    if version is None:
        raise InvalidArgument("version is null; expected the version that gets the share")
    return Split(version, percent / 100)


def _keep_nowhere(response: Response) -> Response:
    response.headers["Cache-Control"] = "no-store"
    return response
