"""The page /console: shows versions and has buttons to switch them, through the administration API."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from flask import (
    Blueprint,
    Response,
    make_response,
    redirect,
    render_template,
    request,
    send_from_directory,
)

from dogsnap.errors import NotFound, Unavailable
from dogsnap.server.middleware.admin_auth import check_access
from dogsnap.server.protocols.admin import log_of, verdict_on
from dogsnap.server.protocols.web_app import HEADERS
from dogsnap.serving.feedback.feedback import Feedback
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.overview import overview
from dogsnap.settings import Settings

PAGE = Path(__file__).parents[1] / "pages" / "console"
SHOWN_SWITCHES = 20


def blueprint(settings: Settings, predictor: Predictor, feedback: Feedback | None) -> Blueprint:
    routes = Blueprint("console", __name__, url_prefix="/console", template_folder=PAGE)

    @routes.get("", strict_slashes=False)
    def page() -> Any:
        if request.path.endswith("/"):
            return redirect("../console")  # the page's addresses are relative to this one
        return send_from_directory(PAGE, "page.html")

    @routes.get("/<any('console.js', 'console.css'):name>")
    def file(name: str) -> Response:
        return send_from_directory(PAGE, name)

    @routes.get("/models")
    def models() -> Response:
        check_access(settings, request.remote_addr or "", request.headers)
        described = overview(predictor, predictor.repository.models())
        switches = log_of(predictor.repository, "")[:SHOWN_SWITCHES]
        verdicts: dict[str, Any] = dict.fromkeys(predictor.repository.models())
        for name in verdicts:
            with suppress(
                NotFound, Unavailable
            ):  # while feedback cannot be read, the page shows the rest
                verdicts[name] = verdict_on(name, settings, predictor, feedback)
        response = make_response(
            render_template("models.html", models=described, switches=switches, verdicts=verdicts)
        )
        response.add_etag()
        return response.make_conditional(request)

    @routes.after_request
    def protect(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response

    return routes
