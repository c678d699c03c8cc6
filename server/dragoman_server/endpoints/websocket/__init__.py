"""The WebSocket of `/v1/responses`: `endpoint.py` accepts connections, `connection.py` serves one.

Each `response.create` runs as a request over HTTP does (`turn.py`). What a response is continued from is in memory
(`history.py`), until the connection closes.
"""
