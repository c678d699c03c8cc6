"""Generators of valid Responses requests: as SDKs send them, and as agents do (namespaces, free-text tools, searches).

Left out is what no other dialect can carry at all: stored state, compaction, built-in tools, programs.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .conversation import (
    CLOSED,
    EVERYTHING,
    PDF,
    PNG,
    SCHEMAS,
    TOOL_NAMES,
    Conversation,
    Features,
    Json,
    maybe,
    seldom,
    words,
)
from .strategies import arguments, texts

_BREAK = st.sampled_from(({"mode": "explicit"}, {"mode": "explicit", "ttl": "30m"}))
_GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch" LF hunk+'}
_ROLES = st.sampled_from(("system", "developer"))
_SEARCH = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
_PREFIX = {"function_call": "fc", "custom_tool_call": "ctc", "tool_search_call": "tsc", "message": "msg"}


@st.composite
def _text(draw: st.DrawFn, features: Features) -> Json:
    part: Json = {"type": "input_text", "text": draw(words)}
    if seldom(draw, features.marks):
        part["prompt_cache_breakpoint"] = draw(_BREAK)
    return part


@st.composite
def _image(draw: st.DrawFn, features: Features) -> Json:
    url = draw(st.sampled_from(("https://a.example/i", f"data:image/png;base64,{PNG}")))
    part: Json = {"type": "input_image", "image_url": url}
    if features.losses:
        maybe(draw, part, "detail", st.sampled_from(("auto", "low", "high")))
    return part


def _content(features: Features, *, image: bool = True) -> st.SearchStrategy[list[Json]]:
    kinds: list[st.SearchStrategy[Json]] = [_text(features), _text(features)]
    if image:
        kinds.append(_image(features))
    return st.lists(st.one_of(kinds), min_size=1, max_size=3)


@st.composite
def _user(draw: st.DrawFn, features: Features, at: str) -> Json:
    if draw(st.booleans()):
        return {"role": "user", "content": draw(words)}
    content = draw(_content(features))
    if seldom(draw, features.pdf):
        file = {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
        content.append({"type": "input_file", **file})
    item: Json = {"type": "message", "role": "user", "content": content}
    maybe(draw, item, "id", st.just(f"msg_u{at}"))
    return item


@st.composite
def _instruction(draw: st.DrawFn, features: Features) -> Json:
    content: Any = draw(words)
    if draw(st.booleans()):
        content = draw(_content(features, image=False))
    return {"type": "message", "role": draw(_ROLES), "content": content}


@st.composite
def _stated(draw: st.DrawFn, features: Features, at: str) -> Json:
    """A message of the assistant, as it came or as an easy one."""
    if draw(st.booleans()):
        return {"role": "assistant", "content": draw(words)}
    parts: list[Json] = [
        {"type": "output_text", "text": draw(words), "annotations": []}
        for _ in range(draw(st.sampled_from((1, 1, 1, 2))))
    ]
    if seldom(draw, features.losses):
        parts.append({"type": "refusal", "refusal": draw(words)})
    item: Json = {"type": "message", "id": f"msg_{at}", "role": "assistant", "status": "completed", "content": parts}
    if features.losses:
        maybe(draw, item, "phase", st.sampled_from(("commentary", "final_answer")))
    return item


@st.composite
def _reasoned(draw: st.DrawFn, at: str) -> Json:
    summary = [{"type": "summary_text", "text": draw(words)} for _ in range(draw(st.integers(0, 2)))]
    item: Json = {"type": "reasoning", "id": f"rs_{at}", "summary": summary, "encrypted_content": "gAAA"}
    maybe(draw, item, "content", st.none())
    return item


@st.composite
def _called(draw: st.DrawFn, features: Features, at: str, kinds: tuple[str, ...]) -> tuple[Json, Json]:
    """A call, and what its result states next to its content."""
    kind = draw(st.sampled_from(kinds))
    call: Json = {"type": kind, "call_id": f"call_{at}", "status": "completed"}
    output: Json = {"type": f"{kind}_output", "call_id": f"call_{at}"}
    maybe(draw, call, "id", st.just(f"{_PREFIX[kind]}_{at}"))
    match kind:
        case "custom_tool_call":
            return call | {"name": "apply_patch", "input": draw(texts)}, output
        case "tool_search_call":
            found = [_found(at)] if draw(st.booleans()) else []
            call |= {"execution": "client", "arguments": {"query": draw(words)}}
            more = {"execution": "client", "status": "completed", "tools": found}
            return call, {"type": "tool_search_output", "call_id": f"call_{at}", **more}
    call |= {"name": draw(TOOL_NAMES), "arguments": draw(arguments())}
    if "tool_search_call" in kinds or "custom_tool_call" in kinds:
        maybe(draw, call, "namespace", st.just("mcp__notes"))
    return call, output


def _found(at: str) -> Json:
    """Return what a search found: tools that from now on stand only here."""
    tool = {"type": "function", "name": f"tool_{at}", "strict": False, "defer_loading": True, "parameters": _SEARCH}
    return {"type": "namespace", "name": "mcp__found", "description": "Found.", "tools": [tool]}


@st.composite
def _step(draw: st.DrawFn, features: Features, at: int, late: bool, kinds: tuple[str, ...]) -> list[Json]:
    """An assistant turn and the user's side after it."""
    step: list[Json] = []
    if seldom(draw, features.losses):
        step.append(draw(_reasoned(str(at))))
    calls = [draw(_called(features, f"{at}_{n}", kinds)) for n in range(draw(st.sampled_from((0, 0, 1, 1, 2, 3))))]
    if not calls or draw(st.booleans()):
        step.append(draw(_stated(features, str(at))))
    step += [call for call, _ in calls]
    outputs = [output for _, output in calls if not seldom(draw, features.orphans)]
    if seldom(draw, features.orphans):
        outputs.append({"type": "function_call_output", "call_id": f"call_lost_{at}"})
    for output in draw(st.permutations(outputs)):
        if output["type"] != "tool_search_output":
            content: Any = draw(texts)
            if seldom(draw):
                content = draw(_content(features, image=features.losses))
            output["output"] = content
        step.append(output)
    if late:
        step.append(draw(_instruction(features)))
    if not outputs or draw(st.booleans()):
        step.append(draw(_user(features, str(at))))
    return step


