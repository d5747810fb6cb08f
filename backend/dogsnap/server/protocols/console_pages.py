"""The page /console: shows versions and has buttons to switch them, through the
administration API.
"""

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any
from urllib.parse import quote

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
UNDONE_SECONDS = 30  # of the picture of a switch that undid itself, after that
SPANS = {900: "the last 15 minutes", 3600: "the last hour", 86400: "the last day"}
ERRORS, MEDIAN = "Errors, % of all requests", "Median time, ms"
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
        self._draw_undone = lru_cache(maxsize=50)(self._picture_of)

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
        switches = self._switches(name)
        view = {
            "names": [{"name": each, "happens": self._happens(models[each])} for each in names],
            "model": models.get(name),
            "is_gateway": bool(self._settings.engine),
            "chosen": self._chosen,
            "troubles": troubles,
            "undone": self._undone_by_guard(),
            "switches": switches,
        }
        if not name:
            return view
        return {**view, **self._describe_model(models[name], switches, seconds)}

    def _switches(self, name: str) -> list[dict[str, Any]]:
        """The newest ones of a model, and those of the server's configuration."""
        found = log_of(self._predictor, name)
        if name:
            found += [each for each in log_of(self._predictor, "") if not each["model"]]
        for each in found:
            each["author"] = _author(each["by"])
            each["before"] = _describe_before(each["kind"], each["from"])
            change = Change(each["model"], each["kind"], each["name"], each["from"], each["to"])
            each["in_words"] = _in_words(change)
        return sorted(found, key=lambda each: -each["id"])[:SHOWN_SWITCHES]

    def _describe_model(
        self, model: dict[str, Any], switches: Sequence[Mapping[str, Any]], seconds: int
    ) -> dict[str, Any]:
        name = model["name"]
        marks = [
            {"at": _seconds(each["at"]), "text": f"{each['author']}: {each['text']}"}
            for each in switches
        ]
        recent = self._predictor.series.recent(name)
        series = self._predictor.series.describe(name, seconds)
        sums = {int(version): each["whole"] for version, each in series["versions"].items()}
        newest = self._chosen.switches(name)
        verdict = None
        # While feedback cannot be read, the page shows the rest.
        with suppress(NotFound, Unavailable):
            verdict = verdict_on(name, self._settings, self._predictor, self._feedback)
        return {
            "path": f"models/{quote(name, safe='')}",
            "answers": _answers(model),
            "points": _points(series),
            "pictures": draw(series, marks),
            "happening": self._tell_versions(model["versions"]),
            "recent": recent,
            "total": sum(recent.values()),
            "sums": sums,
            "span": SPANS.get(seconds, f"the last {seconds} seconds"),
            "began": _iso(series["began"]),
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

    def _tell_versions(self, versions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What happens to those that load or have an error, and which answer all the same."""
        answering = [str(each["version"]) for each in versions if each["state"] == "AVAILABLE"]
        found = []
        for each in versions:
            text = f"Version {each['version']} {self._states.get(each['state'], '')}"
            if each["error"]:
                text += f": {each['error']}. Versions that answer: {', '.join(answering) or 'none'}"
            if each["error"] or each["state"] in ("START", "LOADING"):
                found.append({"text": f"{text}.", "is_bad": bool(each["error"])})
        return found

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
        with the newest one of its label or default since then, and the picture of its time.
        """
        day = iso(datetime.now(UTC) - timedelta(days=1))
        found = []
        for switch in self._chosen.switches():
            if switch.by == GUARD and switch.at > day:
                first = switch.changes[0]
                newest, _ = self._chosen.newest_changes()[first.model, first.name]
                newer = _tell(newest) if newest.id > switch.id else None
                # As old as the page at most, and once its time is over as it is.
                end = min(_seconds(switch.at) + UNDONE_SECONDS, time.time() // 5 * 5)
                pictures = self._draw_undone(first.model, switch.at, switch.reason, end)
                found.append({**_tell(switch), "newer": newer, "pictures": pictures})
        return found

    def _picture_of(self, model: str, at: str, reason: str, end: float) -> dict[str, Any] | None:
        """What made the guard undo a switch `at` that time; None before the start of the server."""
        series = self._predictor.series.describe(model, min(SPANS), end)
        if series["began"] > _seconds(at):
            return None
        title = MEDIAN if "slower" in reason else ERRORS
        return draw(series, [{"at": _seconds(at), "text": f"{GUARD.name}: {reason}"}], title)


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
    told = switch.to_json()
    what = "; ".join(_in_words(each) for each in switch.changes if each.kind != HIDDEN)
    return {**told, "author": _author(told["by"]), "what": what}


def _author(by: Mapping[str, str]) -> str:
    return f"{by['name']} {by['address']}".strip()


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


def _answers(model: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Each label, first the default (""), its version, and its split, rollout and guard if any."""
    versions = {**dict.fromkeys(model["pending_labels"]), **model["labels"]}
    happening = [
        {each["label"]: each for each in model[kind]} for kind in ("splits", "rollouts", "guards")
    ]
    rows = [("", model["default_version"]), *sorted(versions.items())]
    return [(label, at, *(each.get(label) for each in happening)) for label, at in rows]


def _points(series: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """For each point, the newest first, what each version did that had requests then."""
    found = []
    for place, time_of_point in reversed([*enumerate(series["times"])]):
        for version, columns in series["versions"].items():
            did = {name: columns[name][place] for name in columns if name != "whole"}
            if did["requests"]:
                found.append((_iso(time_of_point), version, did))
    return found


def _iso(seconds: float) -> str:
    return iso(datetime.fromtimestamp(round(seconds), UTC))


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def draw(
    series: Mapping[str, Any], marks: Sequence[Mapping[str, Any]], only: str = ""
) -> dict[str, Any]:
    """What the page draws of a series: for each picture a line for each version, and
    `tops`, where lines are stacked. It stays the same while nothing is counted.
    """
    of_versions = series["versions"].values()
    rates = [[each / series["step"] for each in of["requests"][:-1]] for of in of_versions]
    tops = accumulate(rates, lambda below, rate: [a + b for a, b in zip(below, rate, strict=True)])
    pictures: list[dict[str, Any]] = [
        # The last point is not whole yet.
        {"title": "Requests a second", "lines": rates, "tops": list(tops)},
        {"title": ERRORS, "lines": [_error_rates(each) for each in of_versions]},
        {"title": MEDIAN, "lines": [each["p50_ms"] for each in of_versions]},
        {"title": "95 of 100 within, ms", "lines": [each["p95_ms"] for each in of_versions]},
    ]
    return {
        "times": [round(each) for each in series["times"]],
        "step": series["step"],
        "versions": list(series["versions"]),
        "pictures": [each for each in pictures if only in ("", each["title"])],
        "marks": marks,
    }


def _error_rates(of_version: Mapping[str, Any]) -> list[float | None]:
    columns = (of_version[name] for name in ("requests", "refused", "failed"))
    return [
        100 * (refused + failed) / requests if requests else None
        for requests, refused, failed in zip(*columns, strict=True)
    ]


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
        state.app.jinja_env.get_template("page.html")

    def render(**view: Any) -> ResponseBase:
        response = make_response(render_template("page.html", **view))
        response.add_etag()
        return response.make_conditional(request)

    codes, view = LoginCodes(), View(settings, predictor, feedback)
    add_page(routes, "console", partial(render, model=None))

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
        return render(**view.describe(asked, asked_seconds()))

    @routes.after_request
    def protect(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response

    return routes
