"""Stop sequences cut here, for upstreams that were not given them (mapping §7.2).

Text is held back by one character less than the longest sequence, so that no part of a match ever reaches the client.
On a match the text is cut, what was open is closed, and the reply finishes as `stop_sequence`; the upstream is then
cancelled, so its token counts never come: the writer tells what it made of that. Never applied inside tool arguments or
reasoning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .context import ReplyContext
from .events import BlockEnd, BlockStart, Delta, End, Error, Event, Finish, Kind, Stop, StopReason
from .losses import Code, Losses
from .model import Reply, Text


def first_stop(text: str, stops: Sequence[str]) -> tuple[int, str] | None:
    """Where the first match stands, and which it is: the one whose end is first generated, of those the longest.

    A rule by where a match begins would depend on how the text came in pieces.
    """
    found = [(at + len(stop), at, stop) for stop in stops if (at := text.find(stop)) >= 0]
    return min(found)[1:] if found else None


class StopCutter:
    """A stage on events."""

    __slots__ = ("_context", "_held", "_keep", "_open", "_stops", "done")

    def __init__(self, context: ReplyContext, stops: Iterable[str]) -> None:
        self.done = False
        self._context = context
        self._stops = tuple(stops)
        self._keep = max(map(len, self._stops)) - 1
        self._open: dict[int, Kind] = {}
        self._held: dict[int, str] = {}

    def feed(self, events: list[Event], /) -> list[Event]:
        """The events up to a match; nothing after it."""
        out: list[Event] = []
        for event in events:
            if self.done:
                break
            if isinstance(event, Delta):
                if self._open.get(event.index) is Kind.TEXT:
                    self._text(event.index, event.text, out)
                else:
                    out.append(event)
                continue
            if isinstance(event, BlockStart):
                self._open[event.index] = event.kind
            elif isinstance(event, BlockEnd):
                self._open.pop(event.index, None)
                if held := self._held.pop(event.index, ""):
                    out.append(Delta(event.index, held))
            elif isinstance(event, End | Error):
                self.done = True
            out.append(event)
        return out

    def finish(self) -> list[Event]:
        """Nothing: readers end every stream, and a block's end releases what it held."""
        return []

    def _text(self, index: int, text: str, out: list[Event]) -> None:
        text = self._held.pop(index, "") + text
        if (hit := first_stop(text, self._stops)) is not None:
            at, stop = hit
            self._cut(index, text[:at], stop, out)
            return
        keep = self._keep
        while keep and not any(stop.startswith(text[-keep:]) for stop in self._stops if len(stop) > keep):
            keep -= 1
        if keep:
            self._held[index] = text[-keep:]
            text = text[:-keep]
        if text:
            out.append(Delta(index, text))

    def _cut(self, index: int, text: str, stop: str, out: list[Event]) -> None:
        if text:
            out.append(Delta(index, text))
        for open_index, kind in self._open.items():
            out.append(BlockEnd(open_index, complete=kind is Kind.TEXT))
        out.append(Finish(Stop(StopReason.STOP_SEQUENCE, None, stop)))
        out.append(End())
        self.done = True


def cut_reply(reply: Reply, stops: Iterable[str], losses: Losses) -> None:
    """The same cut on a whole reply, in place: nothing after the first match in its texts remains."""
    sequences = tuple(stops)
    for position, part in enumerate(reply.parts):
        if not isinstance(part, Text):
            continue
        if (hit := first_stop(part.text, sequences)) is not None:
            at, stop = hit
            part.text = part.text[:at]
            del reply.parts[position + 1 :]
            reply.stop = Stop(StopReason.STOP_SEQUENCE, None, stop)
            reply.refusal = None
            losses.add(Code.USAGE_ESTIMATED, "usage", "counts the text behind the stop sequence too")
            return
