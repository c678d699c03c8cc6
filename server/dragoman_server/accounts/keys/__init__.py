"""Named keys: what is kept of one, and how a client's key is compared with it.

It imports `accounts.limits`, `config.setting` and `config.config_error`; the rest of `accounts` imports it.
Start with `record.py`, then `secret.py`.
"""
