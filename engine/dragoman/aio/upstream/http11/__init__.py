"""The HTTP/1.1 transport on plain sockets: one `asyncio.Protocol` per pooled connection (decision 0007).

May import `dragoman.aio` except `aio.downstream`, and the engine's `errors`; never aiohttp.
Start with `transport.py`, then `connection.py` and the table in `phases.py`.
"""
