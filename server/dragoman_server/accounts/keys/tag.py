"""The tag of an exchange: a free word of a request or of a key, by which usage is added up."""

from __future__ import annotations

import re
from typing import Final

TAG_HEADER: Final = "x-dragoman-tag"
"""The header of a request with the tag of its exchange. It is never forwarded."""
TAG_RULE: Final = "1 to 64 letters, digits, '.', '_', '@', ':', '/', '+' and '-'"
_TAG: Final = re.compile(r"[A-Za-z0-9._@:/+-]{1,64}\Z")


def is_tag(text: str) -> bool:
    """True for a text that may be a tag."""
    return _TAG.match(text) is not None
