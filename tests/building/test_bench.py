"""`dogsnap bench`: what it measures of a real server, what it keeps and compares, and its one-sentence errors."""

import json
import re
import signal
import socket
import sys

import pytest
from bench import report, servers
from bench.candidates import Bench
from bench.machine import describe, line
from bench.program_runs import CannotMeasure, Load, load
from bench.targets import PerformanceTarget, measure
from command_line import dogsnap, output_of
from ports import free_port

MACHINE = {
    "processor": "p",
    "cores": 2,
    "memory_gb": 1,
    "system": "s",
    "python": "3",
    "packages": {},
    "load_before": 0,
}
BRIEF = ("--seconds", "0.2", "--rounds", "1")


def test_the_machine_and_its_versions_are_named():
    named = line(describe())
    assert all(word in named for word in ("cores", "GB of memory", "Python", "tensorflow 2."))


@pytest.mark.parametrize(
    ("parts", "status", "sentence"),
    [
        ("start", 1, "Error: version 2 of .*`make setup` builds it\n$"),
        ("speed", 2, "--only names speed"),
        ("start,front", 2, "expected some of start, memory, throughput, fast, latency, overload"),
    ],
)
def test_what_cannot_be_measured_ends_in_one_sentence(tmp_path, parts, status, sentence):
    result = dogsnap("bench", "--models", tmp_path, "--only", parts)
    assert result.exit_code == status
    assert re.search(sentence, result.output)


def test_the_generator_sends_so_many_requests_or_so_many_a_second(colour_server):
    url = f"{colour_server.url}/v1/models/inception_v3/versions/2:predict"
    asked = load(url, ['{"instances": ["?"]}'], clients=2, requests=5)
    assert (len(asked.answers), asked.failed(), asked.good()) == (5, 5, [])
    sent = load(f"{colour_server.url}/v1/models/none:predict", ["{}"], rate=50, seconds=0.2)
    assert [status for *_, status in sent.answers] == [404] * 10


STUBBORN = """
import http.server, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def test_a_server_that_does_not_stop_is_killed_and_its_port_is_free_then(monkeypatch):
    monkeypatch.setattr(servers, "STOP_SECONDS", 0.2)
    port = free_port()
    with servers.Process(
        [sys.executable, "-c", STUBBORN, str(port)], f"http://127.0.0.1:{port}", "/"
    ) as process:
        pass
    assert process._process.returncode == -signal.SIGKILL
    with socket.create_server(("127.0.0.1", port)):
        pass


@pytest.fixture
def measuring(tmp_path):
    """A bench of versions that cannot be loaded."""
    for number in (1, 2, 3):
        version = tmp_path / "inception_v3" / str(number)
        version.mkdir(parents=True)
        (version / "saved_model.pb").write_bytes(b"no graph")
    with Bench(tmp_path, seconds=1.0, rounds=3, say=print) as measuring:
        yield measuring


def test_a_version_that_cannot_be_merged_for_one_pass_is_not_measured_and_the_table_says_why(
    measuring,
):
    (row,) = measure(measuring, ["fast"])
    assert row.measured is None
    assert re.search(r"wrote no version .*: Error: .*1", row.note)


def test_a_ratio_is_that_of_the_medians_over_alternating_rounds(measuring):
    called = []

    def measures(name, *figures):
        left = iter(figures)
        return lambda: called.append(name) or next(left)

    first, second = measures("a", 8.0, 9.0, 1.0), measures("b", 2.0, 7.0, 4.0)
    assert measuring.ratio(first, second, "ms") == (2.0, "8 and 4 ms")
    assert "".join(called) == "ababab"
    for nothing in (0.0, float("nan")):
        with pytest.raises(CannotMeasure, match="no answers"):
            measuring.ratio(lambda: 1.0, lambda figure=nothing: figure, "ms")


@pytest.mark.long
def test_this_server_is_started_measured_and_stopped(colour_models, tmp_path):
    saved = tmp_path / "bench.json"
    output_of(
        dogsnap("bench", "--models", colour_models, "--only", "latency", *BRIEF, "--save", saved)
    )
    (target,) = json.loads(saved.read_text())["bars"]
    assert target["part"] == "latency"
    assert target["measured"] > 0


def test_goodput_counts_what_was_answered_well_in_a_part_of_the_time():
    flood = Load([(0.0, 0.5, 200), (0.9, 0.2, 200), (1.0, 0.5, 503), (1.0, 1.5, 200)])
    assert flood.good_between(1.0, 3.0) == 1.0


def test_a_bar_is_met_from_its_own_side_and_not_at_all_without_a_figure():
    least = PerformanceTarget("part", "rate", 0.97, True, "", 0.97)
    most = PerformanceTarget("part", "time", 8.0, False, "s", 8.1)
    missing = PerformanceTarget("part", "other", 1.0, True, note="it is not there")
    assert [least.met(), most.met(), missing.met()] == [True, False, None]
    table = report.lines(MACHINE, [least, most, missing])
    assert [line.split()[-1] for line in table[-3:]] == ["yes", "NO", "there"]
