"""The load model: against what queueing theory says, and against two nodes behind a real gateway."""

import math

import pytest
import tiny_models
from click.testing import CliRunner
from loading import Load, percentile

from backend.bench.capacity import Node, plan, simulate
from backend.commands.capacity import capacity

STEP, AT_ONCE, QUEUE = 0.05, 2, 4
NODE = Node(AT_ONCE, STEP, QUEUE)
CAPACITY = 2 * NODE.capacity
SECONDS = 15
SEEDS = range(20)


def waits_at_most(steps: float, load: float) -> float:
    """The share of requests to a single queue that wait no longer, in steps of its service (Erlang, 1909; M/D/1)."""
    terms = [
        (load * (k - steps)) ** k / math.factorial(k) * math.exp(-load * (k - steps)) for k in range(int(steps) + 1)
    ]
    return (1 - load) * sum(terms)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_a_single_queue_waits_as_theory_says(load):
    found = simulate(load, Node(1, 1.0, 1000), photos=200_000)
    assert found.refused == 0
    assert found.answered == pytest.approx(load, rel=0.02)
    assert waits_at_most(found.p50 - 1.0, load) == pytest.approx(0.5, abs=0.01)
    assert waits_at_most(found.p99 - 1.0, load) == pytest.approx(0.99, abs=0.002)


def test_more_than_it_can_answer_is_refused_and_the_rest_answered():
    found = simulate(200.0, Node(1, 0.01, 10))
    assert found.answered == pytest.approx(100.0, rel=0.02)
    assert found.refused == pytest.approx(0.5, abs=0.02)


def test_a_plan_has_as_few_nodes_as_keep_the_promise():
    found = plan(100.0, Node(2, 0.05), most_seconds=0.2, gateway_rate=500.0, photo_bytes=60_000)
    assert found.outcome.p99 <= 0.2 < simulate(100.0, Node(2, 0.05), found.nodes - 1).p99
    assert found.gateways == 1
    assert found.megabits == pytest.approx(48.0)
    with pytest.raises(ValueError, match=r"a photo alone takes 0.05 s; expected less than the 0.04 s allowed"):
        plan(1.0, Node(2, 0.05), 0.04, 500.0, 60_000)


def test_the_command_prints_the_arithmetic():
    said = CliRunner().invoke(capacity, ["--photo-ms", "20", "1", "1000"])
    assert said.exit_code == 0
    assert said.output.startswith(
        "one node: 2 cores / 20 ms = 100 photos/s at most, 1100 MB\n1 photos/s: 1 x 2 cores, 1.1 GB"
    )
    assert "gateways: 0; 0.6 Mbit/s in\n1000 photos/s: 11 x 2 cores" in said.output
    wrong = CliRunner().invoke(capacity, ["--photo-ms", "600"])
    assert wrong.exit_code == 1
    assert "expected less than the 0.5 s allowed" in wrong.output


@pytest.fixture(scope="module")
def gateway(start_server, tmp_path_factory):
    """In front of two nodes whose steps take time, but no processor: one machine is as good as two."""
    models = tmp_path_factory.mktemp("models")
    tiny_models.sleeper(models / "sleeper" / "1")
    limits = "--run-threads", str(AT_ONCE), "--queue-size", str(QUEUE)
    engines = [start_server(models, *limits) for _ in range(2)]
    target = "grpc://" + ",".join(f"127.0.0.1:{engine.grpc_port}" for engine in engines)
    return start_server(models, "--engine", target)


@pytest.mark.long
@pytest.mark.parametrize("load", [0.5, 0.8, 2.0])
def test_two_nodes_behind_a_gateway_do_as_predicted(gateway, load):
    """Within a fifth of what simulations of as many photos give, each with other random times."""
    rate = load * CAPACITY
    answers = Load(gateway, "/v1/models/sleeper:predict", STEP, SECONDS, rate=rate, random=7).answers()
    good = [each for each in answers if each.status == 200]
    assert {each.status for each in answers} <= {200, 503}
    span = max(each.sent for each in answers) - min(each.sent for each in answers)
    measured = {
        "answered": len(good) / span,
        "refused": 1 - len(good) / len(answers),
        "p50": percentile(good, 50),
        "p99": percentile(good, 99),
    }
    foreseen = [simulate(rate, NODE, 2, len(answers), seed=seed) for seed in SEEDS]
    for name, value in measured.items():
        values = [getattr(each, name) for each in foreseen]
        low, high = min(values), max(values)
        print(f"{load:g} times the capacity, {name}: foreseen {low:.3f} to {high:.3f}, measured {value:.3f}")
        assert 0.8 * low - 0.02 <= value <= 1.2 * high + 0.02, name
