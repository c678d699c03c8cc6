"""The grammar of a Chat Completions stream (chat §7.1, §7.2, §8).

Its rules are those of the official SDK's accumulator and of agents: one identity on all chunks, the role once and
first, tool indexes without gaps whose id and name come once, annotations once, one finish, and usage last, if it was
requested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.stages.grammar.checker import LIMIT, Grammar
from dragoman.stages.grammar.values import (
    GrammarError,
    Json,
    TextDigest,
    an_array,
    an_object,
    count,
    members,
    parse_arguments,
    parse_object,
    require,
    string,
)

_FINISH_REASONS: Final = frozenset(("stop", "length", "tool_calls", "content_filter", "function_call"))
_CHUNK: Final = frozenset(("id", "object", "created", "model", "choices"))
_CHUNK_EXTRA: Final = frozenset(("usage", "system_fingerprint", "service_tier", "obfuscation", "moderation"))
_CHOICE: Final = frozenset(("index", "delta", "finish_reason"))
_LOGPROBS: Final = frozenset(("logprobs",))
_REASONING: Final = ("reasoning_content", "reasoning")
"""Two fields for one text (knob `reasoning_field = both`)."""
_TEXTS: Final = frozenset(("content", "refusal", *_REASONING))
_LISTS: Final = frozenset(("tool_calls", "annotations", "images"))
_ROLE_DELTA: Final = frozenset(("role", "content", "refusal"))
_DELTA: Final = _TEXTS | _LISTS | {"role", "extra_content"}
_BODY: Final = {False: ("function", "arguments"), True: ("custom", "input")}
"""False for a function call, True for a free-text call → the fields of its fragments."""
_INDEX: Final = frozenset(("index",))
_FRAGMENT: Final = frozenset(("id", "type", "function", "custom", "extra_content"))
_USAGE: Final = frozenset(("prompt_tokens", "completion_tokens", "total_tokens"))
_DETAILS: Final = frozenset(("prompt_tokens_details", "completion_tokens_details"))
_ERROR: Final = frozenset(("message", "type", "param", "code"))
_ERROR_EXTRA: Final = frozenset(("misalignment",))
_ANNOTATION: Final = frozenset(("type", "url_citation"))
_CITATION: Final = frozenset(("start_index", "end_index", "title", "url"))
_NONE: Final = frozenset[str]()
_CALL_SIZE: Final = 256
_PIECE_SIZE: Final = 64
"""Bytes that a call and a piece of its arguments take, apart from their texts."""


class _Call:
    """A call: `pieces` are those of its arguments."""

    def __init__(self, custom: bool) -> None:
        self.custom = custom
        self.pieces: list[str] = []


class ChatGrammar(Grammar):
    """The grammar of one Chat stream.

    `include_usage`, `logprobs` and `stops` are True if the client requested token counts, log probabilities and stop
    sequences. `usage_due` is called at the end of a stream without the requested counts; it returns True if they must
    be there.
    """

    def __init__(
        self,
        *,
        include_usage: bool = False,
        logprobs: bool = False,
        stops: bool = False,
        usage_due: Callable[[], bool] | None = None,
        limit: int = LIMIT,
    ) -> None:
        super().__init__(limit)
        self._include_usage, self._logprobs, self._stops = include_usage, logprobs, stops
        self._usage_due = usage_due
        self._head: tuple[Any, ...] | None = None
        """Id, time and model of all chunks, once the first one was read."""
        self._calls: list[_Call] = []
        self._ids: set[str] = set()
        self._reasoning: dict[str, TextDigest] = {}
        self._finish: str | None = None
        self._annotated = self._counted = self._refused = False

    def read(self, event: str, data: str | None) -> None:
        """Read one chunk, `[DONE]`, an error or a comment."""
        if data is None:
            return
        require(not event, "an event line, which Chat does not have")
        if data == "[DONE]":
            return self._end()
        payload = parse_object(data)
        if "error" in payload:
            members(payload, frozenset(("error",)), _NONE, "an error frame")
            check_error(payload["error"])
            self.ended = True
        else:
            self._chunk(payload)

    def _end(self) -> None:
        require(self._finish is not None, "[DONE] without a finish")
        if self._include_usage and not self._counted and self._usage_due is not None:
            require(not self._usage_due(), "no usage although it was requested, and no loss for it")
        if len(self._reasoning) > 1:
            first, second = self._reasoning.values()
            require(first.digest() == second.digest(), "two fields of one reasoning text that differ")
        self.ended = True

    def _chunk(self, chunk: Json) -> None:
        members(chunk, _CHUNK, _CHUNK_EXTRA, "a chunk")
        require(chunk["object"] == "chat.completion.chunk", "a chunk of another object")
        head = (
            string(chunk["id"], "id", empty=False),
            count(chunk["created"], "created"),
            string(chunk["model"], "model"),
        )
        if self._head is None:
            self.keep(len(head[0]) + len(head[2]))
        require(self._head is None or head == self._head, "id, created or model changed within the stream")
        require(not self._counted, "a chunk after the usage")
        require(
            self._include_usage is ("usage" in chunk),
            "a chunk with the key usage, which was not requested, or without it although it was",
        )
        choices = an_array(chunk["choices"], "choices")
        first, self._head = self._head is None, head
        if not choices:
            require(self._finish is not None, "the usage before the finish, or no choice")
            check_usage(chunk.get("usage"))
            self._counted = True
            return
        require(chunk.get("usage") is None, "usage on a chunk with choices")
        require(len(choices) == 1, "several choices in one chunk")
        self._choice(choices[0], first=first)

    def _choice(self, raw: Any, *, first: bool) -> None:
        choice = members(raw, _CHOICE, _LOGPROBS, "a choice")
        require(type(choice["index"]) is int and choice["index"] == 0, "a choice without index 0")
        require(self._logprobs or choice.get("logprobs") is None, "log probabilities that were not requested")
        require(self._finish is None, "a choice after the finish (T-27)")
        delta = members(choice["delta"], _NONE, _DELTA, "a delta")
        if first:
            self._role(delta)
        else:
            self._delta(delta)
        reason = choice["finish_reason"]
        if reason is not None:
            require(not delta, "the finish chunk carries a delta")
            self._finish_with(reason)

    def _role(self, delta: Json) -> None:
        require(delta.get("role") == "assistant", "the first chunk lacks the role")
        plain = delta.keys() <= _ROLE_DELTA and delta.get("content") in ("", None) and delta.get("refusal") is None
        require(plain, "the chunk of the role has other content")

    def _delta(self, delta: Json) -> None:
        for key, value in delta.items():
            if key in _TEXTS:
                self._text(key, string(value, "a text"))
            elif key in _LISTS:
                require(an_array(value, key), f"an empty list of {key}")
            elif key == "role":
                raise GrammarError("the role twice: clients concatenate it")
            else:
                an_object(value, f"{key} is not an object")
        if "annotations" in delta:
            require(not self._annotated, "annotations on two chunks: the SDK raises")
            self._annotated = True
            for annotation in delta["annotations"]:
                check_annotation(annotation)
        for fragment in delta.get("tool_calls", ()):
            self._fragment(fragment)

    def _text(self, key: str, text: str) -> None:
        if key in _REASONING:
            self._reasoning.setdefault(key, TextDigest()).add(text)
        elif key == "refusal":
            self._refused = True

    def _fragment(self, raw: Any) -> None:
        fragment = members(raw, _INDEX, _FRAGMENT, "a fragment of a tool")
        index = count(fragment["index"], "the index of a tool")
        require(index <= len(self._calls), "a tool index that leaves a gap")
        if "extra_content" in fragment:
            an_object(fragment["extra_content"], "extra_content is not an object")
        if index == len(self._calls):
            return self._start_call(fragment)
        call = self._calls[index]
        require("id" not in fragment and "type" not in fragment, "id or type of a tool twice: clients concatenate it")
        body, key = _BODY[call.custom]
        if body not in fragment and "extra_content" in fragment:
            return
        fields = members(fragment.get(body), frozenset((key,)), _NONE, "a later fragment of a tool")
        self._add(call, string(fields[key], key))

    def _start_call(self, fragment: Json) -> None:
        custom = fragment.get("type") == "custom"
        require(custom or fragment.get("type") == "function", "a tool that starts without its type")
        body, key = _BODY[custom]
        require(_BODY[not custom][0] not in fragment, "a tool with two bodies")
        fields = members(fragment.get(body), frozenset(("name", key)), _NONE, "the start of a tool")
        call_id = string(fragment.get("id"), "the id of a tool", empty=False)
        string(fields["name"], "the name of a tool", empty=False)
        require(call_id not in self._ids, "a call id twice")
        self.keep(_CALL_SIZE + len(call_id))
        self._ids.add(call_id)
        call = _Call(custom)
        self._calls.append(call)
        self._add(call, string(fields[key], key))

    def _add(self, call: _Call, piece: str) -> None:
        if not call.custom and piece:
            self.keep(_PIECE_SIZE + len(piece))
            call.pieces.append(piece)

    def _finish_with(self, reason: object) -> None:
        require(type(reason) is str and reason in _FINISH_REASONS, "a finish_reason that the API does not define")
        if reason == "tool_calls":
            require(self._calls, "finish_reason tool_calls without a call")
            for call in self._calls:
                if not call.custom:
                    parse_arguments("".join(call.pieces))
        elif reason == "stop":
            # After a call, an upstream may refuse, or its text may reach a stop sequence.
            allowed = self._refused or self._stops or not self._calls
            require(allowed, "finish_reason stop although there are calls")
        self._finish = str(reason)


def check_usage(raw: Any) -> Json:
    """Return a usage object whose sums are right. Raises GrammarError."""
    usage = members(raw, _USAGE, _DETAILS, "usage")
    counts = [count(usage[name], name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")]
    require(counts[0] + counts[1] == counts[2], "token counts that do not add up")
    for name in _DETAILS:
        details = usage.get(name)
        if details is not None:
            for value in an_object(details, f"{name} is not an object").values():
                count(value, "a count in details")
    return usage


def check_error(raw: Any) -> Json:
    """Return an error object of the OpenAI envelope: all four keys. Raises GrammarError."""
    error = members(raw, _ERROR, _ERROR_EXTRA, "an error")
    string(error["message"], "the message of an error", empty=False)
    string(error["type"], "the type of an error", empty=False)
    for name in ("param", "code"):
        require(error[name] is None or type(error[name]) is str, "an error with another type of param or code")
    return error


def check_annotation(raw: Any) -> None:
    """Check one citation. Raises GrammarError."""
    annotation = members(raw, _ANNOTATION, _NONE, "an annotation")
    require(annotation["type"] == "url_citation", "an annotation of another type")
    citation = members(annotation["url_citation"], _CITATION, _NONE, "a citation")
    start, end = count(citation["start_index"], "start_index"), count(citation["end_index"], "end_index")
    require(start <= end, "a citation that ends before it starts")
    string(citation["url"], "the url of a citation", empty=False)
    string(citation["title"], "the title of a citation")
