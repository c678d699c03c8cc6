"""Errors and headers of upstreams: reading errors of any form, redaction, and what a client may receive of them.

It imports everything below `dialects`, and no dialect; each dialect's `errors.py` imports it.
Start with `read.py`.
"""
