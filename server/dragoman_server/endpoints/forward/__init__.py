"""The endpoints that are forwarded without translation: embeddings, images, audio and others.

`endpoint.py` handles a request, `request.py` reads it and chooses its provider, `attempts.py` repeats it after a
failure, `reply.py` sends the response, and `captured_reply.py` records it.
"""
