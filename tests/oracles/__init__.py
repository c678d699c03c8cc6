"""Independent judges of what the project sends: request checks per dialect, and a simulator that applies them.

They import nothing of the engine; of the server only the simulator, whose errors they raise.
Start with `requests/__init__.py`.
"""
