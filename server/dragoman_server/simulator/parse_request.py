"""Reads a request of any dialect into a `RequestTurn`, which is what scripts depend on.

It expects valid bodies: an invalid one raises AttributeError, KeyError or TypeError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

PLAN_MARK = "[[call "
"""Marks the beginning of a model turn in a plan (`tool_plan.py`)."""
_PLAN_END = "]]"


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool that the model may call."""

    name: str
    schema: Any = None
    custom: bool = False
    """A free-text tool: its input is a string, not JSON."""
    namespace: str | None = None
    """The namespace of the tool (Responses only)."""
    search: bool = False
    """True for the search for deferred tools, which the client runs (Responses only)."""


@dataclass(frozen=True, slots=True)
class RequestTurn:
    """One request, independent of its dialect."""

    model: str
    body: Json
    last_user: str = ""
    results: tuple[str, ...] = ()
    """Texts of the tool results after the assistant's last message."""
    plan: str = ""
    """The last plan in a user text (`tool_plan.py`), without what stands before and behind it."""
    answered: tuple[str, ...] = ()
    """Texts of the tool results after that text."""
    offers: tuple[Offer, ...] = ()
    searches: tuple[Offer, ...] = ()
    """Tool searches that the client runs; they are called by name only."""
    forced: str | None = None
    """Name of the one tool that must be called."""
    may_call: bool = True
    parallel: bool = True
    stops: tuple[str, ...] = ()
    schema: Any = None
    """The requested output schema; `{}` for any JSON object."""
    thinks: bool = True
    """False if the request disables thinking."""
    empty: bool = False
    """True for `max_tokens: 0` in Messages: fill the cache, generate nothing."""


@dataclass(slots=True)
class History:
    """Collects the user texts and tool results that follow the assistant's last message."""

    last_user: str = ""
    results: list[str] = field(default_factory=list)
    plan: str = ""
    answered: list[str] = field(default_factory=list)

    def on_assistant(self) -> None:
        self.results.clear()

    def on_user(self, text: str) -> None:
        self.last_user = text
        if PLAN_MARK in text:
            begin, end = text.index(PLAN_MARK), text.rfind(_PLAN_END)
            self.plan = text[begin : end + len(_PLAN_END) if end > begin else None]
            self.answered.clear()

    def on_result(self, text: str) -> None:
        self.results.append(text)
        self.answered.append(text)

    def turn(self, model: str, body: Json, **facts: Any) -> RequestTurn:
        """Return the turn of a request with this history."""
        results, answered = tuple(self.results), tuple(self.answered)
        return RequestTurn(model, body, self.last_user, results, self.plan, answered, **facts)


def read_chat(body: Json) -> RequestTurn:
    """Return the turn of a Chat Completions request."""
    history = History()
    for message in body["messages"]:
        match message["role"]:
            case "assistant":
                history.on_assistant()
            case "user":
                history.on_user(_text(message["content"]))
            case "tool":
                history.on_result(_text(message["content"]))
    offers = []
    for tool in body.get("tools") or []:
        if tool["type"] == "custom":
            offers.append(Offer(tool["custom"]["name"], custom=True))
        else:
            offers.append(Offer(tool["function"]["name"], tool["function"].get("parameters")))
    choice = body.get("tool_choice")
    forced = None
    if isinstance(choice, dict):
        forced = (choice.get("function") or choice.get("custom") or {}).get("name")
    stop = body.get("stop") or []
    form = body.get("response_format") or {}
    return history.turn(
        body["model"],
        body,
        offers=tuple(offers),
        forced=forced,
        may_call=choice != "none",
        parallel=body.get("parallel_tool_calls") is not False,
        stops=(stop,) if isinstance(stop, str) else tuple(stop),
        schema=_output_schema(form, form.get("json_schema") or {}),
        thinks=body.get("reasoning_effort") != "none",
    )


