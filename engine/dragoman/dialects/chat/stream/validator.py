"""Validates the grammar of a written Chat stream (chat §7.1, §7.2, §8).

Its rules are those of the official SDK's accumulator and of agents: one identity on all chunks, the role once,
tool indexes without gaps whose id and name come once, list deltas at most once, one finish, and usage last, if it was
requested.

A chunk begins with its identity. The bytes after it are equal in most streams, so they are parsed once per process.
"""

from __future__ import annotations

import re
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.chat.stream.usual_frames import DONE, FINISH, START, TEXT, TEXT_END, USAGE
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.stages.output_validator import (
    NO_CHANGE,
    GrammarError,
    SoleText,
    Validator,
    counted,
    is_text,
    member,
    payload_of,
)
from dragoman.wire.json_codec import dumps

_REASONS: Final = frozenset(("stop", "length", "tool_calls", "content_filter", "function_call"))
_TEXT_KEYS: Final = frozenset(("content", "refusal", "reasoning_content", "reasoning"))
_ROLE_KEYS: Final = frozenset(("role", "content", "refusal"))
_BODY: Final = {False: ("function", "arguments"), True: ("custom", "input")}
"""False for a function call, True for a free-text call → the fields of its fragments."""
_CHOICES: Final = b'"choices":'
_IDENTITY: Final = re.compile(
    rb'\{"id":"[^"\\]+","object":"chat\.completion\.chunk","created":\d{1,18},"model":"[^"\\]*","choices":'
)
_KNOWN_CHUNKS: Final[dict[bytes, tuple[bool, str]]] = {}
"""Valid bytes after the identity, in role and finish chunks → usage requested, finish reason or ""."""
_KNOWN_TEXT_CHUNKS: Final[list[tuple[bytes, bytes, bool]]] = []
"""Valid bytes before and after a text, without the identity and except for calls; usage requested. A list, as another
thread may add to it while it is read."""
_LONGEST_CACHED: Final = 120
_MOST_CACHED: Final = 64


