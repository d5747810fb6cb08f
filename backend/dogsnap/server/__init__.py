"""The server process: gunicorn's settings and hooks, and the start of the gRPC server."""
