"""Middleware for every request: API keys, rate limits, request ids, security
headers, connections, overload.
"""
