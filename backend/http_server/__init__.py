"""The server process: gunicorn's configuration, worker and arbiter, and the start of the gRPC server."""

import gunicorn

GUNICORN = "27.0.1"  # of whose private parts worker and arbiter are made

if gunicorn.__version__ != GUNICORN:
    raise ImportError(
        f"the server needs gunicorn {GUNICORN}, found {gunicorn.__version__}; install the locked dependencies with `make setup`"
    )
