"""The repository: all models, their versions and states."""
