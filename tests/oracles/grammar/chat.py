"""The strict grammar of a Chat Completions stream (chat §7.1, §7.2, §8)."""

from __future__ import annotations

from typing import Any

from . import sse
from .accumulated import Accumulated, Call, GrammarError, Json, integer, keys, parse_object, require, string

FINISH_REASONS = {"stop", "length", "tool_calls", "content_filter", "function_call"}
_CHUNK = {"id", "object", "created", "model", "choices"}
_CHUNK_EXTRA = {"usage", "system_fingerprint", "service_tier", "obfuscation"}
_DELTA = {"role", "content", "refusal", "tool_calls", "annotations", "reasoning_content", "reasoning"}
_KIND = {"content": "text", "refusal": "refusal", "reasoning_content": "reasoning", "reasoning": "reasoning"}


class _Call:
    def __init__(self, call_id: str, name: str, custom: bool) -> None:
        self.id, self.name, self.custom = call_id, name, custom
        self.arguments = ""
        self.position = -1


def check_usage(raw: Any) -> Json:
    """A usage object whose sums are right. Raises GrammarError."""
    usage = keys(
        raw,
        {"prompt_tokens", "completion_tokens", "total_tokens"},
        {"prompt_tokens_details", "completion_tokens_details"},
        "usage",
    )
    prompt = integer(usage["prompt_tokens"], "usage.prompt_tokens")
    completion = integer(usage["completion_tokens"], "usage.completion_tokens")
    require(integer(usage["total_tokens"], "usage.total_tokens") == prompt + completion, f"a wrong total: {usage}")
    for name in ("prompt_tokens_details", "completion_tokens_details"):
        details = usage.get(name)
        if details is None:
            continue
        require(type(details) is dict, f"usage.{name} is not an object")
        for key, value in details.items():
            integer(value, f"usage.{name}.{key}")
    return usage


def check_error(raw: Any) -> Json:
    """An error object of the OpenAI envelope: all four keys. Raises GrammarError."""
    error = keys(raw, {"message", "type", "param", "code"}, {"misalignment"}, "error")
    string(error["message"], "error.message", empty=False)
    string(error["type"], "error.type", empty=False)
    for name in ("param", "code"):
        require(error[name] is None or type(error[name]) is str, f"error.{name} is not a string or null")
    return error


