"""Processes: one that serves until a signal, or a supervisor with several workers.

It imports every other package of the server but `cli` and `demo`.
Start with `serve.py`, then `supervisor.py`.
"""
