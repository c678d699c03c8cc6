"""Whole (not streamed) replies of `generateContent`: `read.py` reads a body into a canonical reply."""
