"""Writes assistant turns as Chat messages (mapping §4.2, §5.3, §6.3)."""

from __future__ import annotations

from dragoman.canonical.parts import Json, Native, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.turn import CallFields, ReasoningFields, Turn, reasoning_fields
from dragoman.dialects.chat.citations import write_citation
from dragoman.dialects.chat.extra_content import EXTRA_KEY, add_signatures, skip_validation
from dragoman.dialects.chat.reasoning_details import DETAILS_KEY, is_unsigned
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.dialects.openai.media import text_part
from dragoman.dialects.openai.prompt_cache_fields import CacheMarks
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.replay import Fate, ReasoningRules
from dragoman.tools.names import NameTable, sanitize_call_id


class _KeptReasoning:
    """The reasoning of one message by the form in which it is sent: as text of the message, as reasoning, as details,
    and as signatures of calls."""

    def __init__(self) -> None:
        self.plain: list[str] = []
        self.texts: list[str] = []
        self.details: list[Json] = []
        self.signatures: Json = {}


class AssistantWriter:
    """Writes one message at a time, with one field each for text, refusal, reasoning and calls.

    Chat has no field for the order of the parts.
    """

    def __init__(
        self, origin: str, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable, marks: CacheMarks
    ) -> None:
        self.own = origin == DIALECT
        self.losses, self.names, self.marks = losses, names, marks
        self._keeps_arrays = self.own and profile.text_parts
        self._takes_marks = profile.text_parts and marks.accepted
        self._longest_id = profile.call_id_max
        self._rules = ReasoningRules(DIALECT, profile, knobs, losses, replays=self.own or profile.reasoning_replay)
        self._details = profile.reasoning_details
        self._key = profile.reasoning_key
        self._requires_signature = profile.signed_calls
        self.fills_reasoning = profile.reasoning_required
        """True if calls without reasoning get a blank one."""
        self._adds_reasoning = profile.reasoning_required or profile.signed_calls

    def write(self, turn: Turn, opened: dict[str, str]) -> Json | None:
        """Return the turn as a message, or None if all its parts are dropped.

        The ids of its calls are added to `opened`, each with the id that is sent. Raises `Unsupported` for a part that
        an assistant message cannot hold.
        """
        compact = turn.compact
        if type(compact) is not tuple:
            return self._write_parts(turn, opened)
        reasoning, text, _, _, plain_calls = compact
        content: str | list[Json] = text or ""
        before: _KeptReasoning | None = None
        for fields in reasoning:
            fate = self._rules.decide(fields)
            if fate != "dropped":
                before = self._keep(fields, fate, before)
        if before is not None and before.plain:
            content = "\n\n".join([*before.plain, text] if text else before.plain)
        elif self._keeps_arrays and text and not turn.plain:
            content = [text_part(text)]
        calls = self._write_calls(plain_calls, opened) if plain_calls else []
        if before is not None or self._adds_reasoning:
            return self._message(turn, content, calls, before)
        # As `_message`, whose questions take 3 % of a long request.
        if calls:
            return {"role": "assistant", "content": content or None, "tool_calls": calls}
        return {"role": "assistant", "content": content} if content else None

    def _write_parts(self, turn: Turn, opened: dict[str, str]) -> Json | None:
        """Return a turn that is not compact as a message, or None."""
        losses = self.losses
        pieces: list[str] = []
        length = counted = 0  # `length` is the number of characters in the first `counted` pieces
        apart = False  # True if another part precedes the next text: it then is a new paragraph
        before: _KeptReasoning | None = None
        refusal: list[str] = []
        calls: list[Json] = []
        annotations: list[Json] = []
        marked: Text | None = None
        for part in turn.parts:
            if type(part) is Text:
                if part.cache is not None:
                    if marked is not None:  # a message has one text that can be marked
                        losses.add(LossCode.CACHE_HINT, marked.at)
                    marked = part
                apart = apart or part.apart
                if not part.text:
                    continue
                if calls:
                    losses.add(LossCode.BLOCK_ORDER, part.at, "put with the text before the calls")
                if apart and pieces:
                    pieces.append("\n\n")
                apart = False
                if part.citations:
                    length += sum(map(len, pieces[counted:]))
                    counted = len(pieces)
                    self._write_citations(part, length, annotations)
                pieces.append(part.text)
                continue
            apart = True
            if type(part) is ToolCall:
                calls.append(self._write_call(part, opened))
            elif type(part) is Reasoning:
                fields = reasoning_fields(part)
                fate = self._rules.decide(fields)
                if fate != "dropped":
                    before = self._keep(fields, fate, before)
                if before is not None and before.plain:
                    pieces += ["\n\n", *before.plain] if pieces else before.plain
                    before.plain.clear()
            elif type(part) is Refusal:
                refusal.append(part.text)
            elif type(part) is Native:
                losses.add(LossCode(part.code), part.at)
            else:
                raise Unsupported(part.at, f"{type(part).__name__} cannot stand in an assistant message")
        content: str | list[Json] = "".join(pieces)
        if marked is not None:
            content = self._mark_text("".join(pieces), marked)
        elif self._keeps_arrays and not turn.plain:
            content = [text_part(part.text) for part in turn.parts if type(part) is Text and part.text]
        return self._message(turn, content, calls, before, "".join(refusal), annotations)

    def _message(
        self,
        turn: Turn,
        content: str | list[Json],
        calls: list[Json],
        before: _KeptReasoning | None,
        refusal: str = "",
        annotations: list[Json] | None = None,
    ) -> Json | None:
        """Return the message that holds these, or None if all are empty."""
        if not content and not calls and not refusal and before is None:
            return None
        message: Json = {"role": "assistant", "content": content or (None if calls else "")}
        if refusal:
            message["refusal"] = refusal
        if before is not None and before.texts:
            self._set_reasoning(message, "\n\n".join(before.texts))
        elif self.fills_reasoning and calls and (before is None or not before.details):
            # For servers that require their reasoning in each message with calls, also of other models. All accept a
            # blank; some reject an empty string.
            self._set_reasoning(message, " ")
            self.losses.add(LossCode.REASONING_FILLED, turn.at, "a blank was sent")
        if before is not None and before.details:
            message[DETAILS_KEY] = [*message.get(DETAILS_KEY, ()), *before.details]
        if calls:
            message["tool_calls"] = calls
        if annotations:
            message["annotations"] = annotations
        if turn.name is not None:
            message["name"] = turn.name
        if before is not None and before.signatures:
            add_signatures(message, turn.call_ids(), before.signatures)
        if calls and self._requires_signature:
            skip_validation(calls, self.losses, turn.at)
        return message

    def _set_reasoning(self, message: Json, reasoning: str) -> None:
        key = self._key
        if key == "thinking":  # a part of the content, before the text (Mistral)
            content: str | list[Json] = message["content"] or []
            texts = [text_part(content)] if isinstance(content, str) else content
            message["content"] = [{"type": key, key: [text_part(reasoning)]}, *texts]
            return
        message[key] = [{"type": "reasoning.text", "text": reasoning}] if key == "reasoning_details" else reasoning

    def _mark_text(self, text: str, marked: Text) -> str | list[Json]:
        assert marked.cache is not None
        if not (text and self._takes_marks):
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
        """Return a call. The text of its arguments is unchanged, unless it is blank."""
        if part.search or part.namespace is not None:
            raise Unsupported(part.at, "a call into a namespace or a tool search cannot be sent to this upstream")
        if part.cache is not None:  # Chat marks content parts only
            self.losses.add(LossCode.CACHE_HINT, part.at)
        if not part.custom:
            return self._write_calls([(part.id, part.name, part.arguments, part.at)], opened)[0]
        call_id = opened[part.id] = sanitize_call_id(part.id, self._longest_id)
        named = {"name": self.names.fit(part.name, part.at), "input": part.arguments}
        return {"id": call_id, "type": "custom", "custom": named}

    def _write_calls(self, calls: list[CallFields], opened: dict[str, str]) -> list[Json]:
        """Return plain calls. The text of their arguments is unchanged, unless it is blank."""
        fit, known = self.names.ids_fit, self.names.known
        written: list[Json] = []
        for call_id, name, arguments, at in calls:
            opened[call_id] = sent_id = call_id if fit else sanitize_call_id(call_id, self._longest_id)
            try:
                sent = known[name]
            except KeyError:
                sent = self.names.fit(name, at)
            if not self.own and not arguments.strip():  # compatible servers parse the arguments
                arguments = "{}"
            written.append({"id": sent_id, "type": "function", "function": {"name": sent, "arguments": arguments}})
        return written

    def _keep(self, fields: ReasoningFields, fate: Fate, before: _KeptReasoning | None) -> _KeptReasoning | None:
        """Add reasoning that is sent to that of the message. Return this; None if the message has no reasoning yet."""
        kept = before or _KeptReasoning()
        if fate == "own":
            return kept if self._write_own(fields, fields[5] or {}, kept) else before
        (kept.texts if fate == "text" else kept.plain).append(fields[0])
        return kept

    def _write_own(self, fields: ReasoningFields, own: Json, kept: _KeptReasoning) -> bool:
        """Add what the upstream takes of its own reasoning. Returns False if that is nothing."""
        signed, text = own.get(EXTRA_KEY), own.get("reasoning_content")
        if signed:
            kept.signatures.update(signed)
            if len(own) == 1:
                return True
        if self._details and DETAILS_KEY in own:
            received: list[Json] = own[DETAILS_KEY]
            sent = [detail for detail in received if not is_unsigned(detail)]
            if len(sent) < len(received):  # their model would reject the others
                self.losses.add(LossCode.REASONING_UNSIGNED, fields[1])
            kept.details += sent
            return bool(sent or signed)
        if type(text) is str:
            kept.texts.append(text)
            return True
        if self._rules.leave_out(fields, LossCode.REASONING_FOREIGN) == "plain":
            kept.plain.append(fields[0])
            return True
        return bool(signed)
