"""Whole Responses replies: `read.py` reads a body to the canonical reply, `write.py` writes one."""
