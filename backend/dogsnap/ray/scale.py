"""Autoscaling and resources per version: the table behind the flags of `dogsnap
deploy ray`.
"""

import dataclasses

from dogsnap.settings import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """Bounds for all versions; each one's number of replicas depends on its queue."""

    min_replicas: int = setting(1, "fewest replicas of each version", least=1)
    max_replicas: int = setting(4, "most replicas of each version", least=1)
    target_requests: float = setting(
        4.0, "requests that run or wait, for each replica; more of them bring more replicas"
    )
    replica_cpus: float = setting(1.0, "cores that a replica takes of its node")
    replica_memory_mb: int = setting(1536, "memory that a replica takes of its node, in MiB")
    upscale_seconds: float = setting(
        5.0, "how long there must be more requests before a replica is added"
    )
    downscale_seconds: float = setting(
        120.0, "how long there must be fewer requests before a replica goes"
    )
