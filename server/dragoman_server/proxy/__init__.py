"""One proxied request, from the client's headers to the end of the reply.

It imports `config`, `routing` and `observability`; `endpoints`, `workers` and `app.py` import it.
Start with `gateway.py`, then `resolve_request.py` and `exchange.py`.
"""
