"""Assistant turns → Chat assistant messages (mapping §4.2, §5.3, §6.3)."""

from __future__ import annotations

from ...envelope import own_block
from ...errors import Unsupported
from ...knobs import Knobs
from ...losses import Code, Losses
from ...model import Json, Native, Reasoning, Refusal, Text, ToolCall, Turn
from ...names import NameTable, fit_call_id
from ...profile import Profile
from .marks import Marks
from .media import text_part
from .wire import DIALECT, JoinedText, write_citation


class AssistantWriter:
    """Writes one message at a time: text, refusal, reasoning and calls have a field each, whatever their order was."""

    def __init__(
        self, origin: str, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable, marks: Marks
    ) -> None:
        self.own = origin == DIALECT
        self.profile, self.knobs, self.losses, self.names, self.marks = profile, knobs, losses, names, marks

    def write(self, turn: Turn) -> Json | None:
        """The turn as a message, or None if nothing of it is left.

        Raises `Unsupported` for a part that an assistant message cannot hold.
        """
        losses = self.losses
        text = JoinedText()
        reasoning: list[str] = []
        refusal: list[str] = []
        calls: list[Json] = []
        annotations: list[Json] = []
        marked: Text | None = None
        for part in turn.parts:
            if type(part) is Text:
                if part.cache is not None:
                    if marked is not None:  # one message has one text to mark
                        losses.add(Code.CACHE_HINT, marked.at)
                    marked = part
                if part.apart:
                    text.gap()
                if part.text:
                    if calls:
                        losses.add(Code.BLOCK_ORDER, part.at)
                    start = text.add(part.text)
                    if part.citations:
                        self._cite(part, start, annotations)
                continue
            text.gap()
            if type(part) is ToolCall:
                calls.append(self._call(part))
            elif type(part) is Reasoning:
                self._reason(part, reasoning, text)
            elif type(part) is Refusal:
                refusal.append(part.text)
            elif type(part) is Native:
                losses.add(Code(part.code), part.at)
            else:
                raise Unsupported(part.at, f"{type(part).__name__} cannot stand in an assistant message")

        content: str | list[Json] | None = str(text)
        if marked is not None:
            content = self._mark(text, marked)
        elif self.own and not turn.plain and self.profile.text_parts:
            content = [text_part(part.text) for part in turn.parts if type(part) is Text and part.text]
        if not content:
            if not (calls or refusal or reasoning):
                return None
            content = None if calls else ""
        message: Json = {"role": "assistant", "content": content}
        if refusal:
            message["refusal"] = "".join(refusal)
        if reasoning:
            message["reasoning_content"] = "\n\n".join(reasoning)
        if calls:
            message["tool_calls"] = calls
        if annotations:
            message["annotations"] = annotations
        if turn.name is not None:
            message["name"] = turn.name
        return message

    def _mark(self, text: JoinedText, marked: Text) -> str | list[Json]:
        assert marked.cache is not None
        if not (text.pieces and self.profile.text_parts and self.marks.taken):
            self.marks.put(None, marked.cache, marked.at)
            return str(text)
        part = text_part(str(text))
        self.marks.put(part, marked.cache, marked.at)
        return [part]

    def _cite(self, part: Text, start: int, annotations: list[Json]) -> None:
        written = None
        if self.own:  # another provider's citations point at sources that this one has not seen
            written = [write_citation(citation, start, start + len(part.text)) for citation in part.citations]
            annotations += [annotation for annotation in written if annotation is not None]
        if written is None or None in written:
            self.losses.add(Code.CITATIONS, part.at)

    def _call(self, part: ToolCall) -> Json:
        """A call; its arguments stay the very text they were."""
        if part.search or part.namespace is not None:
            raise Unsupported(part.at, "a call into a namespace or a tool search cannot be carried to this upstream")
        if part.cache is not None:  # Chat marks content parts only
            self.losses.add(Code.CACHE_HINT, part.at)
        call_id = fit_call_id(part.id, self.profile.call_id_max)
        name = self.names.fit(part.name, part.at)
        if part.custom:
            return {"id": call_id, "type": "custom", "custom": {"name": name, "input": part.arguments}}
        arguments = part.arguments
        if not self.own and not arguments.strip():  # compatible servers parse what they are given
            arguments = "{}"
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _reason(self, part: Reasoning, reasoning: list[str], text: JoinedText) -> None:
        """Reasoning goes back to servers that want it; else it is left out, and never mixed into content unasked.

        What came in an envelope goes back to the family that made it only.
        """
        if part.family is not None:
            own = own_block(part, DIALECT, self.profile.family or DIALECT)
            thought = own.get("reasoning_content") if own is not None else None
            if type(thought) is str:
                reasoning.append(thought)
            elif part.text and self.knobs.demote_reasoning == "on":
                self.losses.add(Code.REASONING_FOREIGN, part.at, "became plain text")
                text.add(part.text)
                text.gap()
            else:
                self.losses.add(Code.REASONING_FOREIGN, part.at)
        elif part.redacted or not part.text:
            if part.redacted or part.proof:
                self.losses.add(Code.REASONING_ENCRYPTED, part.at)
        elif self.own or self.profile.reasoning_replay:
            reasoning.append(part.text)
            if part.proof:  # the text goes back, its signature has no field here
                self.losses.add(Code.REASONING_SIGNATURE, part.at)
        elif self.knobs.demote_reasoning == "on":
            self.losses.add(Code.REASONING_FOREIGN, part.at, "became plain text")
            text.add(part.text)
            text.gap()
        else:
            unsigned = part.origin == DIALECT
            self.losses.add(Code.REASONING_UNSIGNED if unsigned else Code.REASONING_FOREIGN, part.at)
