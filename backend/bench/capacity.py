"""How many machines a number of photos a second takes: a simulation of queues, and the arithmetic around it.

It measures nothing: what a photo costs is told to it. A test holds its prediction against two nodes behind a real gateway.
"""

import heapq
import itertools
import math
import random
from collections import deque
from dataclasses import dataclass

ATTEMPTS = 4  # of a gateway; see `backend.gateway.client.SERVICE_CONFIG`
FIRST_BACKOFF, LARGEST_BACKOFF = 0.05, 0.5  # seconds, doubled from attempt to attempt, each drawn from 0 up to it
SIMULATED = 20_000  # photos: their 99th percentile moves by about 2 % from one simulation to the next
PHOTOS_A_NODE = 1000
FULLEST = 0.95  # a node's load that is never planned beyond, whatever the 99th percentile would allow


@dataclass(frozen=True)
class Node:
    """A server: so many photos run at once, each for so many seconds; `queue` more may wait, and the next one is refused."""

    at_once: int
    seconds: float
    queue: int = 64

    @property
    def capacity(self) -> float:
        """Photos a second."""
        return self.at_once / self.seconds


@dataclass(frozen=True)
class Outcome:
    """What clients see: photos answered a second, the share refused, and the percentiles of the waiting time in seconds."""

    answered: float
    refused: float
    p50: float
    p99: float


class _Queue:
    """One node while it is simulated; requests come in the order of time."""

    def __init__(self, node: Node):
        self._node = node
        self._free = [0.0] * node.at_once
        self._begins: deque[float] = deque()

    def end_of(self, now: float) -> float | None:
        """When a request that comes now is answered; None if it is refused."""
        while self._begins and self._begins[0] <= now:
            self._begins.popleft()
        if len(self._begins) >= self._node.queue:
            return None
        begin = max(now, self._free[0])
        heapq.heapreplace(self._free, begin + self._node.seconds)
        self._begins.append(begin)
        return begin + self._node.seconds


def simulate(
    rate: float, node: Node, nodes: int = 1, gateways: int = 1, photos: int = SIMULATED, seed: int = 1
) -> Outcome:
    """`rate` photos a second for `nodes` equal nodes behind gateways, which take them in turn and ask again when refused.

    The photos come at random times (a Poisson process), each to any gateway; these do not know of each other's turns, so
    that with many the nodes, too, are met at random. A gateway itself takes no time here.
    """
    draw = random.Random(seed)
    queues, order = [_Queue(node) for _ in range(nodes)], itertools.count()
    turns = [itertools.count(draw.randrange(nodes)) for _ in range(gateways)]
    gaps = (draw.expovariate(rate) for _ in range(photos))
    events = [(now, next(order), now, 1) for now in itertools.accumulate(gaps)]
    last, waits = events[-1][0], []
    while events:
        now, _, begun, attempt = heapq.heappop(events)
        end = queues[next(draw.choice(turns)) % nodes].end_of(now)
        if end is not None:
            waits.append((end, end - begun))
        elif attempt < ATTEMPTS:
            pause = draw.uniform(0, min(LARGEST_BACKOFF, FIRST_BACKOFF * 2 ** (attempt - 1)))
            heapq.heappush(events, (now + pause, next(order), begun, attempt + 1))
    times = sorted(wait for _, wait in waits)
    answered = sum(end <= last for end, _ in waits) / last
    return Outcome(answered, 1 - len(waits) / photos, _percentile(times, 0.5), _percentile(times, 0.99))


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan


@dataclass(frozen=True)
class Plan:
    """What `rate` photos a second take. `nodes`, `load` of each in [0, 1], `gateways` of one core each, `megabits` a second."""

    rate: float
    nodes: int
    load: float
    outcome: Outcome
    gateways: int
    megabits: float


def plan(rate: float, node: Node, most_seconds: float, gateway_rate: float, photo_bytes: int) -> Plan:
    """The fewest nodes that refuse nothing and answer 99 of 100 photos within `most_seconds`. Raises ValueError where none do.

    `gateway_rate`: photos a second that one gateway forwards at full load; it is planned to be at most half busy.
    """
    if node.seconds >= most_seconds:
        raise ValueError(f"a photo alone takes {node.seconds:g} s; expected less than the {most_seconds:g} s allowed")
    gateways = math.ceil(2 * rate / gateway_rate)
    nodes = max(1, math.ceil(rate / node.capacity / FULLEST))
    while (outcome := _settled(rate, node, nodes, gateways)).p99 > most_seconds or outcome.refused:
        nodes = max(nodes + 1, math.ceil(1.02 * nodes))
    needed = gateways if nodes > 1 else 0  # a single node needs none
    return Plan(rate, nodes, rate / node.capacity / nodes, outcome, needed, rate * photo_bytes * 8 / 1e6)


def _settled(rate: float, node: Node, nodes: int, gateways: int) -> Outcome:
    """Simulated for so long that full queues have had the time to fill."""
    return simulate(rate, node, nodes, gateways, max(SIMULATED, PHOTOS_A_NODE * nodes))
