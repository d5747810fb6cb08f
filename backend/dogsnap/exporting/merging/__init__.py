"""Merges decoding in front of a network: finds its image input, its outputs and
their ranges, and builds the signatures.
"""