def read_messages(body: Json) -> RequestTurn:
    """Return the turn of a Messages request."""
    history = History()
    for message in body["messages"]:
        content = message["content"]
        if message["role"] == "assistant":
            history.on_assistant()
        elif message["role"] == "user":
            for block in content if isinstance(content, list) else []:
                if block["type"] == "tool_result":  # they come first
                    history.on_result(_text(block.get("content") or ""))
            text = _text(content)
            if text:
                history.on_user(text)
    choice = body.get("tool_choice") or {}
    output = body.get("output_config") or {}
    form = output.get("format") or body.get("output_format") or {}
    return history.turn(
        body["model"],
        body,
        offers=tuple(
            Offer(tool["name"], tool["input_schema"])
            for tool in body.get("tools") or []
            if tool.get("type") in (None, "custom")
        ),
        forced=choice.get("name") if choice.get("type") == "tool" else None,
        may_call=choice.get("type") != "none",
        parallel=not choice.get("disable_parallel_tool_use"),
        stops=tuple(body.get("stop_sequences") or ()),
        schema=_output_schema(form, form),
        thinks=(body.get("thinking") or {}).get("type") != "disabled",
        empty=body.get("max_tokens") == 0,
    )


_ASSISTANT_ITEMS = frozenset({"function_call", "custom_tool_call", "reasoning", "tool_search_call"})
_RESULT_ITEMS = frozenset({"function_call_output", "custom_tool_call_output"})
_TOOL_ITEMS = frozenset({"additional_tools", "tool_search_output"})


def read_responses(body: Json) -> RequestTurn:
    """Return the turn of a Responses request."""
    history = History()
    offers = _flat_offers(body.get("tools") or [])
    items = body.get("input") or []
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    for item in items:
        kind = item.get("type", "message")
        if kind in _ASSISTANT_ITEMS or (kind == "message" and item["role"] == "assistant"):
            history.on_assistant()
        elif kind == "agent_message" or (kind == "message" and item["role"] == "user"):
            history.on_user(_text(item["content"]))
        elif kind in _RESULT_ITEMS:
            # Without a call it is the prompt of a scheduled task.
            (history.on_result if item.get("call_id") else history.on_user)(_text(item["output"]))
        elif kind in _TOOL_ITEMS:
            offers += _flat_offers(item["tools"])
            if kind == "tool_search_output":
                history.on_result(" ".join(tool["name"] for tool in item["tools"]))
    choice = body.get("tool_choice")
    form = (body.get("text") or {}).get("format") or {}
    return history.turn(
        body.get("model", ""),
        body,
        offers=tuple(offer for offer in offers if not offer.search),
        searches=tuple(offer for offer in offers if offer.search),
        forced=choice.get("name") if isinstance(choice, dict) else None,
        may_call=choice != "none",
        parallel=body.get("parallel_tool_calls") is not False,
        schema=_output_schema(form, form),
        thinks=(body.get("reasoning") or {}).get("effort") != "none",
    )


def _flat_offers(tools: list[Json], namespace: str | None = None) -> list[Offer]:
    offers: list[Offer] = []
    for tool in tools:
        match tool.get("type"):
            case "function":
                offers.append(Offer(tool["name"], tool.get("parameters"), namespace=namespace))
            case "custom":
                offers.append(Offer(tool["name"], custom=True, namespace=namespace))
            case "tool_search" if tool.get("execution") == "client":
                offers.append(Offer("tool_search", tool.get("parameters"), search=True))
            case "namespace":
                offers += _flat_offers(tool["tools"], tool["name"])
    return offers


def _output_schema(form: Json, holder: Json) -> Any:
    match form.get("type"):
        case "json_schema":
            return holder.get("schema") or {}
        case "json_object":
            return {}
        case _:
            return None


_TEXTS = ("text", "input_text", "output_text", "encrypted_content")


def _text(content: Any) -> str:
    """Return the text of a content string or of its text parts, in any dialect. Nothing is really encrypted here."""
    if isinstance(content, str):
        return content
    texts = [part for part in content or [] if part.get("type") in _TEXTS]
    return " ".join(part["text" if "text" in part else part["type"]] for part in texts)
