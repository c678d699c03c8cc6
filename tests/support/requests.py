"""Generators of valid client requests, as conversations that grow the way real clients let them grow.

Everything that a translation must refuse (audio, files of one provider, free-text tools of Chat …) is left out: each
body here is one that the other dialects can carry, with losses or without. Those of Responses: `responses_requests`.
"""

from __future__ import annotations

import json
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
    maybe,
    seldom,
    words,
)
from .responses_requests import responses_conversations
from .strategies import arguments, texts

__all__ = ("Conversation", "Features", "chat_conversations", "conversations", "messages_conversations")

Json = dict[str, Any]

_signatures = st.sampled_from(("EqQBCg==", "c2ln"))


# --- messages ---------------------------------------------------------------------------------------------------------

_MARK = st.sampled_from(({"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}))


@st.composite
def _messages_text(draw: st.DrawFn, features: Features) -> Json:
    block: Json = {"type": "text", "text": draw(words)}
    if seldom(draw, features.marks):
        block["cache_control"] = draw(_MARK)
    return block


@st.composite
def _messages_image(draw: st.DrawFn) -> Json:
    inline = {"type": "base64", "media_type": "image/png", "data": PNG}
    return {"type": "image", "source": draw(st.sampled_from((inline, {"type": "url", "url": "https://a.example/i"})))}


@st.composite
def _messages_document(draw: st.DrawFn, features: Features) -> Json:
    sources: list[Json] = [{"type": "text", "media_type": "text/plain", "data": draw(words)}]
    if features.pdf:
        sources.append({"type": "base64", "media_type": "application/pdf", "data": PDF})
    sources.append({"type": "content", "content": [{"type": "text", "text": draw(words)}, draw(_messages_image())]})
    block: Json = {"type": "document", "source": draw(st.sampled_from(sources))}
    maybe(draw, block, "title", words)
    maybe(draw, block, "context", words)
    maybe(draw, block, "citations", st.just({"enabled": True}))
    return block


@st.composite
def _messages_search(draw: st.DrawFn) -> Json:
    body = [{"type": "text", "text": draw(words)}]
    return {"type": "search_result", "source": "https://a.example/", "title": draw(words), "content": body}


@st.composite
def _messages_user(draw: st.DrawFn, features: Features) -> Json:
    if draw(st.booleans()):
        return {"role": "user", "content": draw(words)}
    kinds = [_messages_text(features), _messages_text(features), _messages_image()]
    if features.losses:
        kinds += [_messages_document(features), _messages_search()]
    return {"role": "user", "content": draw(st.lists(st.one_of(kinds), min_size=1, max_size=3))}


@st.composite
def _messages_result(draw: st.DrawFn, features: Features, call_id: str) -> Json:
    block: Json = {"type": "tool_result", "tool_use_id": call_id}
    kinds: list[st.SearchStrategy[Json]] = [_messages_text(features)]
    if features.losses:
        kinds += [_messages_image(), _messages_document(features), _messages_search()]
        maybe(draw, block, "is_error", st.booleans())
    content = draw(st.sampled_from(("none", "string", "string", "blocks")))
    if content == "string":
        block["content"] = draw(texts)
    elif content == "blocks":
        block["content"] = draw(st.lists(st.one_of(kinds), max_size=3))
    return block


@st.composite
def _messages_step(draw: st.DrawFn, features: Features, at: int, late: bool) -> list[Json]:
    """An assistant turn and the user's side after it."""
    blocks: list[Json] = []
    if seldom(draw, features.losses):
        blocks.append({"type": "thinking", "thinking": draw(texts), "signature": draw(_signatures)})
    if seldom(draw, features.losses):
        blocks.append({"type": "redacted_thinking", "data": "EmwKAhgB"})
    if seldom(draw, features.losses):
        use = {"type": "server_tool_use", "id": f"srvtoolu_{at}", "name": "web_search", "input": {"query": "q"}}
        found: Json = {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{at}", "content": []}
        blocks += [use, found]
    blocks += draw(st.lists(_messages_text(features), max_size=2))
    calls = [f"toolu_{at}_{n}" for n in range(draw(st.sampled_from((0, 0, 1, 1, 2, 3))))]
    for call_id in calls:
        given = json.loads(draw(arguments()))
        blocks.append({"type": "tool_use", "id": call_id, "name": draw(TOOL_NAMES), "input": given})
    content: Any = blocks or draw(words)
    answered = [call for call in calls if not seldom(draw, features.orphans)]
    user: list[Json] = [draw(_messages_result(features, call)) for call in draw(st.permutations(answered))]
    if seldom(draw, features.orphans):
        user.append(draw(_messages_result(features, f"toolu_lost_{at}")))
    if not user or draw(st.booleans()):
        more = draw(_messages_user(features))["content"]
        user += [{"type": "text", "text": more}] if isinstance(more, str) else more
    step = [{"role": "assistant", "content": content}, {"role": "user", "content": user}]
    if late:
        step.append({"role": "system", "content": draw(words)})
    return step


@st.composite
def messages_conversations(draw: st.DrawFn, features: Features = EVERYTHING) -> Conversation:
    """A Messages conversation with its settings."""
    steps = [[draw(_messages_user(features))]]
    late = seldom(draw, features.losses)
    count = draw(st.integers(0, features.max_steps - 1))
    steps += [draw(_messages_step(features, at, late and draw(st.booleans()))) for at in range(count)]
    fields: Json = {"max_tokens": draw(st.sampled_from((1, 100, 5000, 64000)))}
    maybe(draw, fields, "stream", st.booleans())
    maybe(draw, fields, "system", words | st.lists(_messages_text(features), min_size=1, max_size=3))
    tools = draw(_messages_tools(features))
    if tools:
        fields["tools"] = tools
        functions = [tool["name"] for tool in tools if "input_schema" in tool]
        choices: list[Json] = [{"type": "auto"}, {"type": "none"}]
        if functions:
            choices += [{"type": "any"}, {"type": "tool", "name": functions[-1]}]
        maybe(draw, fields, "tool_choice", st.sampled_from(choices))
        if fields.get("tool_choice", {"type": "none"})["type"] != "none":
            maybe(draw, fields["tool_choice"], "disable_parallel_tool_use", st.booleans())
    maybe(draw, fields, "stop_sequences", st.lists(words, max_size=6))
    maybe(draw, fields, "service_tier", st.sampled_from(("auto", "standard_only")))
    maybe(draw, fields, "metadata", st.sampled_from(({"user_id": "u-1"}, {"user_id": '{"device_id":"d"}'}, {})))
    output: Json = {}
    maybe(draw, output, "effort", st.sampled_from(("low", "medium", "high", "xhigh", "max")))
    maybe(draw, output, "format", st.just({"type": "json_schema", "schema": CLOSED}))
    if output:
        fields["output_config"] = output
    forced = fields.get("tool_choice", {}).get("type") in ("any", "tool")
    thinking: list[Json] = [{"type": "disabled"}, {"type": "adaptive"}, {"type": "adaptive", "display": "summarized"}]
    if fields["max_tokens"] > 2000 and not forced and len(steps) == 1:
        thinking.append({"type": "enabled", "budget_tokens": 2000})
    maybe(draw, fields, "thinking", st.sampled_from(thinking))
    if fields.get("thinking", {"type": "disabled"})["type"] == "disabled":
        maybe(draw, fields, "temperature", st.sampled_from((0, 0.5, 1)))
        maybe(draw, fields, "top_p", st.sampled_from((0.1, 1)))
        if features.losses:
            maybe(draw, fields, "top_k", st.integers(1, 100))
    return Conversation("messages", steps, fields)


@st.composite
def _messages_tools(draw: st.DrawFn, features: Features) -> list[Json]:
    tools: list[Json] = []
    for name in draw(st.lists(TOOL_NAMES, max_size=3, unique=True)):
        tool: Json = {"name": name, "input_schema": draw(SCHEMAS)}
        maybe(draw, tool, "description", texts)
        maybe(draw, tool, "type", st.just("custom"))
        if features.losses:
            maybe(draw, tool, "input_examples", st.just([{}]))
            maybe(draw, tool, "eager_input_streaming", st.booleans())
        if seldom(draw, features.marks):
            tool["cache_control"] = draw(_MARK)
        tools.append(tool)
    if seldom(draw, features.losses):
        tools.append({"type": "web_search_20250305", "name": "web_search", "max_uses": 2})
    return tools


# --- chat -------------------------------------------------------------------------------------------------------------

_BREAK = st.sampled_from(({"mode": "explicit"}, {"mode": "explicit", "ttl": "30m"}))


@st.composite
def _chat_text(draw: st.DrawFn, features: Features) -> Json:
    part: Json = {"type": "text", "text": draw(words)}
    if seldom(draw, features.marks):
        part["prompt_cache_breakpoint"] = draw(_BREAK)
    return part


@st.composite
def _chat_image(draw: st.DrawFn, features: Features) -> Json:
    image: Json = {"url": draw(st.sampled_from(("https://a.example/i", f"data:image/png;base64,{PNG}")))}
    if features.losses:
        maybe(draw, image, "detail", st.sampled_from(("auto", "low", "high")))
    return {"type": "image_url", "image_url": image}


@st.composite
def _chat_user(draw: st.DrawFn, features: Features) -> Json:
    message: Json = {"role": "user", "content": draw(words)}
    if draw(st.booleans()):
        kinds = [_chat_text(features), _chat_text(features), _chat_image(features)]
        if features.pdf:
            file = {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
            kinds.append(st.just({"type": "file", "file": file}))
        message["content"] = draw(st.lists(st.one_of(kinds), min_size=1, max_size=3))
    if features.losses:
        maybe(draw, message, "name", st.just("ada"))
    return message


@st.composite
def _chat_step(draw: st.DrawFn, features: Features, at: int, late: bool) -> list[Json]:
    calls = [f"call_{at}_{n}" for n in range(draw(st.sampled_from((0, 0, 1, 1, 2, 3))))]
    message: Json = {"role": "assistant", "content": draw(words)}
    if calls:
        message["content"] = draw(st.sampled_from((None, "", message["content"])))
        message["tool_calls"] = [
            {"id": call, "type": "function", "function": {"name": draw(TOOL_NAMES), "arguments": draw(arguments())}}
            for call in calls
        ]
    elif seldom(draw):
        message["content"] = draw(st.lists(_chat_text(features), min_size=1, max_size=2))
    elif seldom(draw, features.losses):
        message = {"role": "assistant", "content": None, "refusal": draw(words)}
    if seldom(draw, features.losses):
        message["reasoning_content"] = draw(words)
    step = [message]
    answered = [call for call in calls if not seldom(draw, features.orphans)]
    if seldom(draw, features.orphans):
        answered.append(f"call_lost_{at}")
    for call in draw(st.permutations(answered)):
        content: Any = draw(texts)
        if seldom(draw):
            content = draw(st.lists(_chat_text(features), min_size=1, max_size=2))
        step.append({"role": "tool", "tool_call_id": call, "content": content})
    if late:
        step.append({"role": draw(st.sampled_from(("system", "developer"))), "content": draw(words)})
    if len(step) == 1 or step[-1]["role"] != "tool" or draw(st.booleans()):
        step.append(draw(_chat_user(features)))
    return step


@st.composite
def chat_conversations(draw: st.DrawFn, features: Features = EVERYTHING) -> Conversation:
    """A Chat conversation with its settings."""
    first: list[Json] = []
    for _ in range(draw(st.sampled_from((0, 1, 1, 2)))):
        content: Any = draw(words)
        if draw(st.booleans()):
            content = draw(st.lists(_chat_text(features), min_size=1, max_size=2))
        first.append({"role": draw(st.sampled_from(("system", "developer"))), "content": content})
    steps = [[*first, draw(_chat_user(features))]]
    late = seldom(draw, features.losses)
    count = draw(st.integers(0, features.max_steps - 1))
    steps += [draw(_chat_step(features, at, late and draw(st.booleans()))) for at in range(count)]
    fields: Json = {}
    maybe(draw, fields, "stream", st.booleans())
    if fields.get("stream"):
        maybe(draw, fields, "stream_options", st.just({"include_usage": True}))
    maybe(draw, fields, draw(st.sampled_from(("max_tokens", "max_completion_tokens"))), st.integers(1, 64000))
    tools = draw(_chat_tools())
    if tools:
        fields["tools"] = tools
        named = {"type": "function", "function": {"name": tools[-1]["function"]["name"]}}
        subset = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named]}}
        choices: list[Any] = ["auto", "none", "required", named]
        maybe(draw, fields, "tool_choice", st.sampled_from([*choices, subset] if features.losses else choices))
        maybe(draw, fields, "parallel_tool_calls", st.booleans())
    maybe(draw, fields, "temperature", st.sampled_from((0, 0.5, 1, 2) if features.losses else (0, 0.5, 1)))
    maybe(draw, fields, "top_p", st.sampled_from((0.1, 1)))
    maybe(draw, fields, "stop", words | st.lists(words, max_size=4))
    maybe(draw, fields, "user", st.sampled_from(("u-1", "u" * 80)))
    maybe(draw, fields, "reasoning_effort", st.sampled_from(("none", "minimal", "low", "medium", "high", "max")))
    formats: list[Json] = [{"type": "text"}, {"type": "json_object"}]
    schema = {"name": "answer", "schema": draw(SCHEMAS), "strict": False}
    formats.append({"type": "json_schema", "json_schema": schema})
    maybe(draw, fields, "response_format", st.sampled_from(formats))
    if features.losses:
        maybe(draw, fields, "seed", st.integers(0, 9))
        maybe(draw, fields, "frequency_penalty", st.sampled_from((0, 0.5)))
        maybe(draw, fields, "logit_bias", st.just({"50256": -100}))
        maybe(draw, fields, "metadata", st.just({"a": "b"}))
        maybe(draw, fields, "verbosity", st.sampled_from(("low", "high")))
        maybe(draw, fields, "store", st.booleans())
        maybe(draw, fields, "prompt_cache_key", st.just("k"))
    maybe(draw, fields, "service_tier", st.sampled_from(("auto", "default", "flex")))
    maybe(draw, fields, "n", st.just(1))
    return Conversation("chat", steps, fields)


@st.composite
def _chat_tools(draw: st.DrawFn) -> list[Json]:
    tools: list[Json] = []
    for name in draw(st.lists(TOOL_NAMES, max_size=3, unique=True)):
        function: Json = {"name": name}
        maybe(draw, function, "parameters", SCHEMAS)
        maybe(draw, function, "description", texts)
        maybe(draw, function, "strict", st.just(False))
        tools.append({"type": "function", "function": function})
    return tools


def conversations(dialect: str, features: Features = EVERYTHING) -> st.SearchStrategy[Conversation]:
    """Valid conversations of a client dialect."""
    made = {
        "chat": chat_conversations,
        "messages": messages_conversations,
        "responses": responses_conversations,
    }
    return made[dialect](features)
