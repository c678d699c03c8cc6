"""Frames of the Responses WebSocket (responses §10): requests, answers without an upstream, and a turn's items."""
