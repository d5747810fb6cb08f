"""What an answer claims: its level, the names of the breeds, and whether they are right."""
