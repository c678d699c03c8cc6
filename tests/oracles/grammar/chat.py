"""A Chat Completions stream as its client puts it together."""

from __future__ import annotations

import json
from typing import Any

from dragoman.stages.grammar.chat import ChatGrammar, check_error
from dragoman.stages.grammar.values import GrammarError

from .accumulated import UNLIMITED, Accumulated, Call, Json, judged

__all__ = ("check", "check_error")

_KIND = {"content": "text", "refusal": "refusal", "reasoning_content": "reasoning", "reasoning": "reasoning"}


class _Client:
    def __init__(self) -> None:
        self.result = Accumulated()
        self.calls: list[Json] = []
        self.reasoning_field = ""

    def chunk(self, chunk: Json) -> None:
        result = self.result
        result.id, result.model = chunk["id"], chunk["model"]
        if not chunk["choices"]:
            result.usage = chunk["usage"]
            return
        choice = chunk["choices"][0]
        result.finish = choice["finish_reason"] or result.finish
        delta = choice["delta"]
        for field, kind in _KIND.items():
            if delta.get(field):
                self.text(field, kind, delta[field])
        result.annotations += delta.get("annotations", [])
        for fragment in delta.get("tool_calls", ()):
            self.fragment(fragment)

    def text(self, field: str, kind: str, text: str) -> None:
        result = self.result
        if kind == "reasoning":
            # Both spellings of one reasoning text are one text (knob `reasoning_field = both`).
            self.reasoning_field = self.reasoning_field or field
            if field != self.reasoning_field:
                return
        setattr(result, kind, getattr(result, kind) + text)
        if result.blocks and result.blocks[-1][0] == kind:
            result.blocks[-1] = kind, result.blocks[-1][1] + text
        else:
            result.blocks.append((kind, text))

    def fragment(self, fragment: Json) -> None:
        custom = "custom" in fragment
        body: Any = fragment.get("custom" if custom else "function", {})
        if fragment["index"] == len(self.calls):
            self.calls.append({**fragment, "name": body["name"], "text": "", "block": len(self.result.blocks)})
            self.result.blocks.append(("tool", ""))
        self.calls[fragment["index"]]["text"] += body.get("input" if custom else "arguments", "")

    def end(self) -> Accumulated:
        for call in self.calls:
            self.result.calls.append(Call(call["id"], call["name"], call["text"], kind=call["type"]))
            self.result.blocks[call["block"]] = "tool", call["text"]
        return self.result


def check(
    data: bytes,
    *,
    include_usage: bool = False,
    usage_known: bool | None = None,
    logprobs: bool = False,
    stops: bool = False,
) -> Accumulated:
    """Check a whole stream of Dragoman's.

    If the client requests usage, `usage_known` is True if there must be a usage chunk, and None if there may be one.
    `logprobs` is True if the client requested log probabilities, `stops` if the reply may end at a stop sequence.
    """
    grammar = ChatGrammar(
        include_usage=include_usage,
        logprobs=logprobs,
        stops=stops,
        usage_due=lambda: usage_known is True,
        limit=UNLIMITED,
    )
    client = _Client()
    for item in judged(grammar, data):
        if item.data is None:
            client.result.pings += 1
        elif item.data != b"[DONE]":
            payload = json.loads(item.data)
            if "error" in payload:
                client.result.error = payload["error"]
            else:
                client.chunk(payload)
    result = client.end()
    if usage_known is False and result.usage is not None:
        raise GrammarError("a usage chunk, though no usage is known")
    return result
