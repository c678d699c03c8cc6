"""What a request would become: the upstream's exact body, and everything that was done to get there. Nothing is called.

The endpoint and the command line tell the same: `explanation` is the JSON, `as_text` the same to read.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import orjson

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.errors import ClientRequestError
from dragoman.knobs import DEFAULT
from dragoman.translate import Translation
from dragoman.wire.json_codec import loads
from dragoman_server.config.providers import Provider
from dragoman_server.observability.receipts import bridged_tools, loss_rows, renamed_tools


def explanation(
    translation: Translation,
    provider: Provider | None = None,
    warning: str | None = None,
    *,
    profile: str | None = None,
    client_profile: str | None = None,
) -> Json:
    """The translated request and what was done to it, as JSON for `jsontext.dumps`.

    `provider` is the one that it would go to and `warning` what the route has to say, where a configuration decides;
    else `profile` names the upstream's. `client_profile` is the known client that sends it.
    """
    context, way = translation.context, translation.direction
    defaults = asdict(DEFAULT)
    told: dict[str, Any] = {
        "object": "dragoman.explanation",
        "direction": str(way),
        "client": way.client.dialect.value,
        "upstream": way.upstream.dialect.value,
        "passthrough": way.passthrough and not translation.rewritten,
        "provider": provider.name if provider is not None else None,
        "profile": profile or (provider.profile_name or None if provider is not None else None),
        "client_profile": client_profile,
        "path": way.upstream.path,
        # Without the base URL's own query, which may hold a key.
        "url": provider.endpoint(way.upstream.path).partition("?")[0] if provider is not None else None,
        "model": context.model,
        "upstream_model": translation.upstream_model,
        "stream": translation.stream,
        "body": orjson.Fragment(translation.body),
        "losses": loss_rows(context.losses),
        "losses_total": len(context.losses),
        "renames": renamed_tools(context),
        "tools": bridged_tools(context),
        "stages": [type(stage).__name__ for stage in translation.stages()],
        "stops": list(context.stops),
        "knobs": {name: value for name, value in asdict(context.knobs).items() if value != defaults[name]},
        "warning": warning,
    }
    return told


def as_text(told: Json) -> str:
    """An explanation for a reader."""
    body: orjson.Fragment = told["body"]
    same = "written anew" if told["client"] == told["upstream"] else "translated"
    how = "bytes pass through" if told["passthrough"] else same
    renamed_as = f" (asked for as {told['model']})" if told["model"] != told["upstream_model"] else ""
    where = told["url"] or f"…/{told['path']}"
    lines = [
        f"{told['client']} → {told['upstream']}: {how}",
        f"POST {where}, model {told['upstream_model']}{renamed_as}, {'streamed' if told['stream'] else 'whole'}",
    ]
    if told["profile"]:
        lines.append(f"{'provider ' + told['provider'] + ', ' if told['provider'] else ''}profile {told['profile']}")
    if told["client_profile"]:
        lines.append(f"client {told['client_profile']}")
    if told["warning"]:
        lines.append(f"warning: {told['warning']}")
    lines += ["", json.dumps(loads(_bytes(body)), indent=2, ensure_ascii=False), ""]
    lines += [f"loss {row['code']} at {row['path']}: {row['done']} ({row['meaning']})" for row in told["losses"]]
    if (more := told["losses_total"] - len(told["losses"])) > 0:
        lines.append(f"and {more} more")
    if not told["losses_total"]:
        lines.append("no losses")
    lines += [f"tool {name} is sent as {sent}" for sent, name in told["renames"].items()]
    lines += [
        f"tool {sent} comes back to the client as a {tool['kind']} tool"
        for sent, tool in told["tools"].items()
        if tool["kind"] != "function"
    ]
    if told["stops"]:
        lines.append(f"stop sequences cut here: {', '.join(map(repr, told['stops']))}")
    lines += [f"knob {name} = {value}" for name, value in told["knobs"].items()]
    lines.append(f"the reply: {' → '.join(told['stages'])}")
    return "\n".join(lines) + "\n"


def _bytes(fragment: orjson.Fragment) -> bytes:
    return orjson.dumps(fragment)


# Only what no server of the other dialect takes either: `thinking` and `top_k` are extensions of many Chat servers.
_CHAT_ONLY = frozenset(
    (
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "modalities",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "stream_options",
        "top_logprobs",
        "verbosity",
        "web_search_options",
    )
)
_MESSAGES_ONLY = frozenset(("context_management", "mcp_servers", "output_config", "stop_sequences", "system"))
_CHAT_ROLES = frozenset(("developer", "function", "tool"))
_CHAT_PARTS = frozenset(("file", "image_url", "input_audio", "refusal"))
_MESSAGES_PARTS = frozenset(("document", "image", "redacted_thinking", "thinking", "tool_result", "tool_use"))


def guess_client(payload: Json, option: str = "from=") -> Dialect:
    """The dialect that a request body is written in. `option` is how to say it instead.

    Raises ClientRequestError if nothing tells, or too much: a guess would explain another request than the client's.
    """
    if "input" in payload:
        if "messages" not in payload:
            return Dialect.RESPONSES
    elif "messages" in payload:
        if "max_tokens" not in payload:
            return Dialect.CHAT  # Messages requires it
        chat, messages = _signs(payload)
        if chat != messages:
            return Dialect.CHAT if chat else Dialect.MESSAGES
    ways = " or ".join(f"{option}{dialect}" for dialect in Dialect)
    raise ClientRequestError("", f"the body does not tell its dialect: give {ways}")


def _signs(payload: Json) -> tuple[bool, bool]:
    """Is there anything that only Chat has, and anything that only Messages has."""
    chat = not _CHAT_ONLY.isdisjoint(payload)
    messages = not _MESSAGES_ONLY.isdisjoint(payload)
    for tool in _dicts(payload.get("tools")):
        chat |= "function" in tool or "custom" in tool
        messages |= "input_schema" in tool
    for number, message in enumerate(_dicts(payload.get("messages"))):
        role = _word(message.get("role"))
        # Messages takes instructions inside the conversation, but not at its beginning.
        chat |= role in _CHAT_ROLES or (role == "system" and number == 0) or "tool_calls" in message
        for part in _dicts(message.get("content")):
            kind = _word(part.get("type"))
            chat |= kind in _CHAT_PARTS
            messages |= kind in _MESSAGES_PARTS
    return chat, messages


def _dicts(value: Any) -> list[Json]:
    return [item for item in value if type(item) is dict] if type(value) is list else []


def _word(value: Any) -> str:
    return value if type(value) is str else ""
