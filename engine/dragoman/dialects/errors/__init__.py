"""Errors of upstreams, read from any form, and what of them may reach a client.

It imports everything below `dialects`, and no dialect; each dialect's `errors.py` imports it.
Start with `read.py`.
"""
