"""Statements of an upstream about its service of a reply, besides content and token counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ServiceReport:
    """The statements of one reply. None means that the upstream made no such statement.

    Clients get the tier and the searches where their dialect has a field; the rest is for receipts and usage rows.
    """

    tier: str | None = None
    """The service tier that served, in OpenAI's words: `default`, `priority`, `flex`. A vendor may have others."""
    speed: str | None = None
    """The speed that served, in Messages' words: `standard`, `fast`."""
    cost: float | None = None
    """The vendor's price of the reply, in US dollars."""
    searches: int | None = None
    """The number of paid web searches."""
    calls: dict[str, int] | None = None
    """The calls of the upstream's other tools, by the tool: `web_fetch`, `file_search`, `code_interpreter`."""
    input_transformations: list[dict[str, Any]] | None = field(default=None, repr=False)
    """The parts of the request that the upstream removed: the type of each, the reason, the position."""
    applied_edits: list[dict[str, Any]] | None = field(default=None, repr=False)
    """The edits of context management that were made, with their counts."""
