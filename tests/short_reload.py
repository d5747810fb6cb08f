"""Runs a command whose reloads are given up after a shorter time: `short_reload.py SECONDS dogsnap ARGUMENT ...`."""

import sys

from backend.cli import main
from backend.http_server import arbiter

if __name__ == "__main__":
    arbiter.RELOAD_SECONDS = float(sys.argv[1])
    sys.argv = sys.argv[2:]
    main()
