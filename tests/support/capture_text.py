"""The text of a capture's file."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any


def readable(content: bytes) -> str:
    """A capture as text, with its bodies in base64 decoded."""
    text = content.decode()

    def decoded(value: Any) -> Iterator[str]:
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from decoded(each)
        if isinstance(value, dict) and isinstance(data := value.get("base64"), str):
            yield b64decode(data).decode("utf-8", "replace")

    return "\n".join([text, *(part for line in text.splitlines() for part in decoded(json.loads(line)))])
