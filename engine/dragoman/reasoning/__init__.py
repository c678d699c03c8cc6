"""Reasoning that only its own provider can read, and how it is kept for the next turn.

It imports `canonical` and `wire`; `dialects` and `policies` import it.
Start with `envelope.py`.
"""
