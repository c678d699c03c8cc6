"""Chat Completions: its requests, replies, streams and errors.

It imports `dialects.openai`, `dialects.shared` and `dialects.errors`; `dialects.codec` imports it.
Start with `stream/reader.py`.
"""
