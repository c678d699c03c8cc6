"""Logs, metrics and receipts: what an operator sees of each request.

It imports `config`; `proxy`, `endpoints` and `workers` import it.
Start with `receipts.py`, then `metrics.py`.
"""
