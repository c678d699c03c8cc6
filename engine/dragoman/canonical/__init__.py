"""The canonical vocabulary: requests, replies and stream events in no vendor's form.

It imports only `dragoman.errors`, `dragoman.limits` and `dragoman.losses`; every other package may import it.
Start with `events.py`, then `request.py`.
"""
