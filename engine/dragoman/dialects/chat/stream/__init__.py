"""Chat streams: `reader.py` and `writer.py` translate, `validator.py` checks what was written, `observer.py` watches a
stream that is passed through."""
