"""The routing that processes share: bounds of providers, the retry budget, and the issuers of responses.

Start with `interface.py` and `law.py`, then `shared_routing.py`, which is the part of one process.
"""
