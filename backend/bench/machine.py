"""Describes the machine that a measurement ran on."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

INT8_FLAGS = {"avx512_vnni", "avx_vnni", "amx_int8"}  # of processors with instructions for int8
# TensorFlow and the other runtimes for networks.
PACKAGES = ("tensorflow", "tensorflow-cpu", "onnxruntime", "openvino", "numpy", "litserve")


def describe() -> dict[str, Any]:
    """Processor, cores, memory, system, current load, and versions."""
    return {
        "processor": _first_value(Path("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "packages": {name: number for name in PACKAGES if (number := _installed(name))},
    }


def multiplies_int8() -> bool:
    """Whether the processor has instructions that multiply int8 (VNNI or AMX)."""
    return not INT8_FLAGS.isdisjoint(_first_value(Path("/proc/cpuinfo"), "flags").split())


def line(machine: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']:g} GB of memory; {machine['system']}; "
        f"Python {machine['python']}, {packages}; load before the run: {machine['load_before']:g}"
    )


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _first_value(file: Path, name: str) -> str:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
