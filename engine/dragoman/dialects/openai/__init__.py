"""Formats that Chat Completions and Responses share, as APIs of one vendor.

It imports `dialects.shared` and `dialects.errors`; `dialects.chat` and `dialects.responses` import it.
Start with `media.py`.
"""
