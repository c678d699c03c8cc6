"""Runs whose upstream generates their response in the background, so that another process can go on with them.

Start with `handover.py`.
"""
