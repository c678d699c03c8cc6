"""Renders a scenario in Gemini's `generateContent`: as chunks that are whole responses, or as one of these.

A call is one part, and the first of a reply is signed; a text is signed in an empty part at the end. Nothing marks the
end of a stream (`ai.google.dev/gemini-api/docs/thought-signatures`, `ai.google.dev/api/generate-content`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import takewhile

import orjson

from dragoman_server.simulator import steps
from dragoman_server.simulator.booking import COUNTS, INPUT, TIER, Booking
from dragoman_server.simulator.parse_request import History, Json, Offer, RequestTurn
from dragoman_server.simulator.reply import SimulatedReply, signature_of
from dragoman_server.simulator.tokens import TokenCounts

FINISH = {
    "stop": "STOP",
    "stop_sequence": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "refusal": "SAFETY",
    "content_filter": "SAFETY",
}
_TIERS = {"default": "standard"}
_BY_URL = str.maketrans("+/", "-_")
_USAGE, _OUTPUT, _TIER = b'"usageMetadata":{', b'"candidatesTokenCount":', b'"serviceTier":"'


def read(body: Json) -> RequestTurn:
    """Return the turn of a request, with the `model` of its path."""
    history = History()
    for content in body["contents"]:
        if content.get("role") == "model":
            history.on_assistant()
            continue
        for part in content["parts"]:
            if "functionResponse" in part:  # they come first
                history.on_result(_response_text(part["functionResponse"]["response"]))
        if text := " ".join(part["text"] for part in content["parts"] if "text" in part):
            history.on_user(text)
    config = body.get("generationConfig") or {}
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    mode, allowed = calling.get("mode"), calling.get("allowedFunctionNames") or []
    as_json = config.get("responseMimeType") == "application/json"
    return history.turn(
        body["model"],
        body,
        offers=tuple(
            Offer(tool["name"], tool.get("parametersJsonSchema", tool.get("parameters")))
            for tools in body.get("tools") or []
            for tool in tools.get("functionDeclarations") or []
        ),
        forced=allowed[0] if mode == "ANY" and len(allowed) == 1 else None,
        may_call=mode != "NONE",
        stops=tuple(config.get("stopSequences") or ()),
        schema=config.get("responseJsonSchema", config.get("responseSchema")) or ({} if as_json else None),
        thinks=(config.get("thinkingConfig") or {}).get("thinkingBudget") != 0,
    )


def _response_text(response: Json) -> str:
    """Return the text of a function's response: its output, its error, or the object itself."""
    text = response.get("output", response.get("error", response))
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)


class _Parts:
    """The parts of one reply. Each step of a scenario adds those that it completes."""

    def __init__(self, reply: SimulatedReply) -> None:
        config = reply.body.get("generationConfig") or {}
        self._shown = bool((config.get("thinkingConfig") or {}).get("includeThoughts"))
        self._reply = reply
        self._calls: dict[int, tuple[str, list[str]]] = {}
        """Calls that are not written: their number → name and arguments so far."""
        self._ended: set[int] = set()
        self._written = ""
        self._signed = False
        self.refused = ""

    def of(self, step: object) -> list[Json]:
        """Return the parts that a step completes."""
        match step:
            case steps.Text(text):
                self._written += text
                return [{"text": text}]
            case steps.Reasoning(text):
                return [{"text": text, "thought": True}] if self._shown else []
            case steps.Refusal(text):
                self.refused += text  # the content is withheld
            case steps.ToolStart(call, tool):
                self._calls[call] = tool.name, []
            case steps.ToolArgs(call, text):
                self._calls[call][1].append(text)
            case steps.ToolEnd(call):
                self._ended.add(call)
                return [self._call(number) for number in self._ready()]
            case _:
                pass
        return []

    def _ready(self) -> list[int]:
        """Return the calls that have ended and follow no open one: parallel calls have the order of their starts."""
        return [*takewhile(self._ended.__contains__, self._calls)]

    def _call(self, number: int) -> Json:
        name, arguments = self._calls.pop(number)
        given = orjson.loads("".join(arguments))
        part: Json = {"functionCall": {"id": self._reply.mint("", 8), "name": name, "args": given}}
        if not self._signed:
            self._signed = True
            part["thoughtSignature"] = call_signature(name, given)
        return part

    def last(self) -> list[Json]:
        """Return the parts of the last chunk: an empty text, which is signed if the reply has no call."""
        if self._signed or not self._written:
            return [{"text": ""}]
        return [{"text": "", "thoughtSignature": text_signature(self._written)}]


