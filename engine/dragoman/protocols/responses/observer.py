from __future__ import annotations

from ...passthrough import Observer


class ResponsesObserver(Observer):
    pass
