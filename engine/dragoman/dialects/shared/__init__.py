"""What the three dialects have in common, whatever the vendor.

It imports everything below `dialects`, and no dialect.
Start with `stream_codec.py`.
"""
