"""Administration of models: status of all versions, switches and undo."""
