"""Limits and budgets of a key, without I/O: what a request claims, whether it is admitted, and what is settled.

It imports `accounts.keys`; the stores and `accounts.accounts` import it.
Start with `claim.py`, then `decision.py`.
"""
