"""The repository: every model, its versions and their states."""
