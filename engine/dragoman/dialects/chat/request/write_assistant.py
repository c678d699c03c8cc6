"""Assistant turns → Chat assistant messages (mapping §4.2, §5.3, §6.3)."""

from __future__ import annotations

from dragoman.canonical.compact_turns import CompactAssistantTurn
from dragoman.canonical.request import (
    Json,
    Native,
    Reasoning,
    ReasoningFields,
    Refusal,
    Text,
    ToolCall,
    Turn,
)
from dragoman.dialects.chat.citations import write_citation
from dragoman.dialects.chat.reasoning_details import KEY, is_unsigned
from dragoman.dialects.chat.wire import DIALECT
from dragoman.dialects.openai.cache_marks import Marks
from dragoman.dialects.openai.media import text_part
from dragoman.errors import Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.envelope import own_block
from dragoman.tools.names import NameTable, sanitize_call_id

# Member access on an enum class costs more than a global.
_CACHE_HINT = LossCode.CACHE_HINT
_FOREIGN = LossCode.REASONING_FOREIGN
_UNSIGNED = LossCode.REASONING_UNSIGNED


class AssistantWriter:
    """Writes one message at a time: text, refusal, reasoning and calls have a field each, whatever their order was."""

    __slots__ = (
        "_demotes",
        "_forgets",
        "_key",
        "_longest_id",
        "_replays",
        "fills",
        "knobs",
        "losses",
        "marks",
        "names",
        "own",
        "profile",
    )

    def __init__(
        self, origin: str, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable, marks: Marks
    ) -> None:
        self.own = origin == DIALECT
        self.profile, self.knobs, self.losses, self.names, self.marks = profile, knobs, losses, names, marks
        self._longest_id = profile.call_id_max
        self._replays = self.own or profile.reasoning_replay
        self._demotes = knobs.demote_reasoning == "on"
        self._forgets = not (self._replays or self._demotes)
        self._key = profile.reasoning_key
        self.fills = profile.reasoning_required
        """Is an empty reasoning put before calls that have none."""

    def write(self, turn: Turn, opened: dict[str, str]) -> Json | None:
        """The turn as a message, or None if nothing of it is left; the ids of its calls and the ids sent for them go
        into `opened`.

        Raises `Unsupported` for a part that an assistant message cannot hold.
        """
        losses = self.losses
        pieces: list[str] = []
        length = counted = 0  # characters of the first `counted` pieces
        apart = False  # Does another block stand between the last piece and the next: then they are paragraphs.
        reasoning: list[str] = []
        details: list[Json] = []
        refusal: list[str] = []
        calls: list[Json] = []
        annotations: list[Json] = []
        marked: Text | None = None
        for part in turn.parts:
            if type(part) is Text:
                if part.cache is not None:
                    if marked is not None:  # one message has one text to mark
                        losses.add(_CACHE_HINT, marked.at)
                    marked = part
                if part.apart:
                    apart = True
                text = part.text
                if text:
                    if calls:
                        losses.add(LossCode.BLOCK_ORDER, part.at, "put with the text before the calls")
                    if apart and pieces:
                        pieces.append("\n\n")
                    apart = False
                    if part.citations:
                        length += sum(map(len, pieces[counted:]))
                        counted = len(pieces)
                        self._cite(part, length, annotations)
                    pieces.append(text)
                continue
            apart = True
            if type(part) is ToolCall:
                calls.append(self._call(part, opened))
            elif type(part) is Reasoning:
                demoted = self._reason(part, reasoning, details)
                if demoted is not None:
                    pieces += ["\n\n", demoted] if pieces else [demoted]
            elif type(part) is Refusal:
                refusal.append(part.text)
            elif type(part) is Native:
                losses.add(LossCode(part.code), part.at)
            else:
                raise Unsupported(part.at, f"{type(part).__name__} cannot stand in an assistant message")

        whole = "".join(pieces)
        content: str | list[Json] | None = whole
        if marked is not None:
            content = self._mark(whole, marked)
        elif self.own and not turn.plain and self.profile.text_parts:
            content = [text_part(part.text) for part in turn.parts if type(part) is Text and part.text]
        if not content:
            if not (calls or refusal or reasoning or details):
                return None
            content = None if calls else ""
        message: Json = {"role": "assistant", "content": content}
        if refusal:
            message["refusal"] = "".join(refusal)
        if reasoning:
            self._put(message, "\n\n".join(reasoning))
        elif self.fills and calls and not details:
            self._fill(message, turn.at)
        if details:
            message[KEY] = [*message.get(KEY, ()), *details]
        if calls:
            message["tool_calls"] = calls
        if annotations:
            message["annotations"] = annotations
        if turn.name is not None:
            message["name"] = turn.name
        return message

    def write_short(self, turn: CompactAssistantTurn, opened: dict[str, str]) -> Json | None:
        """The same of a turn in short, whose client speaks another dialect."""
        message: Json = {"role": "assistant", "content": turn.text or None}
        losses, names = self.losses, self.names
        kept: tuple[list[str], list[str], list[Json]] | None = None
        for thought in turn.reasoning:
            if self._forgets and thought[0] and thought[6] is None:  # as `_recall` would, without the calls
                losses.add(_UNSIGNED if thought[2] == DIALECT else _FOREIGN, thought[1])
                continue
            if kept is None:
                kept = [], [], []
            self._think(thought, *kept)
        if kept is not None:
            self._write_thoughts(message, *kept)
        if turn.calls:
            if self.fills and len(message) == 2:  # no thought of it goes back
                self._fill(message, turn.at)
            fit, known = names.ids_fit, names.known
            message["tool_calls"] = written = []
            for call_id, name, arguments, at in turn.calls:
                opened[call_id] = sent_id = call_id if fit else sanitize_call_id(call_id, self._longest_id)
                try:
                    sent = known[name]
                except KeyError:
                    sent = names.fit(name, at)
                if not arguments.strip():  # compatible servers parse what they are given
                    arguments = "{}"
                written.append({"id": sent_id, "type": "function", "function": {"name": sent, "arguments": arguments}})
        elif not message["content"]:
            if len(message) == 2:
                return None
            message["content"] = ""
        return message

    def _think(self, thought: ReasoningFields, said: list[str], reasoning: list[str], details: list[Json]) -> None:
        """A thought of a turn in short goes into one of the lists: content, reasoning, pieces; or into none."""
        text, at, origin, proof, redacted, _, family = thought
        if family is None and not redacted:
            demoted = self._recall(text, at, origin, proof is not None, reasoning)
        else:
            demoted = self._reason(Reasoning(*thought), reasoning, details)
        if demoted is not None:
            said.append(demoted)

    def _write_thoughts(self, message: Json, said: list[str], reasoning: list[str], details: list[Json]) -> None:
        if said:
            text = message["content"]
            message["content"] = "\n\n".join([*said, text] if text else said)
        if reasoning:
            self._put(message, "\n\n".join(reasoning))
        if details:
            message[KEY] = [*message.get(KEY, ()), *details]

    def _put(self, message: Json, reasoning: str) -> None:
        key = self._key
        message[key] = [{"type": "reasoning.text", "text": reasoning}] if key == "reasoning_details" else reasoning

    def _fill(self, message: Json, at: Path) -> None:
        """Servers that want their reasoning back check that it is there, also where another model made the calls. They
        take a blank, and some count nothing at all as missing."""
        self._put(message, " ")
        self.losses.add(LossCode.REASONING_FILLED, at, "a blank was sent")

    def _mark(self, text: str, marked: Text) -> str | list[Json]:
        assert marked.cache is not None
        if not (text and self.profile.text_parts and self.marks.taken):
            self.marks.put(None, marked.cache, marked.at)
            return text
        part = text_part(text)
        self.marks.put(part, marked.cache, marked.at)
        self.marks.said = True
        return [part]

    def _cite(self, part: Text, start: int, annotations: list[Json]) -> None:
        known = len(annotations)
        for citation in part.citations:
            if citation.origin != DIALECT:  # another provider's citations point at sources that this one has not seen
                continue
            if not self.own:  # it comes out of an envelope, and its span counts in what was Chat's whole content
                annotations.append(citation.native)
            elif (written := write_citation(citation, start, start + len(part.text))) is not None:
                annotations.append(written)
        if len(annotations) - known < len(part.citations):
            self.losses.add(LossCode.CITATIONS, part.at)

    def _call(self, part: ToolCall, opened: dict[str, str]) -> Json:
        """A call; its arguments stay the very text they were."""
        if part.search or part.namespace is not None:
            raise Unsupported(part.at, "a call into a namespace or a tool search cannot be carried to this upstream")
        if part.cache is not None:  # Chat marks content parts only
            self.losses.add(LossCode.CACHE_HINT, part.at)
        call_id = opened[part.id] = sanitize_call_id(part.id, self._longest_id)
        name, arguments = self.names.fit(part.name, part.at), part.arguments
        if part.custom:
            return {"id": call_id, "type": "custom", "custom": {"name": name, "input": arguments}}
        if not self.own and not arguments.strip():  # compatible servers parse what they are given
            arguments = "{}"
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _reason(self, part: Reasoning, reasoning: list[str], details: list[Json]) -> str | None:
        """Reasoning goes back to servers that want it; else it is left out, and never mixed into content unasked: what
        is then to be content is given.

        What came in an envelope goes back to the family that made it only.
        """
        if part.family is not None:
            own = own_block(part, DIALECT, self.profile.family or DIALECT) or {}
            thought = own.get("reasoning_content")
            if self.profile.reasoning_details and KEY in own:
                self._return(own[KEY], part.at, details)
            elif type(thought) is str:
                reasoning.append(thought)
            elif part.text and self.knobs.demote_reasoning == "on":
                self.losses.add(LossCode.REASONING_FOREIGN, part.at, "became plain text")
                return part.text
            else:
                self.losses.add(LossCode.REASONING_FOREIGN, part.at)
        elif part.redacted:
            self.losses.add(LossCode.REASONING_ENCRYPTED, part.at)
        else:
            return self._recall(part.text, part.at, part.origin, bool(part.proof), reasoning)
        return None

    def _return(self, pieces: list[Json], at: Path, details: list[Json]) -> None:
        """Pieces go back as they came, but for those that their model would refuse."""
        sent = [piece for piece in pieces if not is_unsigned(piece)]
        if len(sent) < len(pieces):
            self.losses.add(_UNSIGNED, at)
        details += sent

    def _recall(self, text: str, at: Path, origin: str, proven: bool, reasoning: list[str]) -> str | None:
        """The same for what came as it was made."""
        if not text:
            if proven:
                self.losses.add(LossCode.REASONING_ENCRYPTED, at)
        elif self._replays:
            reasoning.append(text)
            if proven:  # the text goes back, its signature has no field here
                self.losses.add(LossCode.REASONING_SIGNATURE, at)
        elif self._demotes:
            self.losses.add(_FOREIGN, at, "became plain text")
            return text
        else:
            self.losses.add(_UNSIGNED if origin == DIALECT else _FOREIGN, at)
        return None
