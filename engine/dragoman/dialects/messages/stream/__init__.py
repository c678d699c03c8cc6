"""Messages streams: `reader.py` and `writer.py` translate, `observer.py` observes streams that are passed through."""
