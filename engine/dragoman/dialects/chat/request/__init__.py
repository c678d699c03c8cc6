"""Chat Completions requests: `read.py` makes a canonical request of a body, `write.py` makes a body of it."""
