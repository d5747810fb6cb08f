"""What people say about answers: signed request ids, the table of feedback, and which version is better by it.

It knows no protocol and runs no model.
"""
