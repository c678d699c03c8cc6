"""Responses streams: `reader.py` and `writer.py` translate, `observer.py` watches a passthrough stream,
`validator.py` checks output."""
