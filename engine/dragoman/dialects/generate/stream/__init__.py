"""Streams of `generateContent`: `reader.py` reads them, `parts.py` their content."""
