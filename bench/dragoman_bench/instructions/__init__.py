"""The deterministic meter: user-space instructions of a gateway process, counted by valgrind's callgrind.

It imports `agent_request`, `gateways`, `machine`, `scenarios`, `tables`, `wire` and the replies; `cli` imports it.
Start with `command.py`, then `measure.py`. `saved.py` compares with the saved counts, without valgrind.
"""
