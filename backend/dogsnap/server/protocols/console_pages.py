"""The page /console: shows versions and has buttons to switch them, through the
administration API.
"""

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Blueprint, Response, make_response, render_template, request
from flask.sansio.blueprints import BlueprintSetupState
from markupsafe import Markup, escape
from werkzeug.wrappers import Response as ResponseBase

from dogsnap.errors import NotFound, Unauthenticated, Unavailable
from dogsnap.routing.choices import HIDDEN, Change
from dogsnap.routing.switch_log import (
    GUARD,
    Switch,
    describe,
    describe_label,
    describe_value,
    iso,
)
from dogsnap.server.bodies.json_bodies import json_response
from dogsnap.server.middleware.admin_auth import check_access
from dogsnap.server.protocols.admin import asked_seconds, log_of, verdict_on
from dogsnap.server.protocols.openapi import read_fields
from dogsnap.server.protocols.web_app import HEADERS, PAGES, add_page
from dogsnap.serving.feedback.feedback import Feedback
from dogsnap.serving.feedback.report import wilson
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.overview import overview
from dogsnap.settings import Settings

SHOWN_SWITCHES = 20
TIME = re.compile(r"(from )?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z)")
CODE_SECONDS = 300.0
LEAST_REQUESTS = 10  # of a version that is compared with another
SLOWER = 2.0  # times as long: the intervals in which times are counted are that far apart
SPANS = {900: "the last 15 minutes", 3600: "the last hour", 86400: "the last day"}
# What a version does that has an error, or no state in which it answers.
STATES = {
    "START": "is not loaded yet",
    "LOADING": "loads",
    "FAILED": "could not be loaded",
    "AVAILABLE": "could not be loaded again",
}
# A gateway loads none itself.
STATES_OF_GATEWAY = {**STATES, "FAILED": "does not answer"}


class LoginCodes:
    """Codes that are taken once, and within CODE_SECONDS: a link can be seen in
    a list of processes or a history. Thread-safe.
    """

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}

    def new(self) -> str:
        code = secrets.token_urlsafe(32)
        now = time.monotonic()
        for old, end in list(self._ends.items()):
            if end < now:
                self._ends.pop(old, None)
        self._ends[code] = now + CODE_SECONDS
        return code

    def take(self, code: str) -> None:
        """Raises Unauthenticated for a code that was not given out here, was
        taken already or is too old.
        """
        if self._ends.pop(code, 0.0) < time.monotonic():
            raise Unauthenticated(
                f"the link was used already, or is older than {CODE_SECONDS / 60:g} minutes; "
                "`dogsnap console` makes another one"
            )


class View:
    """What the page shows of one model, and of what happens to the others."""

    def __init__(self, settings: Settings, predictor: Predictor, feedback: Feedback | None):
        self._settings, self._predictor, self._feedback = settings, predictor, feedback
        self._repository = predictor.repository
        self._chosen = predictor.repository.chosen
        self._states = STATES_OF_GATEWAY if settings.engine else STATES

    def describe(self, asked: str, seconds: int) -> dict[str, Any]:
        """Variables of the template; `asked`: a model's name, "" for the
        default one; `seconds`: of the figures of its versions. For one that is
        gone it says so, and shows the default one.
        """
        names, troubles = self._repository.models(), self._troubles()
        if asked and asked not in names:
            troubles.append(
                f"there is no model {asked!r}{'; this is another one' if names else ''}"
            )
        default = self._predictor.default_model()
        name = next((each for each in (asked, default, *names) if each in names), "")
        models = {each["name"]: each for each in overview(self._predictor, names)}
        view = {
            "names": [{"name": each, "happens": self._happens(models[each])} for each in names],
            "model": models.get(name),
            "is_gateway": bool(self._settings.engine),
            "states": self._states,
            "chosen": self._chosen,
            "troubles": troubles,
            "undone": self._undone_by_guard(),
            "switches": self._switches(name),
        }
        return {**view, **self._describe_model(models[name], seconds)} if name else view

    def _switches(self, name: str) -> list[dict[str, Any]]:
        """The newest ones of a model, and those of the server's configuration."""
        found = log_of(self._predictor, name)
        if name:
            found += [each for each in log_of(self._predictor, "") if not each["model"]]
        for each in found:
            each["before"] = _describe_before(each["kind"], each["from"])
            change = Change(each["model"], each["kind"], each["name"], each["from"], each["to"])
            each["in_words"] = _in_words(change)
        return sorted(found, key=lambda each: -each["id"])[:SHOWN_SWITCHES]

    def _describe_model(self, model: dict[str, Any], seconds: int) -> dict[str, Any]:
        name = model["name"]
        recent = self._predictor.series.recent(name)
        series = self._predictor.series.describe(name, seconds)
        sums = {int(version): each["whole"] for version, each in series["versions"].items()}
        newest = self._chosen.switches(name)
        verdict = None
        # While feedback cannot be read, the page shows the rest.
        with suppress(NotFound, Unavailable):
            verdict = verdict_on(name, self._settings, self._predictor, self._feedback)
        return {
            "recent": recent,
            "total": sum(recent.values()),
            "sums": sums,
            "span": SPANS.get(seconds, f"the last {seconds} seconds"),
            "began": iso(datetime.fromtimestamp(round(series["began"]), UTC)),
            "compared": _compare(sums, model["default_version"]),
            "since": _chosen_since(newest),
            "verdict": verdict,
            "seen": newest[0].id if newest else 0,
        }

    def _troubles(self) -> list[str]:
        troubles = self._repository.troubles()
        if self._repository.models() and (not_ready := self._repository.not_ready()):
            troubles.append(not_ready)
        if self._chosen.trouble:
            troubles.append(f"switches are refused for now: {self._chosen.trouble}")
        return troubles

    def _happens(self, model: dict[str, Any]) -> str:
        """In a few words, what somebody should look at."""
        faults = []
        for each in model["versions"]:
            if each["error"]:
                faults.append(f"version {each['version']} {self._states.get(each['state'], '')}")
        if faults:
            return ", ".join(faults)
        if model["rollouts"]:
            return "rollout"
        return "split" if model["splits"] else ""

    def _undone_by_guard(self) -> list[dict[str, Any]]:
        """The switches of the last day that the guard has made, newest first, each
        with the newest one of its label or default since then.
        """
        day = iso(datetime.now(UTC) - timedelta(days=1))
        found = []
        for switch in self._chosen.switches():
            if switch.by == GUARD and switch.at > day:
                first = switch.changes[0]
                newest, _ = self._chosen.newest_changes()[first.model, first.name]
                newer = _tell(newest) if newest.id > switch.id else None
                found.append({**_tell(switch), "newer": newer})
        return found


