"""Receipts, rows of the console, and states of processes, which the hosts of one store share.

`shared_hosts.py` is what the gateway uses; `interface.py` has what a store does.
"""
