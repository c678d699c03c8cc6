"""The model APIs. One package per dialect holds its facts, and its readers and writers.

A dialect's package imports `shared`, `errors` and (the two OpenAI dialects) `openai`, never another dialect. Start with
`facts.py` and `codec.py`, which list what each dialect provides; `all_codecs.py` imports a dialect at its first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from typing import Final

from dragoman.dialects.facts import WireFacts


class Dialect(StrEnum):
    """A model API's wire format. Each has the package `dialects/<value>/`, with its facts and its codec."""

    CHAT = "chat"
    MESSAGES = "messages"
    RESPONSES = "responses"
    GENERATE = "generate"

    facts: WireFacts

    @property
    def path(self) -> str:
        """The path of its endpoint below the vendor's base URL, such as `chat/completions`."""
        return self.facts.path

    @property
    def request_id_header(self) -> str:
        """The response header in which the dialect's SDKs look for the request id."""
        return self.facts.request_id_header

    # Enum's own is a Python call, in each of the many tables by dialect; and it differs from that of the equal string.
    __hash__ = str.__hash__


for _dialect in Dialect:
    _dialect.facts = import_module(f"dragoman.dialects.{_dialect}.facts").FACTS

FACTS: Final[Mapping[str, WireFacts]] = {dialect: dialect.facts for dialect in Dialect}
"""The facts of each dialect, by its value too."""
COUNT_ENDPOINTS: Final = {dialect: count for dialect in Dialect if (count := dialect.facts.count) is not None}
"""The endpoints that count tokens, of the dialects that have one."""
CLIENT_DIALECTS: Final = tuple(dialect for dialect in Dialect if dialect.facts.client)
"""The dialects of clients. All dialects are those of upstreams."""
DEFAULT_DIALECT: Final = Dialect.CHAT
"""The dialect where none is known: that of most servers, and of the endpoints that are forwarded."""
STORED_DIALECT: Final = next(dialect for dialect in Dialect if dialect.facts.stored)
"""The dialect whose responses are stored."""
