"""Chat Completions: its requests, replies, streams and errors.

It imports `dialects.openai`, `dialects.shared` and `dialects.errors`; `dialects.all_codecs` imports it.
Start with `stream/reader.py`.
"""
