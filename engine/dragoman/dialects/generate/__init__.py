"""The dialect of Gemini's `generateContent`, for upstreams: requests are written; replies, streams and errors are read.

It imports `canonical`, `wire`, `tools`, `reasoning`, `profiles`, `stages`, `dialects.shared` and `dialects.errors`;
`dialects.all_codecs` imports it. Start with `stop_and_usage.py`, then `stream/reader.py` and `request/write.py`.
"""
