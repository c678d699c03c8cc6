"""`dragoman demo`: scenes with real requests through the gateway to the simulated upstream, drawn side by side.

May import every other package of the server except the rest of `cli`; only `cli/main.py` imports it.
Start with `run.py`, then `scenes.py`.
"""
