"""Which provider and which upstream model a client's request goes to.

It imports `config`.
Start with `router.py`.
"""
