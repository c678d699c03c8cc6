"""The history of a conversation that was compacted, wrapped in the `compaction` item that its client sends back.

The item is an envelope as those of reasoning are (decision 0004): opaque, but neither encrypted nor signed. `expand`
replaces the items of a request by what they stand for. An item may cover the items before it: those are left out,
whether or not the client still sends them, and so is the item that requested it.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from dragoman.canonical.request import Json
from dragoman.dialects import STORED_DIALECT
from dragoman.reasoning.envelope import Envelope, unwrap_compaction
from dragoman.wire.json_codec import dumps

COMPACTION: Final = "compaction"
TRIGGER: Final = "compaction_trigger"
HEADING: Final = "Summary of the earlier conversation, in place of messages that were left out:"
"""First line of the message that has a summary."""
_FAMILY: Final = "dragoman"
_DIGEST_BYTES: Final = 6
_DIGEST: Final = 8
"""Characters of a digest in base64."""
_NOT_COVERED: Final = frozenset({"id", "status"})
"""Fields of an item that clients may leave out when they send it back."""


@dataclass(frozen=True, slots=True)
class CompactedHistory:
    """A history of which a part was replaced by a `summary`, which may be empty.

    `before` are the items that stay before the summary, `after` those that stay after it. `covered` are the digests of
    the items that all of it stands for.
    """

    summary: str
    before: Sequence[Any] = ()
    after: Sequence[Any] = ()
    covered: frozenset[str] = field(default_factory=frozenset)


class ExpandedItem(NamedTuple):
    """An item of an expanded input: its place in the input that was sent, and whether it has a summary."""

    place: int
    item: Any
    is_summary: bool = False


def is_trigger(item: Any) -> bool:
    """True for the item by which a client requests compaction."""
    return type(item) is dict and item.get("type") == TRIGGER


def digest(item: Any) -> str:
    """Return the digest by which an item is recognised when its client sends it again."""
    if type(item) is dict:
        item = sorted((key, value) for key, value in item.items() if value is not None and key not in _NOT_COVERED)
    return urlsafe_b64encode(blake2b(dumps(item), digest_size=_DIGEST_BYTES).digest()).decode()


def wrap_history(history: CompactedHistory, model: str) -> str:
    """Return the `encrypted_content` of the item. `model` is the one that wrote the summary."""
    block: Json = {
        "type": COMPACTION,
        "summary": history.summary,
        "before": list(history.before),
        "after": list(history.after),
        "covered": "".join(sorted(history.covered)),
    }
    return Envelope(_FAMILY, model).wrap(STORED_DIALECT, block)


def unwrap_history(item: Any) -> CompactedHistory | None:
    """Return the history in a `compaction` item, or None if the item is another one or was not made here."""
    content = item.get("encrypted_content") if type(item) is dict and item.get("type") == COMPACTION else None
    envelope = unwrap_compaction(content) if type(content) is str else None
    if envelope is None or envelope.block is None:
        return None
    block = envelope.block
    digests: str = block["covered"]
    covered = frozenset(digests[at : at + _DIGEST] for at in range(0, len(digests), _DIGEST))
    return CompactedHistory(block["summary"], block["before"], block["after"], covered)


def expand(items: Sequence[Any]) -> list[ExpandedItem]:
    """Return the items with those of `compaction` replaced by the history that they stand for."""
    found: list[ExpandedItem] = []  # from the last to the first, so that each item is looked up once
    covered: set[str] = set()
    for place in range(len(items) - 1, -1, -1):
        history = unwrap_history(items[place])
        if history is None:
            some = [ExpandedItem(place, items[place])]
        else:
            some = [ExpandedItem(place, each) for each in history.after]
            some.reverse()
            if history.summary:
                some.append(ExpandedItem(place, summary_message(history.summary), True))
            some += [ExpandedItem(place, each) for each in reversed(history.before)]
        if covered:
            some = [each for each in some if not is_trigger(each.item) and digest(each.item) not in covered]
        found += some
        if history is not None:
            covered |= history.covered
    found.reverse()
    return found


def last_history(items: Sequence[Any]) -> int:
    """Return the index of the last item that stands for a history, or -1."""
    last = len(items) - 1
    while last >= 0 and unwrap_history(items[last]) is None:
        last -= 1
    return last


def summary_message(summary: str) -> Json:
    """Return the message of the user that has a summary."""
    return {"type": "message", "role": "user", "content": f"{HEADING}\n\n{summary}"}
