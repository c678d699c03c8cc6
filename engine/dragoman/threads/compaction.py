"""Compaction: what of a conversation stays, what is shortened, and what becomes a summary. Does no I/O.

What the user wrote and what instructs the model always stays. Of everything else, old images go first, then the middles
of long tool results, then old reasoning. What is left of it becomes one text, of which a model writes the summary. The
newest step of a tool loop stays as it is, as the model has not answered it yet.

A conversation is compacted once, when it has reached a threshold, and its items stay the same until it reaches that
again. So prompt caches hold in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.responses.request.read import read_request
from dragoman.errors import Path
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.limits import Limits
from dragoman.losses import LossCode, Losses
from dragoman.reasoning.compacted_history import CompactedHistory, ExpandedItem, digest, expand, wrap_history
from dragoman.threads.compaction_items import (
    as_json,
    is_call,
    is_instruction,
    is_output,
    is_users,
    kind,
    shortened,
    shortened_output,
    text_tokens,
    texts_of,
    tokens_of,
    without_images,
)
from dragoman.threads.item_list import shown_items
from dragoman.threads.stored_request import own_items
from dragoman.wire.json_codec import dumps, loads

Row = tuple[LossCode, Path, str]
"""A loss: its code, the path of the item, and what was done."""
KEEP: Final = 2_000
"""Most tokens of the newest steps that stay, unless the last one is not answered yet."""
LOWER: Final = 0.5
"""Share of the threshold that eviction alone must reach, so that no summary is needed."""
WORTH: Final = 0.2
"""Least share of the threshold that a compaction must save. Else it would be made with nearly every turn."""
PROMPT: Final = """\
You are given the record of a conversation between a user and an assistant that may call tools. Write a summary by \
which the assistant can go on with the work without the record. Keep: the task and its state, decisions and their \
reasons, facts that tools have returned and that are still needed (names, paths, numbers, identifiers, errors), what \
was changed, and what remains to be done. Messages of the user are kept word for word elsewhere; do not repeat them. \
Do not go on with the conversation, and do not address the user. Write plain text."""
"""The instructions of the request for a summary."""


def input_tokens(payload: Json) -> int:
    """Return the estimated tokens of a Responses request whose `input` is a list."""
    total = 0
    for place in expand(payload["input"]):
        total += tokens_of(place.item)
    for key in ("instructions", "tools"):
        if payload.get(key):
            total += tokens_of(payload[key])
    return total


@dataclass(slots=True)
class Compaction:
    """The parts of a conversation that is compacted.

    `instructions` and `asked` (messages of the user) stay before the summary, `newest` stays after it. `summarised` is
    the number of items that the summary stands for, and `record` the text of which it is written. `rows` are the
    losses.
    """

    instructions: list[Any] = field(default_factory=list, repr=False)
    asked: list[Any] = field(default_factory=list, repr=False)
    newest: list[Any] = field(default_factory=list, repr=False)
    summarised: int = 0
    record: str = field(default="", repr=False)
    rows: list[Row] = field(default_factory=list, repr=False)
    covered: frozenset[str] = field(default=frozenset(), repr=False)

    def request(self, model: str) -> Json:
        """Return the Responses request for the summary."""
        message = {"type": "message", "role": "user", "content": f"{self.record}\n\nWrite the summary now."}
        return {"model": model, "instructions": PROMPT, "input": [message], "store": False}

    def wrapped(self, summary: str, model: str) -> str:
        """Return the `encrypted_content` of an item that stands for all of the conversation."""
        before = [*self.instructions, *self.asked]
        return wrap_history(CompactedHistory(summary, before, self.newest, self.covered), model)

    def window(self) -> list[Any]:
        """Return the items that `POST /v1/responses/compact` returns before its item: those of the user, and
        instructions.
        """
        return [*self.instructions, *self.asked, *filter(is_users, self.newest)]

    def wrapped_window(self, summary: str, model: str) -> str:
        """Return the `encrypted_content` of the item after those of `window`."""
        after = [item for item in self.newest if not is_users(item)]
        return wrap_history(CompactedHistory(summary, (), after), model)


def compacted_response(window: Sequence[Any], response: Json) -> Json:
    """Return the reply to `POST /v1/responses/compact` for the Response object of the summary.

    The output of that is the `compaction` item; `window` are the items before it.
    """
    return {
        "id": response["id"],
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": [*shown_items(window, response["id"]), *response["output"]],
        "usage": response["usage"],
    }


def checked_items(payload: Json, limits: Limits) -> list[Any]:
    """Return the items of a Responses request. Raises ClientRequestError if they cannot be translated."""
    items = own_items(payload)
    # A copy: reading a request may complete it in place.
    body = {"model": payload["model"], "input": loads(dumps(items))}
    read_request(body, Losses(), DEFAULT_KNOBS, limits)
    return items


def plan(items: Sequence[Any], keep: int = KEEP, room: int = 0) -> Compaction:
    """Return how these items are compacted with a summary.

    Args:
        items: The conversation.
        keep: The most tokens of newest steps that stay. They do not if nothing else could be summarised.
        room: The most tokens of the record, of which the middle is left out; 0: no limit.
    """
    found = _plan(expand(items), keep, room)
    return found if found.summarised or not keep else _plan(expand(items), 0, room)


def _plan(expanded: Sequence[ExpandedItem], keep: int, room: int) -> Compaction:
    found = Compaction(covered=_digests(expanded))
    last = max((at for at, each in enumerate(expanded) if is_users(each.item) and not each.is_summary), default=-1)
    start = _newest(expanded, last + 1, keep)
    record: list[str] = []
    summarised: list[int] = []
    for at, (place, item, is_summary) in enumerate(expanded):
        where: Path = ("input", place)
        if is_instruction(item):
            found.instructions.append(item)
        elif is_users(item) and not is_summary:
            if at == last:
                found.newest.append(item)
            else:
                found.asked.append(_without_images(item, where, found.rows))
            record.append(f"User:\n{shortened(texts_of(item))[0]}")
        elif at >= start:
            found.newest.append(item)
        else:
            record.append(_recorded(item, where, found.rows))
            summarised.append(place)
    record, left_out = _fitted(list(filter(None, record)), room)
    if summarised:
        done = f"{len(summarised)} items up to input[{summarised[-1]}] became a summary"
        if left_out:
            done += f", without {left_out} that do not fit into the context window of its model"
        found.rows.append((LossCode.HISTORY_SUMMARISED, ("input", summarised[0]), done))
    found.summarised, found.record = len(summarised), "\n\n".join(record)
    return found


def _fitted(record: list[str], room: int) -> tuple[list[str], int]:
    """Return the entries of a record that fit into so many tokens, and the number of those that do not.

    A quarter is for the first ones, the rest for the last ones.
    """
    sizes = [text_tokens(entry) for entry in record]
    if not room or sum(sizes) <= room:
        return record, 0
    first = sum(total <= room // 4 for total in accumulate(sizes))
    last = sum(total <= room - room // 4 for total in accumulate(reversed(sizes)))
    left_out = len(record) - first - last
    note = f"[{left_out} entries of the record were left out]"
    return [*record[:first], note, *record[len(record) - last :]], left_out


def evict(items: Sequence[Any], total: int, threshold: int) -> Compaction | None:
    """Return how these items are compacted without a summary, or None if that does not save enough.

    `total` are their tokens, with those of the rest of the request.
    """
    expanded = expand(items)
    last = max((at for at, each in enumerate(expanded) if is_users(each.item) and not each.is_summary), default=0)
    start = _newest(expanded, last + 1, KEEP)
    rows: list[Row] = []
    old: list[Any] = [each.item for each in expanded[:start]]
    lower = threshold * LOWER
    evictions: tuple[Callable[[Any, Path, list[Row]], Any], ...] = (_without_images, _shortened, _without_reasoning)
    for evicted in evictions:
        for at, item in enumerate(old):
            if total <= lower:
                break
            if at == last or item is None:
                continue
            left = evicted(item, ("input", expanded[at].place), rows)
            if left is not item:
                total -= tokens_of(item) - (tokens_of(left) if left is not None else 0)
                old[at] = left
    if total > lower:
        return None
    kept = [item for item in old if item is not None]
    newest = [each.item for each in expanded[start:]]
    return Compaction([], kept, newest, 0, "", rows, _digests(expanded))


def saved(compaction: Compaction, items: Sequence[Any]) -> int:
    """Return the tokens that a compaction removes from these items, without those of its summary."""
    kept = [*compaction.instructions, *compaction.asked, *compaction.newest]
    return sum(tokens_of(each.item) for each in expand(items)) - sum(map(tokens_of, kept))


def is_worth(compaction: Compaction, items: Sequence[Any], threshold: int) -> bool:
    """True if a compaction saves enough of a conversation that has reached a threshold."""
    return saved(compaction, items) >= threshold * WORTH


def _newest(expanded: Sequence[ExpandedItem], first: int, keep: int) -> int:
    """Return the index from which on items stay: newest steps after `first`, up to `keep` tokens.

    A step is what the model wrote in one reply, and the outputs of its calls. The last one always stays while the model
    has to answer it.
    """
    start = end = len(expanded)
    total = 0
    for at in range(end - 1, first - 1, -1):
        item = expanded[at].item
        total += tokens_of(item)
        if at > first and (is_output(item) or not is_output(expanded[at - 1].item)):
            continue  # a step begins after an output
        if total > keep and (start < end or not _is_open(expanded[-1].item)):
            break
        start = at
    return start


def _digests(expanded: Sequence[ExpandedItem]) -> frozenset[str]:
    return frozenset(digest(each.item) for each in expanded)


def _is_open(item: Any) -> bool:
    return is_output(item) or is_call(item) or kind(item) == "reasoning"


# --- what may go ------------------------------------------------------------------------------------------------------


def _without_images(item: Any, at: Path, rows: list[Row]) -> Any:
    left, images = without_images(item)
    if images:
        rows += [(LossCode.IMAGE_EVICTED, at, "became a placeholder to save context")] * images
    return left


def _shortened(item: Any, at: Path, rows: list[Row]) -> Any:
    left, left_out = shortened_output(item)
    if left_out:
        rows.append((LossCode.RESULT_CUT, at, f"{left_out} characters were left out"))
    return left


def _without_reasoning(item: Any, at: Path, rows: list[Row]) -> Any:
    if kind(item) != "reasoning":
        return item
    rows.append((LossCode.REASONING_EVICTED, at, "dropped"))
    return None


def _recorded(item: Any, at: Path, rows: list[Row]) -> str:
    """Return an item as text for the model that writes the summary; empty if it goes."""
    if _without_reasoning(item, at, rows) is None:
        return ""
    item = _shortened(_without_images(item, at, rows), at, rows)
    if is_output(item):
        return f"Result:\n{texts_of(item) or as_json(item)}"
    if is_call(item):
        name, arguments = item.get("name") or kind(item), item.get("arguments", item.get("input"))
        return f"Call of {name}:\n{shortened(arguments if type(arguments) is str else as_json(arguments))[0]}"
    if kind(item) == "message":
        speaker = "Assistant" if item.get("role") == "assistant" else "Earlier"
        return f"{speaker}:\n{texts_of(item)}"
    return f"{kind(item)}:\n{shortened(as_json(item))[0]}"
