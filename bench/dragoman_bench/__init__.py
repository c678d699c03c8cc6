"""The benchmark rig: measures gateways side by side, under equal load, on one machine.

It imports of the project only what `converters` compares; nothing of the project imports it but `dragoman bench`.
Start with `cli.py`, then `runner.py`, `rig.py` and `scenarios.py`.
"""
