"""Runs that several processes share: responses in the background, and streams that can be resumed.

`shared_runs.py` is what the gateway uses; `interface.py` has what a store of runs does.
"""
