"""Users' feedback on answers: signed request ids, the table of feedback, and
the report on it.
"""
