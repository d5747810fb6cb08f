"""Describes the machine that a measurement ran on."""

import os
import platform
from importlib.metadata import distributions
from typing import Any

from dogsnap import processor

# TensorFlow and the other runtimes for networks.
PACKAGES = ("tensorflow", "tensorflow-cpu", "onnxruntime", "openvino", "numpy", "litserve")


def describe() -> dict[str, Any]:
    """Processor, cores, memory, system, current load, and versions."""
    installed = {each.name: each.version for each in distributions()}
    return {
        "processor": processor.name(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "packages": {name: installed[name] for name in PACKAGES if name in installed},
    }


def line(machine: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']:g} GB of memory; {machine['system']}; "
        f"Python {machine['python']}, {packages}; load before the run: {machine['load_before']:g}"
    )
