"""Reasoning that only its own provider can read, kept by clients of other dialects for the next request.

It imports `canonical` and `wire`; `dialects` and `policies` import it.
Start with `envelope.py`.
"""
