"""The rig's own gateways, one process each.

They import nothing of `dragoman_bench` but `serving`, so that no process has another's memory.
Start with `relay.py`.
"""
