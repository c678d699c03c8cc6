"""Stop sequences cut here, for upstreams that were not given them (mapping §7.2).

Text is held back by one character less than the longest sequence, so that no part of a match ever reaches the client.
On a match the text is cut, open blocks are ended, and the reply finishes as `stop_sequence`. The upstream's request is
then cancelled, so its token counts never come. Not applied to tool arguments and reasoning. After a complete call the
reply finishes as `tool_calls`, because a client does not run the call for another reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dragoman.canonical.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Logprobs,
    Stop,
    StopReason,
    expand_runs,
)
from dragoman.canonical.parts import Json, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext

_MOST_TOKENS = 4096
"""Tokens that wait for their text; more than that do not belong to it."""


def first_stop(text: str, stops: Sequence[str]) -> tuple[int, str] | None:
    """Return the place of the first match and its stop sequence: the match that ends first, of those the longest.

    A rule by the beginning of a match would depend on how the text was split into chunks.
    """
    found = [(at + len(stop), at, stop) for stop in stops if (at := text.find(stop)) >= 0]
    return min(found)[1:] if found else None


class StopCutter:
    """Cuts the text of a stream at the first stop sequence."""

    __slots__ = ("_called", "_context", "_held", "_keep", "_open", "_stops", "_tokens", "done")

    def __init__(self, context: ReplyContext, stops: Iterable[str]) -> None:
        self.done = False
        self._context = context
        self._stops = tuple(stops)
        self._keep = max(map(len, self._stops)) - 1
        self._called = False
        self._open: dict[int, BlockKind] = {}
        self._held: dict[int, str] = {}
        self._tokens: dict[int, _Tokens] = {}
        """Of open texts, if log probabilities were asked for: a token leaves with the last of its text."""

    def feed(self, events: list[Event], /) -> list[Event]:
        """Return the events up to a match; nothing after it."""
        out: list[Event] = []
        events = expand_runs(events)
        for position, event in enumerate(events):
            if self.done:
                break
            if isinstance(event, Delta):
                if self._open.get(event.index) == "text":
                    # Where the text is cut nothing more is read, but the tokens of the rest.
                    following = events[position + 1] if position + 1 < len(events) else None
                    self._text(event.index, event.text, following, out)
                else:
                    out.append(event)
                continue
            if isinstance(event, BlockStart):
                self._open[event.index] = event.kind
                if event.kind == "text" and self._context.logprobs:
                    self._tokens[event.index] = _Tokens()
            elif isinstance(event, Logprobs):
                if (tokens := self._tokens.get(event.index)) is not None:
                    tokens.hold(event.tokens)
                    tokens.release(event.index, out)
                    continue
            elif isinstance(event, BlockEnd):
                if self._open.pop(event.index, None) == "tool" and event.complete:
                    self._called = True
                if held := self._held.pop(event.index, ""):
                    out.append(Delta(event.index, held))
                if (tokens := self._tokens.pop(event.index, None)) is not None and tokens.held:
                    out.append(Logprobs(event.index, tokens.held))
            elif isinstance(event, End | Error):
                self.done = True
            out.append(event)
        return out

    def finish(self) -> list[Event]:
        """Nothing: readers end every stream, and a block's end releases what it held."""
        return []

    def _text(self, index: int, text: str, following: Event | None, out: list[Event]) -> None:
        text = self._held.pop(index, "") + text
        if (hit := first_stop(text, self._stops)) is not None:
            at, stop = hit
            if type(following) is Logprobs and following.index == index and index in self._tokens:
                self._tokens[index].hold(following.tokens)
            self._cut(index, text[:at], stop, out)
            return
        keep = self._keep
        while keep and not any(stop.startswith(text[-keep:]) for stop in self._stops if len(stop) > keep):
            keep -= 1
        if keep:
            self._held[index] = text[-keep:]
            text = text[:-keep]
        self._emit(index, text, out)

    def _emit(self, index: int, text: str, out: list[Event]) -> None:
        if text:
            out.append(Delta(index, text))
            if self._tokens:
                self._tokens[index].add(text)
                self._tokens[index].release(index, out)

    def _cut(self, index: int, text: str, stop: str, out: list[Event]) -> None:
        self._emit(index, text, out)
        if index in self._tokens:
            self._tokens[index].release(index, out)
        for open_index, kind in self._open.items():
            out.append(BlockEnd(open_index, complete=kind == "text"))
        out.append(Finish(_stopped(stop, self._called, self._context.losses)))
        out.append(End())
        self.done = True


class _Tokens:
    """The tokens of one text that wait until all of their text is written. Counted in bytes, as a token may be part
    of a character."""

    __slots__ = ("_room", "held")

    def __init__(self) -> None:
        self._room = 0
        """Bytes of written text that no written token covers."""
        self.held: list[Json] = []

    def hold(self, tokens: list[Json]) -> None:
        self.held += tokens

    def add(self, text: str) -> None:
        self._room += _bytes(text)

    def release(self, index: int, out: list[Event]) -> None:
        """Emit the tokens whose text was written."""
        fit, self._room = _fitting(self.held, self._room)
        if len(self.held) - fit > _MOST_TOKENS:
            fit = len(self.held)
        if fit:
            out.append(Logprobs(index, self.held[:fit]))
            del self.held[:fit]


def _fitting(tokens: list[Json], room: int) -> tuple[int, int]:
    """Return the number of tokens within the next `room` bytes of text, and the number of bytes left."""
    for count, token in enumerate(tokens):
        raw = token.get("bytes")
        size = len(raw) if type(raw) is list and raw else _bytes(str(token.get("token")))
        if size > room:
            return count, room
        room -= size
    return len(tokens), room


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _stopped(stop: str, called: bool, losses: Losses) -> Stop:
    if not called:
        return Stop(StopReason.STOP_SEQUENCE, None, stop)
    losses.add(LossCode.FINISH_FIXED, "stop", "a stop sequence after a call ended the reply with that call")
    return Stop(StopReason.TOOL_CALLS)


def cut_reply(reply: Reply, stops: Iterable[str], losses: Losses) -> None:
    """Cut a complete reply at the first match in its texts, in place."""
    sequences = tuple(stops)
    for position, part in enumerate(reply.parts):
        if not isinstance(part, Text):
            continue
        if (hit := first_stop(part.text, sequences)) is not None:
            at, stop = hit
            part.text = part.text[:at]
            if part.logprobs:
                part.logprobs = part.logprobs[: _fitting(part.logprobs, _bytes(part.text))[0]] or None
            del reply.parts[position + 1 :]
            called = any(type(each) is ToolCall and n not in reply.cut for n, each in enumerate(reply.parts))
            reply.stop = _stopped(stop, called, losses)
            reply.refusal = None
            losses.add(LossCode.USAGE_ESTIMATED, "usage", "also counts the text after the stop sequence")
            return
