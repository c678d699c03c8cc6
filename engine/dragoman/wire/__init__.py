"""Bytes: server-sent events, JSON, and templates of repeated frames.

It imports `canonical` and the top-level modules below `translate`; it knows no dialect.
Start with `sse.py`.
"""
