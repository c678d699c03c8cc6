"""Writes assistant turns as Chat messages (mapping §4.2, §5.3, §6.3)."""

from __future__ import annotations

from dragoman.canonical.compact_turns import CompactAssistantTurn
from dragoman.canonical.request import Json, Native, Reasoning, ReasoningFields, Refusal, Text, ToolCall, Turn
from dragoman.dialects.chat.citations import write_citation
from dragoman.dialects.chat.extra_content import EXTRA_KEY, add_signatures, skip_validation
from dragoman.dialects.chat.reasoning_details import DETAILS_KEY, is_unsigned
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.dialects.openai.media import text_part
from dragoman.dialects.openai.prompt_cache_fields import CacheMarks
from dragoman.errors import Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.envelope import own_block
from dragoman.tools.names import NameTable, sanitize_call_id


class AssistantWriter:
    """Writes one message at a time, with one field each for text, refusal, reasoning and calls.

    Chat has no field for the order of the parts.
    """

    __slots__ = (
        "_demotes",
        "_drops",
        "_key",
        "_longest_id",
        "_replays",
        "_requires_signature",
        "fills_reasoning",
        "knobs",
        "losses",
        "marks",
        "names",
        "own",
        "profile",
    )

    def __init__(
        self, origin: str, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable, marks: CacheMarks
    ) -> None:
        self.own = origin == DIALECT
        self.profile, self.knobs, self.losses, self.names, self.marks = profile, knobs, losses, names, marks
        self._longest_id = profile.call_id_max
        self._replays = self.own or profile.reasoning_replay
        self._demotes = knobs.demote_reasoning == "on"
        self._drops = not (self._replays or self._demotes)
        self._key = profile.reasoning_key
        self._requires_signature = profile.signed_calls
        self.fills_reasoning = profile.reasoning_required
        """True if calls without reasoning get a blank one."""

    def write(self, turn: Turn, opened: dict[str, str]) -> Json | None:
        """Returns the turn as a message, or None if all its parts are dropped.

        The ids of its calls are added to `opened`, each with the id that is sent. Raises `Unsupported` for a part that
        an assistant message cannot hold.
        """
        losses = self.losses
        pieces: list[str] = []
        length = counted = 0  # `length` is the number of characters in the first `counted` pieces
        apart = False  # True if another part precedes the next text: it then is a new paragraph
        reasoning: list[str] = []
        details: list[Json] = []
        signatures: Json = {}
        refusal: list[str] = []
        calls: list[Json] = []
        call_ids: list[str] = []
        annotations: list[Json] = []
        marked: Text | None = None
        for part in turn.parts:
            if type(part) is Text:
                if part.cache is not None:
                    if marked is not None:  # a message has one text that can be marked
                        losses.add(LossCode.CACHE_HINT, marked.at)
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
                        self._write_citations(part, length, annotations)
                    pieces.append(text)
                continue
            apart = True
            if type(part) is ToolCall:
                calls.append(self._write_call(part, opened))
                call_ids.append(part.id)
            elif type(part) is Reasoning:
                demoted = self._write_reasoning(part, reasoning, details, signatures)
                if demoted is not None:
                    pieces += ["\n\n", demoted] if pieces else [demoted]
            elif type(part) is Refusal:
                refusal.append(part.text)
            elif type(part) is Native:
                losses.add(LossCode(part.code), part.at)
            else:
                raise Unsupported(part.at, f"{type(part).__name__} cannot stand in an assistant message")

        content: str | list[Json] | None = "".join(pieces)
        if marked is not None:
            content = self._mark_text("".join(pieces), marked)
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
            self._set_reasoning(message, "\n\n".join(reasoning))
        elif self.fills_reasoning and calls and not details:
            self._fill_reasoning(message, turn.at)
        if details:
            message[DETAILS_KEY] = [*message.get(DETAILS_KEY, ()), *details]
        if calls:
            message["tool_calls"] = calls
        if annotations:
            message["annotations"] = annotations
        if turn.name is not None:
            message["name"] = turn.name
        if signatures:
            add_signatures(message, call_ids, signatures)
        if calls and self._requires_signature:
            skip_validation(calls, losses, turn.at)
        return message

    def write_compact(self, turn: CompactAssistantTurn, opened: dict[str, str]) -> Json | None:
        """Returns a compact turn, which another dialect's request brought, as a message. See `write`."""
        message: Json = {"role": "assistant", "content": turn.text or None}
        losses, names = self.losses, self.names
        kept: tuple[list[str], list[str], list[Json], Json] | None = None
        """Reasoning that is sent as text, as reasoning, as details, and as signatures of calls."""
        for part in turn.reasoning:
            if self._drops and part[0] and part[6] is None:  # as in `_write_unwrapped`, without its cost
                losses.add(LossCode.REASONING_UNSIGNED if part[2] == DIALECT else LossCode.REASONING_FOREIGN, part[1])
                continue
            if kept is None:
                kept = [], [], [], {}
            self._write_compact_reasoning(part, *kept)
        if kept is not None:
            self._add_reasoning(message, *kept[:3])
        if turn.calls:
            if self.fills_reasoning and len(message) == 2:  # no reasoning was written
                self._fill_reasoning(message, turn.at)
            fit, known = names.ids_fit, names.known
            message["tool_calls"] = written = []
            for call_id, name, arguments, at in turn.calls:
                opened[call_id] = sent_id = call_id if fit else sanitize_call_id(call_id, self._longest_id)
                try:
                    sent = known[name]
                except KeyError:
                    sent = names.fit(name, at)
                if not arguments.strip():  # compatible servers parse the arguments
                    arguments = "{}"
                written.append({"id": sent_id, "type": "function", "function": {"name": sent, "arguments": arguments}})
            if kept is not None and kept[3]:
                add_signatures(message, [call[0] for call in turn.calls], kept[3])
            if self._requires_signature:
                skip_validation(written, losses, turn.at)
        elif kept is not None and kept[3]:
            add_signatures(message, (), kept[3])
            if message["content"] is None:
                message["content"] = ""
        elif not message["content"]:
            if len(message) == 2:
                return None
            message["content"] = ""
        return message

    def _write_compact_reasoning(
        self, part: ReasoningFields, texts: list[str], reasoning: list[str], details: list[Json], signatures: Json
    ) -> None:
        """Append the reasoning of a compact turn to one of the lists, or drop it."""
        text, at, origin, proof, redacted, _, family = part
        if family is None and not redacted:
            demoted = self._write_unwrapped(text, at, origin, proof is not None, reasoning)
        else:
            demoted = self._write_reasoning(Reasoning(*part), reasoning, details, signatures)
        if demoted is not None:
            texts.append(demoted)

    def _add_reasoning(self, message: Json, texts: list[str], reasoning: list[str], details: list[Json]) -> None:
        if texts:
            text = message["content"]
            message["content"] = "\n\n".join([*texts, text] if text else texts)
        if reasoning:
            self._set_reasoning(message, "\n\n".join(reasoning))
        if details:
            message[DETAILS_KEY] = [*message.get(DETAILS_KEY, ()), *details]

    def _set_reasoning(self, message: Json, reasoning: str) -> None:
        key = self._key
        message[key] = [{"type": "reasoning.text", "text": reasoning}] if key == "reasoning_details" else reasoning

    def _fill_reasoning(self, message: Json, at: Path) -> None:
        """Add a blank reasoning for servers that require their reasoning in each message with calls.

        They check it for calls of other models too. All accept a blank; some reject an empty string.
        """
        self._set_reasoning(message, " ")
        self.losses.add(LossCode.REASONING_FILLED, at, "a blank was sent")

    def _mark_text(self, text: str, marked: Text) -> str | list[Json]:
        assert marked.cache is not None
        if not (text and self.profile.text_parts and self.marks.accepted):
            self.marks.put(None, marked.cache, marked.at)
            return text
        part = text_part(text)
        self.marks.put(part, marked.cache, marked.at)
        self.marks.in_assistant = True
        return [part]

    def _write_citations(self, part: Text, start: int, annotations: list[Json]) -> None:
        known = len(annotations)
        for citation in part.citations:
            if citation.origin != DIALECT:  # this provider does not know another one's sources
                continue
            if not self.own:  # from an envelope: its span already refers to the complete Chat content
                annotations.append(citation.native)
            elif (written := write_citation(citation, start, start + len(part.text))) is not None:
                annotations.append(written)
        if len(annotations) - known < len(part.citations):
            self.losses.add(LossCode.CITATIONS, part.at)

    def _write_call(self, part: ToolCall, opened: dict[str, str]) -> Json:
        """Returns a call. The text of its arguments is unchanged, unless it is blank."""
        if part.search or part.namespace is not None:
            raise Unsupported(part.at, "a call into a namespace or a tool search cannot be sent to this upstream")
        if part.cache is not None:  # Chat marks content parts only
            self.losses.add(LossCode.CACHE_HINT, part.at)
        call_id = opened[part.id] = sanitize_call_id(part.id, self._longest_id)
        name, arguments = self.names.fit(part.name, part.at), part.arguments
        if part.custom:
            return {"id": call_id, "type": "custom", "custom": {"name": name, "input": arguments}}
        if not self.own and not arguments.strip():  # compatible servers parse the arguments
            arguments = "{}"
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _write_reasoning(
        self, part: Reasoning, reasoning: list[str], details: list[Json], signatures: Json
    ) -> str | None:
        """Add reasoning to `reasoning`, `details` or `signatures` for servers that want it back, else drop it.

        Returns the text if it is sent as content instead, by the knob `demote_reasoning`. Reasoning from an envelope is
        sent to the family that made it only.
        """
        own = own_block(part, DIALECT, self.profile.family or DIALECT) or {}
        signed = own.get(EXTRA_KEY)
        if signed:
            signatures.update(signed)
            if len(own) == 1:
                return None
        if part.family is not None:
            text = own.get("reasoning_content")
            if self.profile.reasoning_details and DETAILS_KEY in own:
                self._write_details(own[DETAILS_KEY], part.at, details)
            elif type(text) is str:
                reasoning.append(text)
            elif part.text and self.knobs.demote_reasoning == "on":
                self.losses.add(LossCode.REASONING_FOREIGN, part.at, "became plain text")
                return part.text
            else:
                self.losses.add(LossCode.REASONING_FOREIGN, part.at)
        elif part.redacted:
            self.losses.add(LossCode.REASONING_ENCRYPTED, part.at)
        else:
            return self._write_unwrapped(part.text, part.at, part.origin, bool(part.proof), reasoning)
        return None

    def _write_details(self, received: list[Json], at: Path, details: list[Json]) -> None:
        """Append reasoning details unchanged, without those that their model would reject."""
        sent = [detail for detail in received if not is_unsigned(detail)]
        if len(sent) < len(received):
            self.losses.add(LossCode.REASONING_UNSIGNED, at)
        details += sent

    def _write_unwrapped(self, text: str, at: Path, origin: str, has_proof: bool, reasoning: list[str]) -> str | None:
        """Append reasoning that did not arrive in an envelope. Returns the text if it is sent as content instead."""
        if not text:
            if has_proof:
                self.losses.add(LossCode.REASONING_ENCRYPTED, at)
        elif self._replays:
            reasoning.append(text)
            if has_proof:  # Chat has a field for the text, but none for its signature
                self.losses.add(LossCode.REASONING_SIGNATURE, at)
        elif self._demotes:
            self.losses.add(LossCode.REASONING_FOREIGN, at, "became plain text")
            return text
        else:
            self.losses.add(LossCode.REASONING_UNSIGNED if origin == DIALECT else LossCode.REASONING_FOREIGN, at)
        return None
