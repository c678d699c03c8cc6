"""The gateway: its parts, which all requests share, and the handling of one request from its sending to its end.

The steps before that are in `steps`. Start with `request_handler.py`, then `pipeline.py`, `scope.py` and `exchange.py`.
"""
