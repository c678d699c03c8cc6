"""Logs, metrics and receipts: the operator's view of each request.

It imports `config`; `proxy`, `endpoints` and `workers` import it.
Start with `receipts.py`, then `metrics.py`.
"""
