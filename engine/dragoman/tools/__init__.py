"""Tools and tool calls in any dialect: names, call ids, and kinds of tools that an upstream lacks.

It imports `canonical`, `profiles` and `wire`; `stages`, `dialects` and `policies` import it.
Start with `bridge.py`.
"""