def frames(scenario: steps.Scenario, reply: SimulatedReply) -> list[bytes]:
    """Return the frames of the stream; a `finishReason` only after a `Finish`."""
    parts, head = _Parts(reply), _head(reply)
    prompt = _prompt(scenario, reply)
    out: list[bytes] = []

    def chunk(content: list[Json], usage: Json, **candidate: object) -> None:
        whole: Json = {"candidates": [{"content": {"parts": content, "role": "model"}, **candidate, "index": 0}]}
        out.append(frame({**whole, **({"usageMetadata": usage} if usage else {}), **head}))

    for step in scenario.steps:
        match step:
            case steps.Finish(reason):
                chunk(parts.last(), _usage(scenario, reply), **_ending(reason, parts.refused))
            case steps.Failure(message, as_event):
                error = {"error": error_of(message)}
                # Google's own form is the bare object, which is no field of an event stream.
                out.append(frame(error) if as_event else orjson.dumps(error, option=orjson.OPT_INDENT_2) + b"\n")
            case _:
                for part in parts.of(step):
                    chunk([part], prompt)
                    prompt = {}
    return out


def whole_reply(scenario: steps.Scenario, reply: SimulatedReply) -> tuple[int, Json]:
    """Return status and body of the reply, not streamed. Its texts and its reasoning are one part each."""
    parts, content = _Parts(reply), list[Json]()
    head, ending = _head(reply), dict[str, str]()
    for step in scenario.steps:
        match step:
            case steps.Finish(reason):
                ending = _ending(reason, parts.refused)
            case steps.Failure(message):
                return 503, {"error": error_of(message)}
            case _:
                for part in parts.of(step):
                    _add(content, part)
    [last] = parts.last()
    if "thoughtSignature" in last and "text" in content[-1] and "thought" not in content[-1]:
        content[-1]["thoughtSignature"] = last["thoughtSignature"]
    shown: Json = {"role": "model"} if not content else {"parts": content, "role": "model"}
    usage = _usage(scenario, reply)
    return 200, {
        "candidates": [{"content": shown, **(ending or {"finishReason": "STOP"}), "index": 0}],
        **({"usageMetadata": usage} if usage else {}),
        **head,
    }


def _add(content: list[Json], part: Json) -> None:
    """Add a part to those of a whole reply. A text continues one of its kind."""
    if content and "text" in part and "text" in content[-1] and content[-1].get("thought") == part.get("thought"):
        content[-1]["text"] += part["text"]
    else:
        content.append(part)


def frame(chunk: Json) -> bytes:
    """Return a frame of a stream, with the line ends that Google sends."""
    return b"data: %b\r\n\r\n" % orjson.dumps(chunk)


def error_of(message: str) -> Json:
    """Return the error object of a stream that fails."""
    return {"code": 503, "message": message, "status": "UNAVAILABLE"}


def call_signature(name: str, arguments: object) -> str:
    """Return the signature of a call, which no other call has."""
    return _signature(f"call {name} {orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS).decode()}")


def text_signature(text: str) -> str:
    """Return the signature of the text of a reply without calls."""
    return _signature(f"text {text}")


def _signature(text: str) -> str:
    return signature_of(text).translate(_BY_URL)


def _head(reply: SimulatedReply) -> Json:
    return {"modelVersion": reply.model, "responseId": reply.mint("", 22)}


def _ending(reason: str, refused: str) -> dict[str, str]:
    return {"finishReason": FINISH[reason], **({"finishMessage": refused} if refused else {})}


def tokens_of(scenario: steps.Scenario, reply: SimulatedReply) -> TokenCounts:
    """Return the counts of a reply. The explanation of a filter is not generated."""
    return reply.count(
        replace(scenario, steps=tuple(step for step in scenario.steps if type(step) is not steps.Refusal))
    )


def book(scenario: steps.Scenario, reply: SimulatedReply) -> Booking:
    """Return what a reply generated. Nothing counts what is written to a cache."""
    tokens = replace(tokens_of(scenario, reply), cache_write=0, cache_write_1h=0)
    return Booking(tokens, (), _tier(scenario, reply))


def reported(data: bytes) -> frozenset[str]:
    """Return what a chunk or a whole reply reports: only the last chunk counts the output."""
    counts = (COUNTS if _OUTPUT in data else INPUT) - {"cache_write"}
    return (counts if _USAGE in data else frozenset()) | ({TIER} if _TIER in data else frozenset())


def _tier(scenario: steps.Scenario, reply: SimulatedReply) -> str:
    return reply.tier_of(scenario, "serviceTier")


def _prompt(scenario: steps.Scenario, reply: SimulatedReply) -> Json:
    """Return the `usageMetadata` of the first chunk."""
    if not scenario.reported:
        return {}
    tokens, tier = tokens_of(scenario, reply), _tier(scenario, reply)
    return {
        "promptTokenCount": tokens.input,
        "cachedContentTokenCount": tokens.cached,
        "totalTokenCount": tokens.input,
        "serviceTier": _TIERS.get(tier, tier),
    }


def _usage(scenario: steps.Scenario, reply: SimulatedReply) -> Json:
    """Return the `usageMetadata` of a complete reply: thinking is not in `candidatesTokenCount`.

    Nothing counts what is written to a cache.
    """
    if not scenario.reported:
        return {}
    tokens = tokens_of(scenario, reply)
    return {
        **_prompt(scenario, reply),
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        **({"thoughtsTokenCount": tokens.reasoning} if tokens.reasoning else {}),
        "totalTokenCount": tokens.input + tokens.output,
    }