class ChatValidator(Validator):
    """Encodes the frames of a Chat stream and validates them."""

    __slots__ = ("_annotated", "_calls", "_counted", "_finished", "_identity")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._identity = b""
        """First bytes of each chunk: id, object, time, model."""
        self._calls: dict[str, bool] | None = None
        """Call id → True for a free-text call, in the order of the indexes."""
        self._annotated = self._finished = self._counted = False

    def read(self, name: str, payload: bytes) -> SoleText | None:
        """Validate one chunk, `[DONE]` or an error."""
        if name:
            raise GrammarError("an event line, which Chat does not have")
        if payload == b"[DONE]":
            self._validate_done()
            return None
        identity = self._identity
        if identity and payload.startswith(identity) and not self._counted and not self._finished:
            rest = payload[len(identity) :]
            if (known := _KNOWN_CHUNKS.get(rest)) is not None and known[0] is self.context.include_usage and known[1]:
                self._validate_finish(known[1])
                return None
            if self._matches_known_chunk(payload, rest):
                return NO_CHANGE
        elif not identity and (match := _IDENTITY.match(payload)) is not None:
            known = _KNOWN_CHUNKS.get(payload[match.end() :])
            if known is not None and known[0] is self.context.include_usage and not known[1]:
                self._identity = match[0]
                return None
        return self._validate_chunk(payload, payload_of(payload))

    def take_usual(self, data: bytes) -> int:
        """See `Validator.take_usual`."""
        if self._identity:
            return self._take_end(data)
        match = START.match(data)
        if match is None or (match[2] is not None) is not self.context.include_usage:
            return 0
        self._identity = identity = match[1]
        self.position += 1
        super().set_template(TEXT % identity, TEXT_END % (match[2] or b""), 0)
        return match.end()

    def _take_end(self, data: bytes) -> int:
        """Take the finish chunk, and the usage and `[DONE]` if they follow. Returns the number of their bytes."""
        head, with_usage = b"data: " + self._identity, self.context.include_usage
        finish = FINISH.match(data, len(head)) if data.startswith(head) and not self._finished else None
        if finish is None or self._counted or (finish[2] is not None) is not with_usage:
            return 0
        reason, end = finish[1], finish.end()
        if reason != b"length" and (reason == b"tool_calls") is not bool(self._calls):
            return 0
        if with_usage and data.startswith(head, end):
            usage = USAGE.match(data, end + len(head))
            if usage is None or int(usage[1]) + int(usage[2]) != int(usage[3]):
                return 0
            self._counted, end = True, usage.end()
        if data.startswith(DONE, end):
            if with_usage and not self._counted:
                return 0
            self.ended = True
            end += len(DONE)
        self._finished = True
        self.position += 1 + self._counted + self.ended
        self.drop_template()
        return end

    def _matches_known_chunk(self, payload: bytes, rest: bytes) -> bool:
        """True if the chunk is valid because its bytes around the text are known from another stream."""
        for head, tail, usage_requested in _KNOWN_TEXT_CHUNKS:
            if usage_requested is self.context.include_usage and rest.startswith(head) and rest.endswith(tail):
                low, end = len(payload) - len(rest) + len(head), len(tail)
                if is_text(payload, low, end):
                    super().set_template(b"data: " + payload[:low], tail + b"\n\n", len(payload) + 8)
                    return True
        return False

    def set_template(self, low: bytes, tail: bytes, size: int) -> None:
        """See `Validator.set_template`. The template is kept for other streams too."""
        super().set_template(low, tail, size)
        head = low[6 + len(self._identity) :]
        if b"tool_calls" not in head and len(head) <= _LONGEST_CACHED and len(_KNOWN_TEXT_CHUNKS) < _MOST_CACHED:
            known = head, tail[:-2], self.context.include_usage
            if known not in _KNOWN_TEXT_CHUNKS:
                _KNOWN_TEXT_CHUNKS.append(known)

    def _validate_identity(self, chunk: Json) -> None:
        """Record the identity of the first chunk, or compare that of a later one."""
        values = member(chunk, "id", str), member(chunk, "created", int), member(chunk, "model", str)
        if chunk.get("object") != "chat.completion.chunk" or not values[0]:
            raise GrammarError("a chunk without its object or id")
        encoded = dumps({"id": values[0], "object": "chat.completion.chunk", "created": values[1], "model": values[2]})
        identity = encoded[:-1] + b"," + _CHOICES
        if identity != self._identity and self._identity:
            raise GrammarError("id, created or model changed within the stream")
        self._identity = identity

    def _validate_chunk(self, payload: bytes, chunk: Json) -> SoleText | None:
        if "error" in chunk:
            error = member(chunk, "error", dict)
            described = member(error, "message", str) and member(error, "type", str)
            if not described or not {"param", "code"} <= error.keys():
                raise GrammarError("an error without one of its four keys")
            self.ended = True
            return None
        first = not self._identity
        if first or not payload.startswith(self._identity):
            self._validate_identity(chunk)
        if self._counted:
            raise GrammarError("a chunk after the usage")
        choices: list[Any] = member(chunk, "choices", list)
        if self.context.include_usage is not ("usage" in chunk):
            raise GrammarError("a chunk with the key usage, which was not requested, or without it although it was")
        if choices and chunk.get("usage") is not None:
            raise GrammarError("usage on a chunk with choices")
        if len(choices) > 1:
            raise GrammarError("several choices in one chunk")
        if first:
            self._validate_role(choices)
        elif choices:
            sole_text = self._validate_choice(choices[0])
            if sole_text is not None or not self._finished:
                return sole_text
        else:
            self._validate_usage(chunk)
            return None
        rest = payload[len(self._identity) :]
        if payload.startswith(self._identity) and len(rest) <= _LONGEST_CACHED and len(_KNOWN_CHUNKS) < _MOST_CACHED:
            _KNOWN_CHUNKS[rest] = self.context.include_usage, choices[0]["finish_reason"] or ""
        return None

    def _validate_role(self, choices: list[Any]) -> None:
        choice = choices[0] if choices else None
        delta = member(choice, "delta", dict)
        if delta.get("role") != "assistant":
            raise GrammarError("the first chunk lacks the role")
        if not _ROLE_KEYS.issuperset(delta) or delta.get("content") or delta.get("refusal") is not None:
            raise GrammarError("the chunk of the role has other content")
        self._validate_choice_fields(choices[0])
        if choices[0]["finish_reason"] is not None:
            raise GrammarError("the first chunk finishes")

    def _validate_choice_fields(self, choice: Json) -> None:
        index = choice.get("index")
        if type(index) is not int or index or "finish_reason" not in choice:
            raise GrammarError("a choice without index 0 or without finish_reason")
        if choice.get("logprobs") is not None and not self.context.logprobs:
            raise GrammarError("log probabilities that were not requested")

    def _validate_choice(self, choice: Any) -> SoleText | None:
        delta = member(choice, "delta", dict)
        self._validate_choice_fields(choice)
        if self._finished:
            raise GrammarError("a choice after the finish (T-27)")
        reason = choice["finish_reason"]
        if reason is not None:
            if delta:
                raise GrammarError("the finish chunk carries a delta")
            self._validate_finish(reason)
            return None
        sole_text: SoleText | None = NO_CHANGE
        for key, value in delta.items():
            if key in _TEXT_KEYS:
                if type(value) is not str:
                    raise GrammarError("a text that is not a string")
                sole_text = SoleText(key.encode(), value)
            elif key == "tool_calls":
                sole_text = self._validate_fragments(value)
            elif key == "annotations":
                if self._annotated or type(value) is not list or not value:
                    raise GrammarError("annotations on two chunks, or an empty list of them")
                self._annotated = True
            elif key == "role":
                raise GrammarError("the role twice: clients concatenate it")
        return sole_text if len(delta) == 1 and len(choice) == 3 else NO_CHANGE

    def _validate_fragments(self, fragments: Any) -> SoleText | None:
        if type(fragments) is not list or not fragments:
            raise GrammarError("tool_calls is not a list, or empty")
        calls = self._calls if self._calls is not None else {}
        sole_text: SoleText | None = None
        for fragment in fragments:
            index = member(fragment, "index", int)
            if index == len(calls):
                self._start_call(fragment, calls)
                continue
            if not 0 <= index < len(calls):
                raise GrammarError("a tool index that leaves a gap")
            if "id" in fragment or "type" in fragment:
                raise GrammarError("id or type of a tool twice: clients concatenate it")
            custom = list(calls.values())[index]
            body, key = _BODY[custom]
            fields = member(fragment, body, dict)
            if "name" in fields or _BODY[not custom][0] in fragment:
                raise GrammarError("the name of a tool twice, or another body")
            sole_text = SoleText(key.encode(), member(fields, key, str))
        self._calls = calls
        return sole_text if len(fragments) == 1 else NO_CHANGE

    def _start_call(self, fragment: Json, calls: dict[str, bool]) -> None:
        custom = fragment.get("type") == "custom"
        if not custom and fragment.get("type") != "function":
            raise GrammarError("a tool that starts without its type")
        body, key = _BODY[custom]
        fields = member(fragment, body, dict)
        call_id = member(fragment, "id", str)
        member(fields, key, str)
        if not call_id or not member(fields, "name", str):
            raise GrammarError("a tool that starts without its id or name")
        if call_id in calls:
            raise GrammarError("a call id twice")
        calls[call_id] = custom

    def _validate_finish(self, reason: object) -> None:
        if reason not in _REASONS:
            raise GrammarError("a finish_reason that the API does not define")
        if reason == "tool_calls" and not self._calls:
            raise GrammarError("finish_reason tool_calls without a call")
        if reason == "stop" and self._calls:
            raise GrammarError("finish_reason stop although there are calls")
        self._finished = True

    def _validate_usage(self, chunk: Json) -> None:
        if not self._finished:
            raise GrammarError("the usage before the finish, or no choice")
        usage = counted(chunk.get("usage"), "prompt_tokens", "completion_tokens", "total_tokens")
        if usage["total_tokens"] != usage["prompt_tokens"] + usage["completion_tokens"]:
            raise GrammarError("token counts that do not add up")
        self._counted = True

    def _validate_done(self) -> None:
        if not self._finished:
            raise GrammarError("[DONE] without a finish")
        context = self.context
        if context.include_usage and not self._counted and LossCode.USAGE_ESTIMATED not in context.losses.counts:
            raise GrammarError("no usage although it was requested, and no loss for it")
        self.ended = True
