"""What the system says of this machine's processor, and how many cores this process may use."""

import os
import platform
from pathlib import Path

INT8 = {
    "avx512_vnni",
    "avx_vnni",
    "amx_int8",
}  # each adds the four products of an int8 multiplication in 32 bits
BFLOAT16 = {"amx_bf16", "avx512_bf16"}


def name() -> str:
    return _value("model name") or platform.processor() or platform.machine()


def instructions() -> set[str]:
    """The names of its sets of instructions; empty where Linux does not list them."""
    return set(_value("flags").split())


def int8_weight_bits() -> int:
    """Bits that int8 weights may have here: 7 on x86 processors without VNNI, whose sums of products overflow with 8."""
    known = instructions()
    return 7 if known and not known & INT8 else 8


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _value(field: str) -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")
