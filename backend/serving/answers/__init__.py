"""What an answer claims: its level, and the names of the breeds."""