@st.composite
def _function(draw: st.DrawFn, name: str) -> Json:
    tool: Json = {"type": "function", "name": name, "parameters": draw(SCHEMAS)}
    maybe(draw, tool, "description", texts)
    maybe(draw, tool, "strict", st.just(False))
    return tool


@st.composite
def _tools(draw: st.DrawFn, features: Features) -> list[Json]:
    tools = [draw(_function(name)) for name in draw(st.lists(TOOL_NAMES, max_size=3, unique=True))]
    if not features.losses:
        return tools
    if seldom(draw):
        custom: Json = {"type": "custom", "name": "apply_patch", "description": draw(texts)}
        maybe(draw, custom, "format", st.sampled_from((_GRAMMAR, {"type": "text"})))
        tools.append(custom)
    if seldom(draw):
        members = [draw(_function("add_note")), draw(_function("get_pic"))]
        tools.append({"type": "namespace", "name": "mcp__notes", "description": "Notes.", "tools": members})
    if seldom(draw):
        tools.append({"type": "tool_search", "execution": "client", "description": "Find.", "parameters": _SEARCH})
    if seldom(draw):
        tools.append({"type": "web_search", "external_web_access": True})
    return tools


@st.composite
def responses_conversations(draw: st.DrawFn, features: Features = EVERYTHING) -> Conversation:
    """A Responses conversation with its settings."""
    fields: Json = {}
    tools = draw(_tools(features))
    kinds: tuple[str, ...] = ("function_call",)
    if features.losses and draw(st.booleans()):
        kinds = ("function_call", "function_call", "custom_tool_call", "tool_search_call")
    first: list[Json] = []
    lite = bool(tools) and seldom(draw, features.losses)
    if lite:
        # Current agents give their tools inside the conversation only.
        first.append({"type": "additional_tools", "id": "at_1", "role": "developer", "tools": tools})
    first += [draw(_instruction(features)) for _ in range(draw(st.sampled_from((0, 0, 1, 2))))]
    steps = [[*first, draw(_user(features, "0"))]]
    late = seldom(draw, features.losses)
    count = draw(st.integers(0, features.max_steps - 1))
    steps += [draw(_step(features, at, late and draw(st.booleans()), kinds)) for at in range(1, count + 1)]
    if tools and not lite:
        fields["tools"] = tools
    _choose(draw, fields, tools, features)
    _settle(draw, fields, features)
    return Conversation("responses", steps, fields, "tool_search_call" in kinds, draw(st.booleans()))


