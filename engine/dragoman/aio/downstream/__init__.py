"""The downstream side: client connections, requests and streamed responses, on top of aiohttp's server.

May import `dragoman.aio` except `aio.upstream`. Only this package touches aiohttp's server, and only
`aiohttp_internals.py` its private parts. Start with `response.py`.
"""
