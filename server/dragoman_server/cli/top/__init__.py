"""`dragoman top`: a live view of a running gateway. Start with `command.py`; `screen.py` draws with rich."""
