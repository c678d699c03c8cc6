"""The endpoints that are not a proxied request: token counts, model lists, receipts, explain, metrics.

They import `proxy` and what `proxy` imports.
Start with `diagnostics.py`.
"""