def _describe_before(kind: str, value: Any) -> str:
    """What Undo goes back to."""
    if kind == "rollout" and value is not None:
        return f"the rollout to {value['version']}"
    before = describe_value(kind, value)
    words = {
        "none": f"no {kind}",
        "not chosen": "the largest version",
        "as the policy says": "what the policy says",
    }
    return words.get(before, before)


def mark_times(text: str) -> Markup:
    """Text whose times the page tells in the zone of whoever looks, or how far they are."""
    return Markup(TIME.sub(r'<time datetime="\2">\2</time>', str(escape(text))))


def _tell(switch: Switch) -> dict[str, Any]:
    changes = [each for each in switch.changes if each.kind != HIDDEN]
    return {**switch.to_json(), "what": "; ".join(map(_in_words, changes))}


def _in_words(change: Change) -> str:
    """E.g. "label stable sends 10 % of its clients to version 2"."""
    kind, before, after = change.kind, change.before, change.after
    label = describe_label(change.name)
    if kind == "split" and after is None:
        return f"{label} sends nothing to version {before['version']} any more"
    if kind == "split":
        return (
            f"{label} sends {100 * after['share']:g} % of its clients to version {after['version']}"
        )
    if kind == "rollout" and after is None:
        return f"the rollout of {label} to version {before['version']} has ended"
    if kind in ("label", "default") and after is not None:
        instead = "" if before is None else f", not {before}"
        return f"{label} answers with version {after}{instead}"
    return describe(change)


def _errors(figures: Mapping[str, Any]) -> dict[str, float]:
    """Their share, with its interval; `figures`: of at least one request."""
    return wilson(figures["refused"] + figures["failed"], figures["requests"]) or {}


def _compare(sums: Mapping[int, Mapping[str, Any]], usual: int | None) -> dict[int, dict[str, Any]]:
    """How each version does beside the one that answers by default: `text`, and `is_worse`."""
    judged = {number: each for number, each in sums.items() if each["requests"] >= LEAST_REQUESTS}
    if usual is None or usual not in judged:
        return {}
    old = judged.pop(usual)
    return {number: _beside(old, usual, new) for number, new in judged.items()}


def _beside(old: Mapping[str, Any], usual: int, new: Mapping[str, Any]) -> dict[str, Any]:
    """Errors differ where their intervals of 95 % do not meet; of times the medians
    are compared, as the slowest of few requests say nothing.
    """
    ours, theirs = _errors(new), _errors(old)
    if ours["low"] > theirs["high"]:
        how = "Worse"
    elif new["p50_ms"] > SLOWER * old["p50_ms"]:
        how = "Slower"
    else:
        how = "Better" if ours["high"] < theirs["low"] else "No worse"
    errors = f"{100 * ours['value']:.1f} % errors against {100 * theirs['value']:.1f} %"
    times = f"median {new['p50_ms']:.1f} ms against {old['p50_ms']:.1f} ms"
    text = f"{how} than version {usual}, the default: {errors}, {times}"
    return {"text": text, "is_worse": how in ("Worse", "Slower")}


def _chosen_since(newest: Sequence[Switch]) -> dict[int, Switch]:
    """For each version the newest switch that has sent it requests."""
    found: dict[int, Switch] = {}
    for switch in newest:
        for change in switch.changes:
            after = change.after
            version = after.get("version") if isinstance(after, dict) else after
            if change.kind in ("label", "default", "split", "shadow") and version is not None:
                found.setdefault(version, switch)
    return found


def blueprint(settings: Settings, predictor: Predictor, feedback: Feedback | None) -> Blueprint:
    routes = Blueprint("console", __name__, template_folder=PAGES / "console")

    routes.add_app_template_filter(mark_times)

    @routes.record_once
    def read_template(state: BlueprintSetupState) -> None:
        """With the code: while the server runs, another release may replace the file."""
        state.app.jinja_env.get_template("models.html")

    codes = LoginCodes()
    add_page(routes, "console")

    @routes.post("/console/codes")
    def code() -> Response:
        check_access(settings, request.headers)
        read_fields()
        return json_response({"code": codes.new()})

    @routes.post("/console/login")
    def login() -> Response:
        codes.take(read_fields()["code"])
        return json_response({"token": settings.admin_token})

    @routes.get("/console/models")
    def models() -> ResponseBase:
        check_access(settings, request.headers)
        asked = request.args.get("model", "")
        view = View(settings, predictor, feedback).describe(asked, asked_seconds())
        response = make_response(render_template("models.html", **view))
        response.add_etag()
        return response.make_conditional(request)

    @routes.after_request
    def protect(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response

    return routes
