"""The configuration: its schema, and its readers for TOML, a dict and the environment.

May import the engine only (`lint` also imports `routing`); every other package of the server may import it.
Start with `schema.py`, then `load.py`.
"""
