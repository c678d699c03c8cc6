"""Traces: one span for each exchange and one for each request to an upstream, sent to a collector by OTLP over HTTP.

`tracer.py` begins a trace, `exchange_trace.py` records it, `export_thread.py` sends it. All of it is off by default.
"""
