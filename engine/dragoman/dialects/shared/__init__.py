"""Code that the three dialects share.

It imports everything below `dialects`, and no dialect.
Start with `stream_codec.py`.
"""
