"""Third parties' profiles as data: what differs from the base profile, and where that is said.

A flag that no source speaks of stays at its base. Which host is whose is configuration, not the engine's.
"""

from __future__ import annotations

from .chat import CHAT
from .messages import MESSAGES
from .responses import RESPONSES
from .vendor import Fact, Vendor

__all__ = ("NAMED", "Fact", "Vendor")

NAMED: tuple[Vendor, ...] = (*CHAT, *MESSAGES, *RESPONSES)
"""Every named third party, by upstream dialect."""
