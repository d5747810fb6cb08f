"""How much memory this process may still take: of the machine, and of its container."""

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
# Of versions 2 and 1 of cgroups: the limit, and what is used with the cache of files.
FILES = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def free_bytes() -> int | None:
    """What is free, or a cache of files; None where Linux does not say."""
    found = []
    machine = _read_fields(Path("/proc/meminfo")).get("MemAvailable:")
    if machine is not None:
        found.append(1024 * machine)
    for group in _cgroups():
        for limit_file, used_file in FILES:
            limit, used = _read_number(group / limit_file), _read_number(group / used_file)
            if limit is not None and used is not None:
                fields = _read_fields(group / "memory.stat")
                cache = fields.get("inactive_file", 0) + fields.get("active_file", 0)
                found.append(max(0, limit - used + cache))
    return min(found, default=None)


def _cgroups() -> set[Path]:
    """The process's own groups; in a container they are at the top."""
    groups = {CGROUPS, CGROUPS / "memory"}
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return groups
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            groups.add(CGROUPS / controllers / path.lstrip("/"))
    return groups


def _read_number(file: Path) -> int | None:
    """None for a file that is not there, and for "max"."""
    try:
        return int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _read_fields(file: Path) -> dict[str, int]:
    """Lines of a name and a number, by name."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    fields = {}
    for line in lines:
        name, number, *_ = line.split()
        fields[name] = int(number)
    return fields
