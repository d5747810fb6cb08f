"""What administrators see and change: the overview of all models, and the switchboard."""
