"""Chat streams: `reader.py` and `writer.py` translate, `observer.py` watches a stream that is passed through."""
