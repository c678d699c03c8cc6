"""The dialect of Anthropic's Messages API: readers and writers of requests, whole replies, streams and errors.

It imports `canonical`, `wire`, `tools`, `reasoning`, `profiles`, `stages`, `dialects.shared` and `dialects.errors`;
`dialects.all_codecs` imports it. Start with `stop_and_usage.py`, then `stream/reader.py` and `request/read.py`.
"""
