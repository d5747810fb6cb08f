"""The path of a photo in CONTRIBUTING: a photo is sent, and passes the functions of that table in its order.

The steps on the phone are tested in tests/web/unit/photo_path.test.mjs.
"""

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from dogsnap.server.app import create_app
from dogsnap.serving.assembly import create_predictor
from dogsnap.settings import Settings
from support.colour_photos import RED, encode, plain

ROOT = Path(__file__).parents[2]
Step = tuple[str, str]


def read_steps() -> list[Step]:
    """File and function of each step on the server."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return re.findall(r"^\| [\w, ]+ \| `(backend/[^`]+)` `([^`]+)` \|", text, re.M)


@contextmanager
def calls(of: list[Step]) -> Iterator[list[Step]]:
    """Which of these functions are called in any thread, in the order of their first call."""
    seen: list[Step] = []
    watched = {(str(ROOT / file), name): (file, name) for file, name in of}

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            code = frame.f_code
            step = watched.get(
                (code.co_filename, code.co_qualname.replace("blueprint.<locals>.", ""))
            )
            if step is not None and step not in seen:
                seen.append(step)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_a_photo_passes_the_functions_of_the_table_in_their_order(colour_models) -> None:
    steps = read_steps()
    assert len(steps) >= 7
    with calls(steps) as seen:
        settings = Settings(models=colour_models)
        predictor = create_predictor(settings)
        client = create_app(settings, predictor).test_client()
        predictor.repository.scan(skip_settling=True)
        seen.clear()
        answer = client.post(
            "/api/classify", data=encode(plain(RED), "JPEG"), content_type="image/jpeg"
        )
        predictor.close()
    assert answer.status_code == 200, answer.text
    assert answer.json["breeds"][0]["name"] == "red dog"
    assert seen == steps
