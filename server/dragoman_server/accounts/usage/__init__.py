"""Usage: prices, the row that is booked for each exchange, and the files that rows are written to.

May import the engine, `config.setting`, `config.config_error` and `observability`. Start with `book.py`.
"""
