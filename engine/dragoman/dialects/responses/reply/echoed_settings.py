"""The settings of a request that its Response object repeats, in the form of the reply's schema (mapping §9.1).

The schemas of the reply are stricter than those of the request: a field that a client may leave out of a tool or an
output format must be in the reply, as null or with the API's default. A setting that the client did not send is not
here; `response_object` has its default.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.openai.prompt_cache_fields import CACHE_KEYS

# fmt: off
_REPEATED: Final = frozenset({
    "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls", "reasoning",
    "safety_identifier", "service_tier", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p",
    "truncation", "user", *CACHE_KEYS,
})
# fmt: on
_FUNCTION: Final = ("description", "parameters", "strict")
_PLAIN_TEXT: Final[Json] = {"type": "text"}


def echoed_settings(body: Json) -> Json:
    """Return the settings of a valid request body. Values are shared with `body`; no value is null."""
    echo: Json = {key: value for key, value in body.items() if key in _REPEATED and value is not None}
    if "tools" in echo:
        echo["tools"] = _tools(echo["tools"])
    if "tool_choice" in echo:
        echo["tool_choice"] = _choice(echo["tool_choice"])
    if "text" in echo:
        echo["text"] = _text(echo["text"])
    if "reasoning" in echo:
        echo["reasoning"] = {"effort": None, "summary": None, **echo["reasoning"]}
    if echo.get("service_tier") == "auto":
        echo["service_tier"] = "default"  # a reply names the tier that was used
    return echo


def _tools(tools: list[Json]) -> list[Json]:
    """Return the tools, each function with all its keys. Most have them, so complete tools cost no call."""
    incomplete = [
        at
        for at, tool in enumerate(tools)
        if tool["type"] == "function"
        and ("strict" not in tool or "description" not in tool or "parameters" not in tool)
    ]
    if not incomplete:
        return tools
    completed = tools.copy()
    for at in incomplete:
        completed[at] = tools[at] | {key: None for key in _FUNCTION if key not in tools[at]}
    return completed


def _choice(choice: Any) -> Any:
    if type(choice) is dict and choice.get("type") == "allowed_tools" and choice.get("mode") is None:
        return choice | {"mode": "auto"}
    return choice


def _text(text: Json) -> Json:
    echo = {key: value for key, value in text.items() if value is not None}
    form = echo.setdefault("format", _PLAIN_TEXT)
    if form.get("type") == "json_schema":
        echo["format"] = {"description": None, **form, "strict": form.get("strict") or False}
    return echo
