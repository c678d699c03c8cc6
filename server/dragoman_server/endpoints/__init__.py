"""The endpoints other than the proxied ones: token counts, model lists, receipts, explanations, metrics.

They import `proxy` and what it imports; `app.py` imports them.
Start with `model_list.py`, then `diagnostics.py`.
"""
