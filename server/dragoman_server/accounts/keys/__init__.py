"""Named keys: what is kept of one, and how a client's key is compared with it.

It imports nothing of the server but `config.toml_reader`; all of `accounts` imports it.
Start with `record.py`, then `keyring.py`.
"""
