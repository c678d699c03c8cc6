"""Tools and tool calls in any dialect: names, call ids, and tool kinds that an upstream lacks.

It imports `canonical` and `wire`; `stages`, `dialects` and `policies` import it.
Start with `bridge.py`.
"""
