"""Installs packages into an environment of its own: `python3 backend/install.py FOLDER`, and what `pip install` takes.

uv installs, since it takes 8 seconds for what takes pip 30, and 1 second for what it has
downloaded before. Where it is not installed yet, or fails, pip does. Runs with the
machine's Python, and needs nothing but its standard library.
"""

import os
import subprocess
import sys
from pathlib import Path

PYTHONS = (3, 11), (3, 14)  # the first that works, and the first that does not
FIRST_PIP = 22, 3  # that installs into another environment


def main(folder: str, *wanted: str) -> int:
    """The exit status; `wanted` are arguments of `pip install`."""
    check_python()
    environment = Path(folder)
    if not (environment / "bin" / "python").exists():
        make_environment(environment)
    if install_with_uv(environment, wanted):
        return 0
    return subprocess.call([*pip(environment), "install", "--no-compile", *wanted])


def check_python() -> None:
    first, end = PYTHONS
    if not first <= sys.version_info[:2] < end:
        running = "{}.{}".format(*sys.version_info[:2])
        sys.exit(
            f"dogsnap needs Python 3.11 to 3.13, this is {running}: make PYTHON=python3.11 ..."
        )


def make_environment(folder: Path) -> None:
    """Without a pip of its own, which takes 3 seconds, where the machine's can install into it."""
    own_pip = ["--without-pip"] if machine_has_pip() else []
    subprocess.check_call([sys.executable, "-m", "venv", *own_pip, str(folder)])


def machine_has_pip() -> bool:
    try:
        import pip
    except ImportError:
        return False
    return tuple(int(part) for part in pip.__version__.split(".")[:2]) >= FIRST_PIP


def pip(environment: Path) -> list[str]:
    """The command that runs pip for the environment."""
    own = environment / "bin" / "pip"
    if own.exists():
        return [str(own), "--disable-pip-version-check"]
    python = str(environment / "bin" / "python")
    return [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]


def install_with_uv(environment: Path, wanted: tuple[str, ...]) -> bool:
    """Whether uv has installed it. Of pip's configuration it is told the package index, and it
    trusts the certificates of the system, where a company's TLS proxy has its own; a proxy
    both read from the environment.
    """
    uv = environment / "bin" / "uv"
    if not uv.exists():
        return False
    environ = {**os.environ, "UV_SYSTEM_CERTS": "1"}
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL")
    index = index or configured_index(environment)
    if index:
        environ["UV_DEFAULT_INDEX"] = index
    python = environment / "bin" / "python"
    command = [str(uv), "pip", "install", "--python", str(python), *wanted]
    try:
        is_done = subprocess.call(command, env=environ) == 0
    except OSError:  # e.g. made for another processor
        is_done = False
    if not is_done:
        print("dogsnap: uv failed, so pip installs the same packages ...", file=sys.stderr)
    return is_done


def configured_index(environment: Path) -> str:
    """The package index of pip's configuration files; "" for the usual one."""
    command = [*pip(environment), "config", "get", "global.index-url"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    return asked.stdout.strip() if asked.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
