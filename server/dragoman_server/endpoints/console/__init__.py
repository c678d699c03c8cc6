"""The console: a page at `/ui` with live traffic, one exchange in detail, a playground and charts.

Nothing of it runs for a request, apart from `observability/failure_reasons.py`: it reads receipts and counters that
exist anyway, when a page asks for them. Start with `console.py`, then `access.py` and `live.py`. The page itself is in
`static/`.
"""
