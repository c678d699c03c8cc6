"""Captures: the requests and replies of chosen exchanges, kept in files.

`store.py` lists and reads them, `exchange_capture.py` records them, and `replay.py` translates them again.
"""
