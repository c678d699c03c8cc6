"""Server processes: one process that serves until a signal, or a supervisor with several workers.

May import every package of the server except `cli` and `demo`; `cli` and `demo` import it.
Start with `serve.py` (one process), then `supervisor.py` and `worker.py`.
"""
