"""Which version answers: what was chosen, its log and undo.

It knows versions by number alone.
"""
