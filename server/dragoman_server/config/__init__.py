"""The configuration: its schema, and how it is read from TOML, a dict or the environment.

It imports the engine only; every other package of the server may import it.
Start with `schema.py`, then `load.py`.
"""
