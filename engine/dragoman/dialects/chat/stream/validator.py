"""The grammar of a Chat stream that we wrote (chat §7.1, §7.2, §8).

What the official SDK's accumulator and agents need: one identity, the role once, tool indexes without gaps whose id and
name come once, list deltas at most once, one finish, usage last and if it was asked for.

Chunks begin with their identity, and what follows is spelled alike in most streams: it is read once per process.
"""

from __future__ import annotations

import re
from typing import Any, Final

from dragoman.canonical.request import Json
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
_TEXTS: Final = frozenset(("content", "refusal", "reasoning_content", "reasoning"))
_ROLE: Final = frozenset(("role", "content", "refusal"))
_BODY: Final = {False: ("function", "arguments"), True: ("custom", "input")}
"""Is it a free-text call → where its fragments stand."""
_CHOICES: Final = b'"choices":'
_IDENTITY: Final = re.compile(
    rb'\{"id":"[^"\\]+","object":"chat\.completion\.chunk","created":\d{1,18},"model":"[^"\\]*","choices":'
)
_SAME: Final[dict[bytes, tuple[bool, str]]] = {}
"""What followed the identity in the chunk of the role and in finish chunks: was usage asked for, the reason or ""."""
_FORMS: Final[dict[tuple[bytes, bytes], bool]] = {}
"""What stood around a text behind the identity, but for those of calls: was usage asked for."""
_SAME_LONGEST: Final = 120
_SAME_MAX: Final = 64


