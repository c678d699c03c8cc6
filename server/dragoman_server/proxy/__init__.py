"""The way of one request through the gateway, from the client's headers to the end of the reply.

It imports `config`, `routing` and `observability`.
Start with `gateway.py`, then `exchange.py`.
"""
