"""The server process: gunicorn's configuration, worker and master, and the application they run."""
