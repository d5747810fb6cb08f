"""This machine's processor: its name, its instructions, and how many cores this
process may use.
"""

import os
import platform
from pathlib import Path

# Each adds the four products of an int8 multiplication in 32 bits.
INT8 = {"avx512_vnni", "avx_vnni", "amx_int8"}
BFLOAT16 = {"amx_bf16", "avx512_bf16"}


def name() -> str:
    return _read_field("model name") or platform.processor() or platform.machine()


def instructions() -> set[str]:
    """The names of its sets of instructions; empty where Linux does not list them."""
    return set(_read_field("flags").split())


def int8_weight_bits() -> int:
    """Bits that int8 weights may have here: 7 on x86 processors without VNNI,
    whose sums of products overflow with 8.
    """
    known = instructions()
    sums_overflow = known and not known & INT8
    return 7 if sums_overflow else 8


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read_field(field: str) -> str:
    """The value of a field for the first core; "" where Linux does not list it."""
    file = Path("/proc/cpuinfo")
    if not file.is_file():
        return ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(field):
            return line.partition(":")[2].strip()
    return ""
