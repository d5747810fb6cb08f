"""The administration API under /api/admin: versions, switches and their log."""

from typing import Any

from flask import Blueprint, Response, request

from dogsnap.errors import InvalidArgument, NotFound, UnsupportedMediaType
from dogsnap.routing.switches import (
    ANY,
    Default,
    Label,
    Load,
    Shadow,
    SplitOf,
    Switch,
    Who,
    checked_who,
)
from dogsnap.routing.undo import is_undoable, undo
from dogsnap.server.middleware.admin_auth import check_access
from dogsnap.server.middleware.json_bodies import json_response
from dogsnap.server.protocols.app_api import taken
from dogsnap.server.protocols.fields import PERCENT, TEXT, VERSION, Body
from dogsnap.serving.feedback.feedback import Feedback
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.overview import overview, shadow_report
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.settings import Settings

SHOWN_SWITCHES = 50
# The request bodies of the routes that switch, by endpoint.
BODIES = {
    "admin.label": Body({"version": VERSION}, {"from": VERSION, "by": TEXT}),
    "admin.default": Body({"version": VERSION}, {"by": TEXT}),
    "admin.load": Body({}, {"by": TEXT}),
    "admin.split": Body({"version": VERSION, "percent": PERCENT}, {"label": TEXT, "by": TEXT}),
    "admin.shadow": Body({"version": VERSION}, {"by": TEXT}),
    "admin.undo": Body({}, {"id": VERSION, "model": TEXT, "by": TEXT}),
}


def blueprint(settings: Settings, predictor: Predictor, feedback: Feedback | None) -> Blueprint:
    routes = Blueprint("admin", __name__, url_prefix="/api/admin")
    repository = predictor.repository
    routes.before_request(
        lambda: check_access(settings, request.remote_addr or "", request.headers)
    )

    @routes.after_request
    def forbid_caching(response: Response) -> Response:
        response.headers["Cache-Control"] = "no-store"
        return response

    @routes.get("/models")
    def models() -> Response:
        described = overview(predictor, repository.models())
        return json_response({"default_model": predictor.default_model(), "models": described})

    # Model names in a configuration may contain slashes, hence "path".
    @routes.get("/models/<path:model>")
    def one_model(model: str) -> Response:
        return json_response(_state(predictor, model))

    @routes.post("/models/<path:model>/labels/<path:label>")
    def label(model: str, label: str) -> Response:
        fields, by = _fields()
        switch = Label(model, label).switch(
            repository, fields["version"], by, fields.get("from", ANY)
        )
        return _done(predictor, model, switch)

    @routes.post("/models/<path:model>/default")
    def default(model: str) -> Response:
        fields, by = _fields()
        return _done(predictor, model, Default(model).switch(repository, fields["version"], by))

    @routes.post("/models/<path:model>/versions/<int:version>/<any(load, unload):what>")
    def load(model: str, version: int, what: str) -> Response:
        _, by = _fields()
        return _done(
            predictor, model, Load(model, str(version)).switch(repository, what == "load", by)
        )

    @routes.post("/models/<path:model>/split")
    def split(model: str) -> Response:
        fields, by = _fields()
        version, share = fields["version"], fields["percent"] / 100
        if share and version is None:
            raise InvalidArgument("version is null; expected the version that gets the share")
        value = {"version": version, "share": share} if share else None
        return _done(
            predictor, model, SplitOf(model, fields.get("label", "")).switch(repository, value, by)
        )

    @routes.post("/models/<path:model>/shadow")
    def shadow(model: str) -> Response:
        fields, by = _fields()
        return _done(predictor, model, Shadow(model).switch(repository, fields["version"], by))

    @routes.get("/verdict")
    def verdict() -> Response:
        model = request.args.get("model") or predictor.default_model()
        return json_response(verdict_on(model, settings, predictor, feedback))

    @routes.get("/feedback.csv")
    def feedback_csv() -> Response:
        return Response(taken(feedback).store.csv(), mimetype="text/csv")

    @routes.get("/switches")
    def switches() -> Response:
        return json_response({"switches": log_of(repository, request.args.get("model", ""))})

    @routes.post("/undo", endpoint="undo")
    def undo_switch() -> Response:
        fields, by = _fields()
        switch = undo(repository, by, fields.get("id"), fields.get("model", ""))
        return _done(predictor, switch.subject.model, switch)

    return routes


def log_of(repository: ModelRepository, model: str) -> list[dict[str, Any]]:
    """The last switches, newest first, each as text, and whether it was or can be undone."""
    log = repository.switches
    return [
        {
            **_shown(each),
            "undone": log.is_undone(each.id),
            "undoable": is_undoable(repository, each),
        }
        for each in log.switches(model)[:SHOWN_SWITCHES]
    ]


def _shown(switch: Switch) -> dict[str, Any]:
    return {**switch.to_json(), "text": str(switch)}


def verdict_on(
    model: str, settings: Settings, predictor: Predictor, feedback: Feedback | None
) -> dict[str, Any]:
    """Users' feedback on a model (null without), and where its shadow differs. Raises NotFound, Unavailable."""
    if model not in predictor.repository.models():
        raise NotFound(
            f"there is no model {model!r}; there are: {', '.join(predictor.repository.models()) or 'none'}"
        )
    return {
        "model": model,
        "kept_days": settings.feedback_days if feedback else None,
        "feedback": feedback.verdict(model) if feedback else None,
        "shadow": shadow_report(predictor, model),
    }


def _done(predictor: Predictor, model: str, switch: Switch | None) -> Response:
    """The switch (null if nothing changed) and the status of its model (null if it was about all models)."""
    return json_response({"switch": switch and _shown(switch), **_state(predictor, model)})


def _state(predictor: Predictor, model: str) -> dict[str, Any]:
    return {"model": overview(predictor, [model])[0] if model else None}


def _fields() -> tuple[dict[str, Any], Who]:
    """The fields of the body by BODIES, and the author. Raises InvalidArgument for a missing or unknown field."""
    if request.mimetype != "application/json":
        raise UnsupportedMediaType(
            f"expected Content-Type: application/json, received {request.mimetype or 'none'}"
        )
    fields = BODIES[request.endpoint].received()
    return fields, checked_who(fields.get("by", ""), request.remote_addr or "")
