"""The administration API under /api/admin: versions, switches and their log."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from flask import Blueprint, Response, request

from dogsnap.errors import InvalidArgument, NotFound, UnsupportedMediaType
from dogsnap.routing import planners
from dogsnap.routing.choices import HIDDEN, Choices
from dogsnap.routing.planners import ANY, Versions
from dogsnap.routing.rollout import (
    pause_rollout,
    plan_rollout,
    resume_rollout,
    start_rollout,
    stop_rollout,
)
from dogsnap.routing.state_document import change_state, describe_state, read_state
from dogsnap.routing.switch_log import check_author, describe, iso
from dogsnap.server.bodies.json_bodies import json_response
from dogsnap.server.bodies.request_fields import whole_number
from dogsnap.server.middleware.admin_auth import check_request
from dogsnap.server.protocols.app_api import require_feedback
from dogsnap.server.protocols.openapi import read_fields
from dogsnap.serving.feedback.feedback import Feedback
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.overview import overview, shadow_report
from dogsnap.serving.repository.switcher import Plan
from dogsnap.serving.series import BUCKET_SECONDS, BUCKETS
from dogsnap.settings import Settings

SERIES_SECONDS, MOST_SECONDS = 3600, BUCKETS * BUCKET_SECONDS
SHOWN_SWITCHES = 50
MOST_REASON = 200  # characters
LEAST_REQUESTS = 100  # of the new version in each step of a rollout, if nothing is said
STEERS: dict[str, Callable[..., Choices]] = {
    "pause": pause_rollout,
    "resume": resume_rollout,
    "end": stop_rollout,
}


def blueprint(settings: Settings, predictor: Predictor, feedback: Feedback | None) -> Blueprint:
    routes = Blueprint("admin", __name__, url_prefix="/api/admin")
    repository, chosen = predictor.repository, predictor.repository.chosen
    routes.before_request(partial(check_request, settings))

    @routes.after_request
    def forbid_caching(response: Response) -> Response:
        response.headers["Cache-Control"] = "no-store"
        return response

    @routes.get("/models")
    def models() -> Response:
        described = overview(predictor, repository.models())
        return json_response(
            {
                "default_model": predictor.default_model(),
                "models": described,
                "switches_kept": chosen.store.is_kept,
                "switches_refused": chosen.trouble,
            }
        )

    # Model names in a configuration may contain slashes, hence "path".
    @routes.get("/models/<path:model>")
    def one_model(model: str) -> Response:
        return json_response(_state(predictor, model))

    @routes.get("/state")
    def state() -> Response:
        of_models = {name: chosen.choices(name) for name in repository.models()}
        return json_response(describe_state(of_models))

    @routes.get("/switches")
    def switches() -> Response:
        return json_response({"switches": log_of(predictor, request.args.get("model", ""))})

    _add_switches(routes, predictor)
    _add_rollouts(routes, predictor)
    _add_reports(routes, settings, predictor, feedback)
    return routes


def _add_switches(routes: Blueprint, predictor: Predictor) -> None:
    repository, switcher = predictor.repository, predictor.switcher
    switch = partial(_switch, predictor)

    @routes.post("/models/<path:model>/labels/", defaults={"label": ""})  # says what is wrong
    @routes.post("/models/<path:model>/labels/<path:label>")
    def label(model: str, label: str) -> Response:
        fields = _fields()
        expected = fields.get("from", ANY)
        return switch(model, fields, planners.change_label, label, fields["version"], expected)

    @routes.post("/models/<path:model>/default")
    def default(model: str) -> Response:
        fields = _fields()
        return switch(model, fields, planners.change_default, fields["version"])

    @routes.post("/models/<path:model>/versions/<int:version>/<any(load, unload):what>")
    def load(model: str, version: int, what: str) -> Response:
        fields = _fields()
        response = switch(model, fields, planners.change_load, version, what == "load")
        if not fields.get("dry_run"):
            repository.try_again(model, version if what == "load" else None)
        return response

    @routes.post("/models/<path:model>/split")
    def split(model: str) -> Response:
        fields = _fields()
        label, version, share = fields.get("label", ""), fields["version"], fields["percent"] / 100
        return switch(model, fields, planners.change_split, label, version, share)

    @routes.post("/models/<path:model>/shadow")
    def shadow(model: str) -> Response:
        fields = _fields()
        return switch(model, fields, planners.change_shadow, fields["version"])

    @routes.post("/apply")
    def apply() -> Response:
        fields = _fields()
        planners = {}
        for name, wanted in read_state(fields["state"]).items():
            planners[name] = partial(change_state, wanted=wanted)
        response = _answer(predictor, switcher.plan(planners, seen=fields.get("seen")), fields)
        if not fields.get("dry_run"):
            for name in planners:
                repository.try_again(name)
        return response

    @routes.post("/undo", endpoint="undo")
    def undo_switch() -> Response:
        fields = _fields()
        plan = switcher.plan_undo(fields.get("id"), fields.get("model", ""), fields.get("seen"))
        return _answer(predictor, plan, fields, plan.undoes.model if plan.undoes else "")


def _add_rollouts(routes: Blueprint, predictor: Predictor) -> None:
    switch = partial(_switch, predictor)

    @routes.post("/models/<path:model>/rollout")
    def rollout(model: str) -> Response:
        fields = _fields()
        requests, at = fields.get("requests"), fields.get("at", "")
        requests = LEAST_REQUESTS if requests is None else requests
        plan = plan_rollout(fields["version"], fields["steps"], fields["every"], requests, at)
        label, now = fields.get("label", ""), iso(datetime.now(UTC))
        return switch(model, {**fields, "guard": True}, start_rollout, label, plan, now)

    @routes.post("/models/<path:model>/rollout/<any(pause, resume, end):what>")
    def steer(model: str, what: str) -> Response:
        fields = _fields()
        values = [iso(datetime.now(UTC))] if what == "resume" else []
        steered = {**fields, "force": True, "guard": what == "resume"}  # compared at its start
        return switch(model, steered, STEERS[what], fields.get("label", ""), *values)


def _add_reports(
    routes: Blueprint, settings: Settings, predictor: Predictor, feedback: Feedback | None
) -> None:
    @routes.get("/verdict")
    def verdict() -> Response:
        model = request.args.get("model") or predictor.default_model()
        return json_response(verdict_on(model, settings, predictor, feedback))

    @routes.get("/series")
    def series() -> Response:
        model = request.args.get("model") or predictor.default_model()
        check_model(predictor, model)
        until = whole_number("until", request.args.get("until"))
        found = predictor.series.describe(model, asked_seconds(), until)
        return json_response({"model": model, **found})

    @routes.get("/feedback.csv")
    def feedback_csv() -> Response:
        return Response(require_feedback(feedback).store.csv(), mimetype="text/csv")


def asked_seconds() -> int:
    """The span of the series that the query asks for, in seconds.

    Raises InvalidArgument.
    """
    seconds = whole_number("seconds", request.args.get("seconds"))
    seconds = SERIES_SECONDS if seconds is None else seconds
    if not BUCKET_SECONDS <= seconds <= MOST_SECONDS:
        raise InvalidArgument(
            f"seconds is {seconds}; expected {BUCKET_SECONDS} to {MOST_SECONDS}, a day"
        )
    return seconds


def log_of(predictor: Predictor, model: str) -> list[dict[str, Any]]:
    """The last switches, newest first, each as text, and whether it was or can
    be undone.
    """
    chosen = predictor.repository.chosen
    described = []
    for switch in chosen.switches(model)[:SHOWN_SWITCHES]:
        undone_by = chosen.undone_by(switch.id)
        more = {"undone": undone_by is not None, "undone_by": undone_by}
        more["undoable"] = predictor.switcher.is_undoable(switch)
        described.append({**switch.to_json(), **more})
    return described


def verdict_on(
    model: str, settings: Settings, predictor: Predictor, feedback: Feedback | None
) -> dict[str, Any]:
    """Users' feedback on a model (null without), and where its shadow differs.

    Raises NotFound, Unavailable.
    """
    check_model(predictor, model)
    return {
        "model": model,
        "kept_days": settings.feedback_days if feedback else None,
        "feedback": feedback.verdict(model) if feedback else None,
        "shadow": shadow_report(predictor, model),
    }


def check_model(predictor: Predictor, model: str) -> None:
    """Raises NotFound."""
    models = predictor.repository.models()
    if model not in models:
        raise NotFound(f"there is no model {model!r}; there are: {', '.join(models) or 'none'}")


def _switch(
    predictor: Predictor,
    model: str,
    fields: dict[str, Any],
    change: Callable[..., Choices],
    *values: Any,
) -> Response:
    """Change what is chosen of a model, by a planner with these values."""

    def planner(choices: Choices, versions: Versions) -> Choices:
        return change(choices, versions, *values)

    is_guarded, seen = fields.get("guard", False), fields.get("seen")
    plan = predictor.switcher.plan({model: planner}, is_guarded, seen=seen)
    return _answer(predictor, plan, fields, model)


def _answer(predictor: Predictor, plan: Plan, fields: dict[str, Any], model: str = "") -> Response:
    """What a switch would change, as sentences, or the switch (null if nothing
    changed); and the status of its model (null if it was about all models).
    """
    found = plan.differences
    more: dict[str, Any] = {"switch": None, "differences": found.felt, "notes": found.noted}
    if fields.get("dry_run"):
        more["would"] = [describe(each) for each in plan.changes if each.kind != HIDDEN]
    else:
        reason = " ".join(fields.get("reason", "").split())[:MOST_REASON]
        is_forced = fields.get("force", False)
        switched = predictor.switcher.apply(plan, fields["by"], is_forced, reason)
        more["switch"] = switched and switched.to_json()
    return json_response({**more, **_state(predictor, model)})


def _state(predictor: Predictor, model: str) -> dict[str, Any]:
    return {"model": overview(predictor, [model])[0] if model else None}


def _fields() -> dict[str, Any]:
    """The fields of the body; `by` is the author. Raises as `read_fields` does."""
    if request.mimetype != "application/json":
        raise UnsupportedMediaType(
            f"expected Content-Type: application/json, received {request.mimetype or 'none'}"
        )
    fields = read_fields()
    return {**fields, "by": check_author(fields.get("by", ""), request.remote_addr or "")}
