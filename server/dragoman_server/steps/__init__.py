"""The steps of a request before it is sent. `pipeline.py` has their order.

Each takes a request's scope and draft, and changes the draft for the next one. Those that wait for nothing are no
coroutines. It raises a `DragomanError` for a
request that it rejects. Nothing is sent upstream before all of them have succeeded.
"""
