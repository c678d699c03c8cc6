"""Responses streams: `reader.py` and `writer.py` translate, `observer.py` watches.

`read_*.py` and `item_state.py` are parts of the reader, `written_*.py` of the writer.
"""