def _choose(draw: st.DrawFn, fields: Json, tools: list[Json], features: Features) -> None:
    """The choice among the tools at the top. One of the hosted ones alone cannot be forced elsewhere."""
    named = [tool["name"] for tool in tools if tool["type"] == "function"]
    if not named or "tools" not in fields:
        return
    choices: list[Any] = ["auto", "none", "required", {"type": "function", "name": named[-1]}]
    if features.losses:
        subset = [{"type": "function", "name": named[0]}]
        choices.append({"type": "allowed_tools", "mode": "auto", "tools": subset})
    maybe(draw, fields, "tool_choice", st.sampled_from(choices))
    maybe(draw, fields, "parallel_tool_calls", st.booleans())


def _settle(draw: st.DrawFn, fields: Json, features: Features) -> None:
    """Everything else that a body may state."""
    maybe(draw, fields, "stream", st.booleans())
    maybe(draw, fields, "instructions", words)
    maybe(draw, fields, "max_output_tokens", st.sampled_from((16, 5000, 64000)))
    maybe(draw, fields, "temperature", st.sampled_from((0, 0.5, 1, 2) if features.losses else (0, 0.5, 1)))
    maybe(draw, fields, "top_p", st.sampled_from((0.1, 1)))
    maybe(draw, fields, "store", st.just(False))
    maybe(draw, fields, "safety_identifier", st.sampled_from(("u-1", "u" * 80)))
    maybe(draw, fields, "service_tier", st.sampled_from(("auto", "default", "flex")))
    reasoning: Json = {}
    maybe(draw, reasoning, "effort", st.sampled_from(("none", "minimal", "low", "medium", "high", "xhigh", "max")))
    if features.losses:
        maybe(draw, reasoning, "summary", st.sampled_from(("auto", "concise", "detailed")))
    if draw(st.booleans()) or reasoning:
        fields["reasoning"] = reasoning
    text: Json = {}
    schema = {"type": "json_schema", "name": "answer", "schema": draw(SCHEMAS), "strict": False}
    strict = {"type": "json_schema", "name": "answer", "schema": CLOSED, "strict": True}
    formats: list[Json] = [{"type": "text"}, {"type": "json_object"}, schema, strict]
    maybe(draw, text, "format", st.sampled_from(formats))
    if features.losses:
        maybe(draw, text, "verbosity", st.sampled_from(("low", "high")))
        maybe(draw, fields, "metadata", st.just({"a": "b"}))
        maybe(draw, fields, "truncation", st.sampled_from(("auto", "disabled")))
        maybe(draw, fields, "max_tool_calls", st.integers(1, 9))
        maybe(draw, fields, "prompt_cache_key", st.just("k"))
        maybe(draw, fields, "client_metadata", st.just({"session_id": "s"}))
        maybe(draw, fields, "include", st.lists(st.just("reasoning.encrypted_content"), max_size=1))
        maybe(draw, fields, "user", st.just("u-2"))
    if text:
        fields["text"] = text
