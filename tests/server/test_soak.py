"""A long time at full load while versions appear and disappear: no request fails, and the memory stays what it was.

The short one belongs to every test run; `make soak` runs half an hour.
"""

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from support import tiny_models
from support.loading import Load, percentile
from support.process_readings import sample

STEP, THREADS, CLIENTS = 0.02, 2, 8  # every thread is busy and six requests wait, all the time
SAMPLE_SECONDS = 0.25
ALLOWED_GROWTH = 1.05


@pytest.fixture
def made(tmp_path) -> Path:
    return tiny_models.sleeper(tmp_path / "made")


@pytest.mark.parametrize(
    ("seconds", "first", "change"),
    [(20, 7, 1.5), pytest.param(1800, 60, 5.0, marks=pytest.mark.soak)],
    ids=["20 seconds", "half an hour"],
)
def test_at_full_load_while_versions_come_and_go_nothing_fails_and_memory_stays(
    start_server, made, tmp_path, seconds, first, change
):
    """`first`: seconds whose memory is compared with that of the last ones; `change`: seconds from one version to the next."""
    models = tmp_path / "models" / "sleeper"
    shutil.copytree(made, models / "1")
    server = start_server(models.parent, "--run-threads", str(THREADS), "--poll-seconds", "0.2")
    load = Load(server, "/v1/models/sleeper:predict", STEP, seconds, clients=CLIENTS)
    samples, changes = watch(server, made, models, seconds, change)
    answers = load.answers()
    before = np.median([mebibytes for at, mebibytes in samples if at < first])
    after = np.median([mebibytes for at, mebibytes in samples if at > seconds - first])
    most = max(mebibytes for at, mebibytes in samples if at > first)
    print(
        f"{len(answers)} requests in {seconds} s, p50 {1000 * percentile(answers, 50):.0f} ms, "
        f"p99 {1000 * percentile(answers, 99):.0f} ms, {changes} versions came and went; resident memory: first {first} s "
        f"{before:.0f} MiB, last {first} s {after:.0f} MiB ({100 * (after / before - 1):+.1f} %), at most {most:.0f} MiB"
    )
    failed = [each for each in answers if each.status != 200]
    assert not failed, failed[:3]
    assert changes >= seconds / change / 2
    assert after <= ALLOWED_GROWTH * before


def watch(
    server, made: Path, models: Path, seconds: float, change: float
) -> tuple[list[tuple[float, float]], int]:
    """Put a new version beside the old one and take the old one away, again and again.

    Returns (seconds since the start, resident MiB) for each sample, and how many versions came.
    """
    begun, samples, newest, changed = time.monotonic(), [], 1, 0.0
    while (now := time.monotonic() - begun) < seconds:
        if now - changed > change and available(server) == [newest]:
            changed = now
            shutil.copytree(made, models / str(newest + 1))
            newest += 1
        elif available(server) == [newest, newest - 1]:
            shutil.rmtree(models / str(newest - 1))
        samples.append((now, sample(server, "process_resident_memory_bytes") / 2**20))
        time.sleep(SAMPLE_SECONDS)
    return samples, newest - 1


def available(server) -> list[int]:
    states = server.get("/v1/models/sleeper").json()["model_version_status"]
    return sorted(
        (int(each["version"]) for each in states if each["state"] == "AVAILABLE"), reverse=True
    )
