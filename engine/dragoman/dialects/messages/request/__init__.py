"""Messages requests: `read.py` reads a body into a canonical request, `write.py` writes one as a body."""
