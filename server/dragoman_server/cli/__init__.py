"""The commands of `dragoman`: one module each, with `add_arguments(parser)` and `main(args, …)` → exit status.

May import every other package of the server; only `__main__.py` imports it.
Start with `main.py`, which has the parser.
"""
