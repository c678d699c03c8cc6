"""Provider profiles: the flags (`profile.py`), and the differences of third parties as data, with their sources.

A flag without a source keeps its base value. Which host belongs to which vendor is configuration, not the engine's.
"""

from __future__ import annotations

from dragoman.profiles.third_parties_chat import CHAT
from dragoman.profiles.third_parties_messages import MESSAGES
from dragoman.profiles.third_parties_responses import RESPONSES
from dragoman.profiles.third_party_entry import Fact, Vendor

__all__ = ("THIRD_PARTIES", "Fact", "Vendor")

THIRD_PARTIES: tuple[Vendor, ...] = (*CHAT, *MESSAGES, *RESPONSES)
"""Every named third party, by upstream dialect."""
