"""The server process: gunicorn's configuration, worker and arbiter, and the start of the gRPC server."""
