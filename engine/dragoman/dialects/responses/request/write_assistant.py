"""Assistant turns to items of the history (mapping §4.2, §5.3, §6.3).

Each block becomes an item in its place, so reasoning stays directly before the text or call that it led to. Items are
written without ids: the upstream accepts only ids that it created itself, and those come back in reasoning items only.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from dragoman.canonical.parts import Json, Native, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.turn import CallFields, ReasoningFields, Turn, reasoning_fields
from dragoman.dialects.responses.built_in_items import write_call
from dragoman.dialects.responses.citations import write_citation
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.dialects.shared.json_fields import INVALID_ARGUMENTS, parse_object
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.replay import Fate, ReasoningRules
from dragoman.tools.names import NameTable, sanitize_call_id
from dragoman.wire.json_codec import dumps

_OPENAI: Final = frozenset({"chat", "responses"})


class AssistantWriter:
    """Appends the items of one turn at a time to a list."""

    def __init__(self, origin: str, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable) -> None:
        self._own = origin == DIALECT
        self._profile, self._knobs, self._losses, self._names = profile, knobs, losses, names
        self._known, self._ids_fit, self._longest_id = names.known, names.ids_fit, profile.call_id_max
        self._rules = ReasoningRules(DIALECT, profile, knobs, losses)
        self._encrypts = profile.encrypted_reasoning
        self._needs_parts = not profile.text_parts or knobs.derive_phase == "on" or knobs.demote_reasoning == "on"
        """True if messages are changed once all of the turn are written."""
        self._sent: dict[str, Json] = {}
        """Reasoning items by id: the API rejects a request that repeats an id."""

    def write(self, turn: Turn, items: list[Json]) -> None:
        """Append the turn's items. Raises `Unsupported` for a part that an assistant turn cannot contain."""
        compact = turn.compact
        if self._needs_parts or type(compact) is not tuple:
            self._write_parts(turn, items)
            return
        reasoning, text, _, _, calls = compact
        for fields in reasoning:
            item = self._reasoning_item(fields)
            if item is not None:
                items.append(item)
        if text:
            items.append(_message(text))
        if calls:
            self._write_calls(calls, items)

    def _write_parts(self, turn: Turn, items: list[Json]) -> None:
        """Append the items of a turn's parts.

        Adjacent texts are parts of one message, because citations split a text within a sentence, unless a text starts
        a new message (`apart`).
        """
        content: list[Json] | None = None
        first = len(items)
        for part in turn.parts:
            writer = _WRITERS.get(type(part))
            if writer is not None:
                item = writer(self, part)
                if item is not None:
                    items.append(item)
                    content = None
                continue
            if type(part) is Text:
                written = self._text(part)
            elif type(part) is Refusal:
                written = {"type": "refusal", "refusal": part.text} if part.text else None
            else:
                raise Unsupported(part.at, f"{type(part).__name__} cannot stand in an assistant message")
            if written is None:
                continue
            if content is None or (type(part) is Text and part.apart):
                content = [written]
                items.append({"type": "message", "role": "assistant", "content": content})
            else:
                content.append(written)
        if self._needs_parts:
            self._finish(turn, [item for item in items[first:] if item.get("type") == "message"])

    def _finish(self, turn: Turn, messages: list[Json]) -> None:
        if not self._profile.text_parts:
            for message in messages:
                message["content"] = "".join(part.get("text") or part["refusal"] for part in message["content"])
        if self._knobs.derive_phase == "on" and messages:
            calls = any(type(part) is ToolCall for part in turn.parts)
            for message in messages:
                message["phase"] = "commentary" if calls else "final_answer"

    def _text(self, part: Text) -> Json | None:
        if part.cache is not None:  # only input has marks
            self._losses.add(LossCode.CACHE_HINT, part.at)
        if not part.text:
            return None
        written: Json = {"type": "output_text", "text": part.text}
        if part.citations:
            annotations = self._annotations(part)
            if annotations:
                written["annotations"] = annotations
        return written

    def _annotations(self, part: Text) -> list[Json]:
        """Return the text's citations, without those of other providers, whose sources this one does not know."""
        kept: list[Json] = []
        for citation in part.citations:
            written = write_citation(citation, len(part.text)) if citation.origin in _OPENAI else None
            if written is not None:
                kept.append(written)
        if len(kept) < len(part.citations):
            self._losses.add(LossCode.CITATIONS, part.at)
        return kept

    def _native(self, part: Native) -> Json | None:
        if part.origin == DIALECT:
            return part.payload
        self._losses.add(LossCode(part.code), part.at)
        return None

    # --- calls --------------------------------------------------------------------------------------------------------

    def _call(self, part: ToolCall) -> Json:
        """Return a call. The text of its arguments is unchanged."""
        if part.cache is not None:
            self._losses.add(LossCode.CACHE_HINT, part.at)
        call_id = sanitize_call_id(part.id, self._longest_id)
        if part.built_in:
            return write_call(part.built_in, call_id, self._object(part))
        if part.search:
            return {
                "type": "tool_search_call",
                "call_id": call_id,
                "execution": "client",
                "status": "completed",
                "arguments": self._object(part),
            }
        if not part.custom and not part.namespace:
            written: list[Json] = []
            self._write_calls([(part.id, part.name, part.arguments, part.at)], written)
            return written[0]
        item: Json = {"type": "custom_tool_call" if part.custom else "function_call", "call_id": call_id}
        item["name"] = self._known.get(part.name) or self._names.fit(part.name, part.at)
        if part.namespace:
            item["namespace"] = part.namespace
        if part.custom:
            item["input"] = part.arguments
        else:
            item["arguments"] = self._arguments(part.arguments)
        return item

    def _write_calls(self, calls: list[CallFields], items: list[Json]) -> None:
        """Append the items of plain calls."""
        fit, known = self._ids_fit, self._known
        for call_id, name, arguments, at in calls:
            items.append(
                {
                    "type": "function_call",
                    "call_id": call_id if fit else sanitize_call_id(call_id, self._longest_id),
                    "name": known.get(name) or self._names.fit(name, at),
                    "arguments": arguments if arguments and not arguments.isspace() else self._arguments(arguments),
                }
            )

    def _arguments(self, text: str) -> str:
        """Return the arguments of a call. Compatible servers parse those of other dialects, which may be blank."""
        return text if self._own or text.strip() else "{}"

    def _object(self, part: ToolCall) -> Json:
        """Return the arguments of a tool search or a built-in tool, which are an object."""
        if not part.arguments.strip():
            return {}
        value = parse_object(part.arguments)
        if value is None:
            self._losses.add(LossCode.CALL_ARGUMENTS, (*part.at, "arguments"), "sent as `invalid_arguments`")
            return {INVALID_ARGUMENTS: part.arguments}
        return value

    # --- reasoning ----------------------------------------------------------------------------------------------------

    def _reasoning(self, part: Reasoning) -> Json | None:
        return self._reasoning_item(reasoning_fields(part))

    def _reasoning_item(self, fields: ReasoningFields) -> Json | None:
        """Return the original item, if this upstream created it and can read it, a message of its text, or None."""
        fate: Fate = self._rules.decide(fields)
        item = fields[5]
        if fate != "own" or item is None:
            return _message(fields[0]) if fate == "plain" else None
        if self._encrypts and not item.get("encrypted_content"):
            # The upstream would look up its id in its store, but requests set `store` to false.
            fate = self._rules.leave_out(fields, LossCode.REASONING_UNSIGNED)
            return _message(fields[0]) if fate == "plain" else None
        item_id = item.get("id")
        summary, content, rewrite = item.get("summary"), item.get("content"), self._profile.rewrite
        if not item_id or type(item_id) is not str or type(summary) is not list or content or rewrite:
            item = self._replayable(item)
            item_id = item.get("id")
        # Clients repeat blocks, and the API rejects a request that repeats an id.
        if item_id is None:
            return item
        if item_id not in self._sent:
            self._sent[item_id] = item
            return item
        if self._sent[item_id] != item:
            self._losses.add(LossCode.REASONING_ENCRYPTED, fields[1], "another item of its id was sent before it")
        return None

    def _replayable(self, block: Json) -> Json:
        """Return the item as the API accepts it: with a summary, without an empty id, its text encrypted or plain.

        Upstreams that reject what they do not know reject a null as well, and an item without an id.
        """
        item, rewrite = dict(block), self._profile.rewrite
        if (item.get("content") and self._encrypts) or (rewrite and item.get("content") is None):
            item.pop("content", None)
        if not (type(item.get("id")) is str and item.get("id")):
            item.pop("id", None)
            if rewrite:
                item["id"] = f"rs_{sha256(dumps(item)).hexdigest()[:24]}"
        if type(item.get("summary")) is not list:
            item["summary"] = []
        return item


def _message(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


# Functions, not bound methods: a table of those in each writer would be a reference cycle.
_WRITERS: Final[dict[type, Callable[[AssistantWriter, Any], Json | None]]] = {
    ToolCall: AssistantWriter._call,
    Reasoning: AssistantWriter._reasoning,
    Native: AssistantWriter._native,
}
