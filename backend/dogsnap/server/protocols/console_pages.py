"""The page /console: shows versions and has buttons to switch them, through the
administration API.
"""

import secrets
import time
from contextlib import suppress
from typing import Any

from flask import Blueprint, Response, make_response, render_template, request
from werkzeug.wrappers import Response as ResponseBase

from dogsnap.errors import NotFound, Unauthenticated, Unavailable
from dogsnap.server.bodies.json_bodies import json_response
from dogsnap.server.bodies.request_fields import Body, text_field
from dogsnap.server.middleware.admin_auth import check_access
from dogsnap.server.protocols.admin import log_of, verdict_on
from dogsnap.server.protocols.web_app import HEADERS, PAGES, add_page
from dogsnap.serving.feedback.feedback import Feedback
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.overview import overview
from dogsnap.settings import Settings

SHOWN_SWITCHES = 20
CODE_SECONDS = 300.0
# The request bodies of its routes, by endpoint.
BODIES = {"console.code": Body(), "console.login": Body({"code": text_field})}


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


def blueprint(settings: Settings, predictor: Predictor, feedback: Feedback | None) -> Blueprint:
    routes = Blueprint("console", __name__, template_folder=PAGES / "console")
    codes = LoginCodes()
    add_page(routes, "console")

    @routes.post("/console/codes")
    def code() -> Response:
        check_access(settings, request.headers)
        BODIES["console.code"].read_request()
        return json_response({"code": codes.new()})

    @routes.post("/console/login")
    def login() -> Response:
        codes.take(BODIES["console.login"].read_request()["code"])
        return json_response({"token": settings.admin_token})

    @routes.get("/console/models")
    def models() -> ResponseBase:
        check_access(settings, request.headers)
        described = overview(predictor, predictor.repository.models())
        switches = log_of(predictor.repository, "")[:SHOWN_SWITCHES]
        verdicts: dict[str, Any] = dict.fromkeys(predictor.repository.models())
        for name in verdicts:
            # While feedback cannot be read, the page shows the rest.
            with suppress(NotFound, Unavailable):
                verdicts[name] = verdict_on(name, settings, predictor, feedback)
        response = make_response(
            render_template(
                "models.html",
                models=described,
                switches=switches,
                verdicts=verdicts,
                chosen=predictor.repository.chosen,
            )
        )
        response.add_etag()
        return response.make_conditional(request)

    @routes.after_request
    def protect(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response

    return routes
