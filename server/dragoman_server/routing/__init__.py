"""The choice of provider, upstream model and knobs for a client's request.

It imports `config`.
Start with `router.py`.
"""
