from __future__ import annotations

from typing import Any


def read_reply(*args: Any, **more: Any) -> Any:
    raise NotImplementedError


def write_reply(*args: Any, **more: Any) -> Any:
    raise NotImplementedError
