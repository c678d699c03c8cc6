"""Transports: how a request reaches an upstream and its response comes back.

`http11` is the transport on raw sockets, `aiohttp_transport.py` the one on aiohttp's client.
Start with `interface.py`.
"""
