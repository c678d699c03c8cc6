"""Sends spans and metrics to a collector by OTLP over HTTP. It needs the extra `otel`, and is imported only if used."""
