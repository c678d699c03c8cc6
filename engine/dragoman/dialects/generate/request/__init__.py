"""Requests of `generateContent`: `write.py` writes one as a body. Its path is in the dialect's facts."""
