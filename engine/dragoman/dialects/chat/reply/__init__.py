"""Complete (not streamed) Chat replies: `read.py` reads a body, `write.py` writes one."""
