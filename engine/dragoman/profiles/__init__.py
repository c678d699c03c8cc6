"""Third parties' profiles as data: what differs from the base profile, and where that is said.

A flag that no source speaks of stays at its base. Which host is whose is configuration, not the engine's.
"""

from __future__ import annotations

from dragoman.profiles.chat import CHAT
from dragoman.profiles.messages import MESSAGES
from dragoman.profiles.responses import RESPONSES
from dragoman.profiles.vendor import Fact, Vendor

__all__ = ("THIRD_PARTIES", "Fact", "Vendor")

THIRD_PARTIES: tuple[Vendor, ...] = (*CHAT, *MESSAGES, *RESPONSES)
"""Every named third party, by upstream dialect."""
