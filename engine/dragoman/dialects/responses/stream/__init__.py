"""Responses streams: `reader.py` and `writer.py` translate, `observer.py` watches, `validator.py` checks.

`read_*.py` and `item_state.py` are parts of the reader, `written_*.py` of the writer, `validate_*.py` of the validator.
"""
