"""Limits and budgets of a key, without I/O: what a request claims, whether it is admitted, and what is settled.

It imports nothing of the server but `config.setting` and `config.config_error`; all of `accounts` imports it.
Start with `key_limits.py`, then `claim.py` and `decision.py`.
"""
