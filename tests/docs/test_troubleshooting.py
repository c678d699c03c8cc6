"""docs/howto/troubleshooting.md quotes messages that the code has."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/howto/troubleshooting.md"


def test_every_quoted_message_is_in_the_code() -> None:
    sources = [path.read_text("utf-8") for tree in ("engine", "server") for path in (ROOT / tree).rglob("*.py")]
    joined = re.sub(r'"\s*\n\s*f?"', "", "\n".join(sources))  # adjacent literals are one string
    quoted = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(quoted) > 15
    assert [message for message in quoted if message not in joined] == []
