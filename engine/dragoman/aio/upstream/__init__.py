"""The upstream side: transports, which send a request to an upstream and return its response.

May import `dragoman.aio` except `aio.downstream`; only `aiohttp_transport.py` imports aiohttp.
Start with `interface.py`; `http11` is the default transport.
"""
