"""The choice of provider, upstream model and knobs for a client's request.

It imports `config`; `observability`, `proxy` and `endpoints` may import it.
Start with `router.py`.
"""
