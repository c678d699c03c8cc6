"""Calls of bridged tools, restored to the kind, name and namespace that the client declared (mapping §6.1, §11)."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.canonical.events import CUTS, TEXTS, BlockEnd, BlockStart, Delta, Error, Event, Finish
from dragoman.canonical.parts import ToolCall
from dragoman.canonical.reply import Reply
from dragoman.errors import DragomanError
from dragoman.losses import Losses
from dragoman.tools.bridge import OriginalTool, flat_name
from dragoman.tools.free_text import FreeTextDecoder


class ToolRestorer:
    """Restores the kind, name and namespace of calls in a stream."""

    __slots__ = ("_broken", "_losses", "_open", "_tools", "done")

    def __init__(self, tools: Mapping[str, OriginalTool], losses: Losses) -> None:
        self.done = False
        self._tools = tools
        self._losses = losses
        self._open: dict[int, FreeTextDecoder] = {}
        self._broken: FreeTextDecoder | None = None
        """The first call whose JSON was incomplete at its end."""

    def feed(self, events: list[Event], /) -> list[Event]:
        """Return the events; those of a wrapped call have its free text. A call without one is an `Error`."""
        out: list[Event] = []
        try:
            for event in events:
                self._restore(event, out)
        except DragomanError as error:
            out.append(Error(error.failure))
            self.done = True
        return out

    def _restore(self, event: Event, out: list[Event]) -> None:
        if isinstance(event, TEXTS):
            if self._open and (decoder := self._open.get(event.index)) is not None:
                texts = [decoder.feed(delta.text) for delta in event.deltas()]
                out += [Delta(event.index, text) for text in texts if text]
                return
        elif isinstance(event, BlockStart):
            if event.kind == "tool" and (declared := _declared(event, self._tools)) is not None:
                event = self._restored(event, declared)
        elif isinstance(event, BlockEnd):
            decoder = self._open.pop(event.index, None)
            if decoder is not None:
                if text := decoder.finish(self._losses):
                    out.append(Delta(event.index, text))
                if decoder.truncated:  # the free text does not show it, and agents run the calls they get
                    event = BlockEnd(event.index, complete=False)
                    self._broken = self._broken or decoder
        elif isinstance(event, Finish) and self._broken is not None and event.stop.reason not in CUTS:
            raise self._broken.malformed()
        out.append(event)

    def finish(self) -> list[Event]:
        """Return nothing: readers end every stream."""
        return []

    def _restored(self, event: BlockStart, declared: OriginalTool) -> BlockStart:
        custom = declared.kind == "custom"
        if custom and not event.custom:
            self._open[event.index] = FreeTextDecoder(declared.name)
        return BlockStart(
            event.index,
            event.kind,
            event.call_id,
            declared.name,
            custom=custom or event.custom,
            namespace=declared.namespace,
            search=declared.kind == "search",
        )


def _declared(call: BlockStart | ToolCall, tools: Mapping[str, OriginalTool]) -> OriginalTool | None:
    """Return the client's declaration of a called tool, if it was sent as another kind."""
    name, namespace = call.name, call.namespace
    return tools.get(name if namespace is None else flat_name(name, namespace))


def restore_reply(reply: Reply, tools: Mapping[str, OriginalTool], losses: Losses) -> None:
    """Restore the calls of a complete reply, in place. Raises UpstreamProtocolError for arguments without text."""
    for part in reply.parts:
        if type(part) is not ToolCall or (declared := _declared(part, tools)) is None:
            continue
        part.name, part.namespace = declared.name, declared.namespace
        part.search = declared.kind == "search"
        if declared.kind == "custom" and not part.custom:
            decoder = FreeTextDecoder(declared.name)
            part.arguments = decoder.feed(part.arguments) + decoder.finish(losses)
            part.custom = True
            if decoder.truncated and reply.stop.reason not in CUTS:
                raise decoder.malformed()
