"""Administration under /api/admin: what there is, the switches, and their log; the room behind it is the switchboard.

It does not decide who may: `access.py` does.
"""

from typing import Any

from flask import Blueprint, Response, request

from backend.doors.access import check_access
from backend.doors.http import json_response, parse_json, read_body, text_field
from backend.errors import InvalidArgument, UnsupportedMediaType
from backend.serving.overview import overview
from backend.serving.predictor import Predictor
from backend.serving.switchboard import ANY, Switchboard, checked_who
from backend.serving.switches import Switch, Who
from backend.serving.traffic import Split
from backend.settings import Settings

SHOWN_SWITCHES = 50


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
        fields, by = _fields("version", optional=("from",))
        expected = _number(fields, "from") if "from" in fields else ANY
        return _done(predictor, model, board.label(model, label, _number(fields, "version"), by, expected))

    @door.post("/models/<path:model>/default")
    def default(model: str) -> Response:
        fields, by = _fields("version")
        return _done(predictor, model, board.default(model, _number(fields, "version"), by))

    @door.post("/models/<path:model>/versions/<int:version>/<any(load, unload):what>")
    def load(model: str, version: int, what: str) -> Response:
        _, by = _fields()
        return _done(predictor, model, board.load(model, version, what == "load", by))

    @door.post("/models/<path:model>/split")
    def split(model: str) -> Response:
        fields, by = _fields("version", "percent", optional=("label",))
        label = text_field("label", fields.get("label"))
        return _done(predictor, model, board.split(model, label, _split(fields), by))

    @door.post("/models/<path:model>/shadow")
    def shadow(model: str) -> Response:
        fields, by = _fields("version")
        return _done(predictor, model, board.shadow(model, _number(fields, "version"), by))

    @door.get("/switches")
    def switches() -> Response:
        return json_response({"switches": log_of(board, request.args.get("model", ""))})

    @door.post("/undo")
    def undo() -> Response:
        fields, by = _fields(optional=("id", "model"))
        switch = board.undo(by, _number(fields, "id"), text_field("model", fields.get("model")))
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


def _fields(*required: str, optional: tuple[str, ...] = ()) -> tuple[dict[str, Any], Who]:
    """The body's fields, and who sends them. Raises InvalidArgument for a missing or unknown field."""
    if request.mimetype != "application/json":
        raise UnsupportedMediaType(f"expected Content-Type: application/json, received {request.mimetype or 'none'}")
    fields = parse_json(read_body(1, "a fixed limit"))
    known = {*required, *optional, "by"}
    missing, unknown = sorted(set(required) - set(fields)), sorted(set(fields) - known)
    if missing or unknown:
        raise InvalidArgument(
            f"expected the fields {', '.join(sorted(known)) or 'none'}; "
            f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
        )
    return fields, checked_who(text_field("by", fields.get("by")), request.remote_addr or "")


def _number(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | None):
        raise InvalidArgument(f"{name} is {value!r}; expected a whole number, or null for none")
    return value


def _split(fields: dict[str, Any]) -> Split | None:
    version, percent = _number(fields, "version"), fields["percent"]
    if isinstance(percent, bool) or not isinstance(percent, int | float):
        raise InvalidArgument(f"percent is {percent!r}; expected a number from 0, which ends a split, to 100")
    if percent == 0:
        return None
    if version is None:
        raise InvalidArgument("version is null; expected the version that gets the share")
    return Split(version, percent / 100)


def _keep_nowhere(response: Response) -> Response:
    response.headers["Cache-Control"] = "no-store"
    return response
