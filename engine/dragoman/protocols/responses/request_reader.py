from __future__ import annotations

from typing import Any


def read_request(*args: Any, **more: Any) -> Any:
    raise NotImplementedError
