"""The sync stages that a reply's stream passes through, apart from the dialects' own readers and writers.

A stage has `feed(batch) -> batch` and `finish() -> batch`. Stages import `canonical`, `wire` and `tools`.
Start with `base.py`.
"""
