"""What Chat Completions and Responses have in common: the forms of one vendor's two APIs.

It imports `dialects.shared` and `dialects.errors`; `dialects.chat` and `dialects.responses` import it.
Start with `media.py`.
"""
