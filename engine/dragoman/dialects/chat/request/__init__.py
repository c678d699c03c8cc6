"""Chat requests: `read.py` reads a body, `write.py` writes one."""