class ChatValidator(Validator):
    """Encodes the frames of a Chat stream, and holds them against the dialect's grammar."""

    __slots__ = ("_annotated", "_calls", "_counted", "_finished", "_identity")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._identity = b""
        """What each chunk begins with: id, object, time, model."""
        self._calls: dict[str, bool] | None = None
        """Id → is it a free-text call, in the order of their indexes."""
        self._annotated = self._finished = self._counted = False

    def read(self, name: str, payload: bytes) -> SoleText | None:
        """One chunk, `[DONE]` or an error."""
        if name:
            raise GrammarError("an event line, which Chat has not")
        if payload == b"[DONE]":
            self._done()
            return None
        identity = self._identity
        if identity and payload.startswith(identity) and not self._counted and not self._finished:
            rest = payload[len(identity) :]
            if (same := _SAME.get(rest)) is not None and same[0] is self.context.include_usage and same[1]:
                self._finish(same[1])
                return None
            if self._formed(payload, rest):
                return NO_CHANGE
        elif not identity and (spelled := _IDENTITY.match(payload)) is not None:
            same = _SAME.get(payload[spelled.end() :])
            if same is not None and same[0] is self.context.include_usage and not same[1]:
                self._identity = spelled[0]
                return None
        return self._chunk(payload, payload_of(payload))

    def _formed(self, payload: bytes, rest: bytes) -> bool:
        """Is it a text that stands in a chunk as another stream's did."""
        for form, asked in _FORMS.items():
            head, tail = form
            if asked is self.context.include_usage and rest.startswith(head) and rest.endswith(tail):
                low, end = len(payload) - len(rest) + len(head), len(tail)
                if is_text(payload, low, end):
                    super().set_template(b"data: " + payload[:low], tail + b"\n\n", len(payload) + 8)
                    return True
        return False

    def set_template(self, low: bytes, tail: bytes, size: int) -> None:
        """What comes next may begin and end so."""
        super().set_template(low, tail, size)
        head = low[6 + len(self._identity) :]
        if b"tool_calls" not in head and len(head) <= _SAME_LONGEST and len(_FORMS) < _SAME_MAX:
            _FORMS.setdefault((head, tail[:-2]), self.context.include_usage)

    def _identify(self, chunk: Json) -> None:
        """Take the identity of the first chunk, or hold that of another against it."""
        told = member(chunk, "id", str), member(chunk, "created", int), member(chunk, "model", str)
        if chunk.get("object") != "chat.completion.chunk" or not told[0]:
            raise GrammarError("a chunk without its object or id")
        spelled = dumps({"id": told[0], "object": "chat.completion.chunk", "created": told[1], "model": told[2]})
        identity = spelled[:-1] + b"," + _CHOICES
        if identity != self._identity and self._identity:
            raise GrammarError("id, created or model changed within the stream")
        self._identity = identity

    def _chunk(self, payload: bytes, chunk: Json) -> SoleText | None:
        if "error" in chunk:
            error = member(chunk, "error", dict)
            told = member(error, "message", str) and member(error, "type", str)
            if not told or not {"param", "code"} <= error.keys():
                raise GrammarError("an error without one of its four keys")
            self.ended = True
            return None
        first = not self._identity
        if first or not payload.startswith(self._identity):
            self._identify(chunk)
        if self._counted:
            raise GrammarError("a chunk after the usage")
        choices: list[Any] = member(chunk, "choices", list)
        if self.context.include_usage is not ("usage" in chunk):
            raise GrammarError("a chunk with the key usage, which was not asked for, or without it, which was")
        if choices and chunk.get("usage") is not None:
            raise GrammarError("usage on a chunk with choices")
        if len(choices) > 1:
            raise GrammarError("several choices in one chunk")
        if first:
            self._role(choices)
        elif choices:
            said = self._choice(choices[0])
            if said is not None or not self._finished:
                return said
        else:
            self._usage(chunk)
            return None
        rest = payload[len(self._identity) :]
        if payload.startswith(self._identity) and len(rest) <= _SAME_LONGEST and len(_SAME) < _SAME_MAX:
            _SAME[rest] = self.context.include_usage, choices[0]["finish_reason"] or ""
        return None

    def _role(self, choices: list[Any]) -> None:
        choice = choices[0] if choices else None
        delta = member(choice, "delta", dict)
        if delta.get("role") != "assistant":
            raise GrammarError("the first chunk lacks the role")
        if not delta.keys() <= _ROLE or delta.get("content") or delta.get("refusal") is not None:
            raise GrammarError("the chunk of the role carries more")
        self._check(choices[0])
        if choices[0]["finish_reason"] is not None:
            raise GrammarError("the first chunk finishes")

    def _check(self, choice: Json) -> None:
        index = choice.get("index")
        if type(index) is not int or index or "finish_reason" not in choice:
            raise GrammarError("a choice without index 0 or without finish_reason")
        if choice.get("logprobs") is not None and not self.context.logprobs:
            raise GrammarError("log probabilities that nobody asked for")

    def _choice(self, choice: Any) -> SoleText | None:
        delta = member(choice, "delta", dict)
        self._check(choice)
        if self._finished:
            raise GrammarError("a choice after the finish (T-27)")
        reason = choice["finish_reason"]
        if reason is not None:
            if delta:
                raise GrammarError("the finish chunk carries a delta")
            self._finish(reason)
            return None
        said: SoleText | None = NO_CHANGE
        for key, value in delta.items():
            if key in _TEXTS:
                if type(value) is not str:
                    raise GrammarError("a text that is not a string")
                said = SoleText(key.encode(), value)
            elif key == "tool_calls":
                said = self._fragments(value)
            elif key == "annotations":
                if self._annotated or type(value) is not list or not value:
                    raise GrammarError("annotations on two chunks, or none of them")
                self._annotated = True
            elif key == "role":
                raise GrammarError("the role twice: clients concatenate it")
        return said if len(delta) == 1 and len(choice) == 3 else NO_CHANGE

    def _fragments(self, fragments: Any) -> SoleText | None:
        if type(fragments) is not list or not fragments:
            raise GrammarError("tool_calls is not a list, or empty")
        calls = self._calls if self._calls is not None else {}
        said: SoleText | None = None
        for fragment in fragments:
            index = member(fragment, "index", int)
            if index == len(calls):
                self._start(fragment, calls)
                continue
            if not 0 <= index < len(calls):
                raise GrammarError("a tool index that leaves a gap")
            if "id" in fragment or "type" in fragment:
                raise GrammarError("id or type of a tool twice: clients concatenate it")
            custom = list(calls.values())[index]
            body, key = _BODY[custom]
            told = member(fragment, body, dict)
            if "name" in told or _BODY[not custom][0] in fragment:
                raise GrammarError("the name of a tool twice, or another body")
            said = SoleText(key.encode(), member(told, key, str))
        self._calls = calls
        return said if len(fragments) == 1 else NO_CHANGE

    def _start(self, fragment: Json, calls: dict[str, bool]) -> None:
        custom = fragment.get("type") == "custom"
        if not custom and fragment.get("type") != "function":
            raise GrammarError("a tool that starts without its type")
        body, key = _BODY[custom]
        told = member(fragment, body, dict)
        call_id = member(fragment, "id", str)
        member(told, key, str)
        if not call_id or not member(told, "name", str):
            raise GrammarError("a tool that starts without its id or name")
        if call_id in calls:
            raise GrammarError("a call id twice")
        calls[call_id] = custom

    def _finish(self, reason: object) -> None:
        if reason not in _REASONS:
            raise GrammarError("a finish_reason that is no word of the dialect")
        if reason == "tool_calls" and not self._calls:
            raise GrammarError("finish_reason tool_calls without a call")
        if reason == "stop" and self._calls:
            raise GrammarError("finish_reason stop although there are calls")
        self._finished = True

    def _usage(self, chunk: Json) -> None:
        if not self._finished:
            raise GrammarError("the usage before the finish, or no choice")
        usage = counted(chunk.get("usage"), "prompt_tokens", "completion_tokens", "total_tokens")
        if usage["total_tokens"] != usage["prompt_tokens"] + usage["completion_tokens"]:
            raise GrammarError("token counts that do not add up")
        self._counted = True

    def _done(self) -> None:
        if not self._finished:
            raise GrammarError("[DONE] without a finish")
        context = self.context
        if context.include_usage and not self._counted and LossCode.USAGE_ESTIMATED not in context.losses.counts:
            raise GrammarError("no usage although it was asked for, and no loss that says so")
        self.ended = True
