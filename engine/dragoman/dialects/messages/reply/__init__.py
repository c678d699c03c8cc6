"""Whole (not streamed) Messages replies: `read.py` reads a body into a canonical reply, `write.py` writes one."""
