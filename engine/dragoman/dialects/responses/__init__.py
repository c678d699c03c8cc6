"""The Responses dialect: requests, replies, streams and errors of OpenAI's Responses API.

Imports no other dialect; `dialects.all_codecs` imports it. Start with `stop_and_usage.py` for names and counts,
`stream/reader.py` for the order of events.
"""
