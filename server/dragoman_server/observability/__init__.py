"""Logs, metrics and receipts: the operator's view of each request.

It imports `config`; `proxy`, `endpoints`, `workers` and `cli` import it.
Start with `receipts.py`, then `metrics.py`.
"""