class _Checker:
    def __init__(self, include_usage: bool, refused: bool, logprobs: bool) -> None:
        self.include_usage = include_usage
        self.logprobs = logprobs
        self.refused = refused
        self.result = Accumulated()
        self.head: tuple[Any, ...] | None = None
        self.role_seen = False
        self.annotated = False
        self.usage_seen = False
        self.done = False
        self.calls: list[_Call] = []
        self.reasoning_fields: dict[str, str] = {}

    def item(self, item: sse.Item) -> None:
        if item.data is None:
            require(not self.done, "a comment after the terminal frame")
            self.result.pings += 1
            return
        require(item.event == "", f"an `event:` line: {item.event!r}")
        require(not self.done, f"a frame after the terminal one: {item.data[:200]!r}")
        if item.data == b"[DONE]":
            require(self.result.finish is not None, "`[DONE]` without a finish chunk")
            self.done = True
            return
        payload = parse_object(item.data)
        if "error" in payload:
            keys(payload, {"error"}, set(), "error frame")
            self.result.error = check_error(payload["error"])
            self.done = True
            return
        self.chunk(payload)

    def chunk(self, chunk: Json) -> None:
        keys(chunk, _CHUNK, _CHUNK_EXTRA, "chunk")
        string(chunk["id"], "id", empty=False)
        string(chunk["model"], "model")
        integer(chunk["created"], "created")
        require(chunk["object"] == "chat.completion.chunk", f"object is {chunk['object']!r}")
        head = chunk["id"], chunk["created"], chunk["model"]
        if self.head is None:
            self.head = head
            self.result.id, self.result.model = chunk["id"], chunk["model"]
        require(head == self.head, f"id, created or model changed: {self.head} to {head}")
        require(not self.usage_seen, "a chunk after the usage chunk")
        if self.include_usage:
            require("usage" in chunk, "include_usage, but a chunk lacks the key `usage`")
        else:
            require("usage" not in chunk, "a usage key, though the client did not ask")
        choices = chunk["choices"]
        require(type(choices) is list, "choices is not a list")
        if not choices:
            require(chunk.get("usage") is not None, "empty choices without usage")
            require(self.result.finish is not None, "the usage chunk came before the finish chunk")
            self.result.usage = check_usage(chunk["usage"])
            self.usage_seen = True
            return
        require(chunk.get("usage") is None, "usage on a chunk with choices")
        require(len(choices) == 1, f"{len(choices)} choices in one chunk")
        self.choice(choices[0])

    def choice(self, choice: Json) -> None:
        keys(choice, {"index", "delta", "finish_reason"}, {"logprobs"}, "choice")
        require(choice["index"] == 0 and type(choice["index"]) is int, f"choice index {choice['index']!r}")
        require(self.logprobs or choice.get("logprobs") is None, "logprobs that nobody asked for")
        require(self.result.finish is None, "a choice after the finish chunk (T-27)")
        delta = keys(choice["delta"], set(), _DELTA, "delta")
        self.delta(delta)
        reason = choice["finish_reason"]
        if reason is None:
            return
        require(reason in FINISH_REASONS, f"finish_reason {reason!r}")
        require(delta == {}, f"the finish chunk carries a delta: {delta!r}")
        self.finish(reason)

    def delta(self, delta: Json) -> None:
        if not self.role_seen:
            require(delta.get("role") == "assistant", f"the first chunk lacks the role: {delta!r}")
            require(delta.keys() <= {"role", "content", "refusal"}, f"the role chunk carries more: {delta!r}")
            require(delta.get("content") in ("", None), f"the role chunk carries content: {delta!r}")
            require(delta.get("refusal") is None, f"the role chunk carries a refusal: {delta!r}")
            self.role_seen = True
            return
        require("role" not in delta, "role sent twice: clients concatenate it")
        for name, kind in _KIND.items():
            if name in delta:
                self.words(name, kind, string(delta[name], f"delta.{name}"))
        if "annotations" in delta:
            require(not self.annotated, "annotations on two chunks: the SDK raises")
            self.annotated = True
            self.annotations(delta["annotations"])
        if "tool_calls" in delta:
            fragments = delta["tool_calls"]
            require(type(fragments) is list and fragments, "tool_calls is not a list, or empty")
            for fragment in fragments:
                self.fragment(fragment)

    def words(self, name: str, kind: str, text: str) -> None:
        if kind == "reasoning":
            # Both spellings of one reasoning text are one text (knob `reasoning_field = both`).
            self.reasoning_fields[name] = self.reasoning_fields.get(name, "") + text
            if name != next(iter(self.reasoning_fields)):
                return
            self.result.reasoning += text
        elif kind == "text":
            self.result.text += text
        else:
            self.result.refusal += text
        blocks = self.result.blocks
        if blocks and blocks[-1][0] == kind:
            blocks[-1] = kind, blocks[-1][1] + text
        elif text:
            blocks.append((kind, text))

    def annotations(self, annotations: Any) -> None:
        require(type(annotations) is list and annotations, "annotations is not a list, or empty")
        for annotation in annotations:
            keys(annotation, {"type", "url_citation"}, set(), "annotation")
            require(annotation["type"] == "url_citation", f"annotation type {annotation['type']!r}")
            citation = keys(
                annotation["url_citation"], {"start_index", "end_index", "title", "url"}, set(), "url_citation"
            )
            require(
                integer(citation["start_index"], "start_index") <= integer(citation["end_index"], "end_index"),
                "a citation that ends before it starts",
            )
            string(citation["url"], "url_citation.url", empty=False)
            string(citation["title"], "url_citation.title")
            self.result.annotations.append(annotation)

    def fragment(self, fragment: Any) -> None:
        keys(fragment, {"index"}, {"id", "type", "function", "custom"}, "tool_calls[]")
        index = integer(fragment["index"], "tool_calls[].index")
        require(index <= len(self.calls), f"tool index {index} leaves a gap")
        if index == len(self.calls):
            self.start(fragment)
            return
        call = self.calls[index]
        require("id" not in fragment, "tool id sent twice: clients concatenate it")
        body_key, text_key = ("custom", "input") if call.custom else ("function", "arguments")
        require("type" not in fragment, "tool type sent twice")
        body = keys(fragment.get(body_key), {text_key}, set(), f"tool_calls[].{body_key} after the first")
        call.arguments += string(body[text_key], text_key)

    def start(self, fragment: Json) -> None:
        require({"id", "type"} <= fragment.keys(), f"a tool start without id or type: {fragment!r}")
        custom = fragment["type"] == "custom"
        require(custom or fragment["type"] == "function", f"tool type {fragment['type']!r}")
        body_key, text_key = ("custom", "input") if custom else ("function", "arguments")
        require(("function" in fragment) != ("custom" in fragment), f"not one body: {fragment!r}")
        body = keys(fragment.get(body_key), {"name", text_key}, set(), f"tool_calls[].{body_key}")
        call = _Call(
            string(fragment["id"], "tool id", empty=False), string(body["name"], "tool name", empty=False), custom
        )
        require(all(call.id != other.id for other in self.calls), f"call id {call.id!r} twice")
        call.arguments = string(body[text_key], text_key)
        call.position = len(self.result.blocks)
        self.result.blocks.append(("tool", ""))
        self.calls.append(call)

    def finish(self, reason: str) -> None:
        self.result.finish = reason
        if reason == "tool_calls":
            require(self.calls, "finish_reason tool_calls without a call")
            for call in self.calls:
                if not call.custom:
                    parse_object(call.arguments)
        if reason == "stop":
            require(self.refused or not self.calls, "finish_reason stop although there are calls")

    def close(self) -> Accumulated:
        require(self.done, "neither `[DONE]` nor an error at the end")
        spellings = set(self.reasoning_fields.values())
        require(len(spellings) <= 1, "the two reasoning fields disagree")
        for call in self.calls:
            kind = "custom" if call.custom else "function"
            self.result.calls.append(Call(call.id, call.name, call.arguments, kind=kind))
            self.result.blocks[call.position] = "tool", call.arguments
        return self.result


def check(
    data: bytes,
    *,
    include_usage: bool = False,
    usage_known: bool | None = None,
    refused: bool = False,
    logprobs: bool = False,
) -> Accumulated:
    """Check a whole stream that we wrote.

    If the client requests usage, `usage_known` is True if there must be a usage chunk, and None if there may be one.
    `refused` allows `stop` after calls, which only an upstream's refusal after a call causes. `logprobs` is True if
    the client requested log probabilities.
    """
    checker = _Checker(include_usage, refused, logprobs)
    for item in sse.written(data):
        checker.item(item)
    result = checker.close()
    if include_usage and usage_known is not None and result.error is None and checker.usage_seen is not usage_known:
        raise GrammarError("no usage chunk" if usage_known else "a usage chunk, though no usage is known")
    return result
