"""Named keys of clients, their limits and budgets, and the stores that hold both.

It imports only the engine, `config.setting` and `config.config_error`; `config`, `proxy`, `endpoints` and `cli` import
it.

Start with `accounts.py`, then `limits/claim.py` and `store/interface.py`.
"""
