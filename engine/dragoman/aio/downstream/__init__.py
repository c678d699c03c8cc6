"""The client's side: connections, requests and streamed responses on top of aiohttp's server.

It may touch aiohttp's internals; nothing outside of this package does.
Start with `response.py`.
"""
