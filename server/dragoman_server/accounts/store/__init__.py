"""The stores of limits, budgets, keys and cooldowns: memory, SQLite and Redis behind one interface.

It imports `accounts.limits` and `accounts.keys`; `accounts.accounts` and the command `keys` import it.
Start with `interface.py`, then `memory.py`.
"""
