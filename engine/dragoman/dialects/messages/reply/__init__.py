"""Whole Messages replies: `read.py` makes a canonical reply of a body, `write.py` makes a body of it."""
