"""Checks of requests to Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json
from oracles.requests.json_rules import words
from oracles.requests.messages_content import (
    NAME,
    check_messages,
    check_thinking_first,
    object_or_none,
    only,
    text_block,
)

VERSIONS = frozenset({"2023-01-01", "2023-06-01", "2026-10-21"})
_SAMPLING_GONE = "2026-10-21"
TOP = words(
    "cache_control container diagnostics inference_geo max_tokens messages metadata model output_config service_tier "
    "speed stop_sequences stream system temperature thinking tool_choice tools top_k top_p"
)
COUNTED = words("cache_control messages model output_config speed system thinking tool_choice tools")
BETA: dict[str, tuple[str, ...]] = {
    "billing_policy": ("billing",),
    "compaction": ("compact-",),
    "context_management": ("context-management-", "compact-"),
    "fallback_credit_token": ("fallback-credit-",),
    "fallbacks": ("server-side-fallback-",),
    "mcp_servers": ("mcp-client-",),
    "output_format": ("structured-outputs-",),
    "safeguards": ("dangerous-tool-use-",),
    "thread": ("message-threads-",),
}
"""Fields that exist only for requests with one of these beta flags."""

_MARK = "cache_control"
_TOOL = words(
    "type name description input_schema strict defer_loading eager_input_streaming input_examples allowed_callers "
    "cache_control"
)
_TYPED_TOOL = re.compile(r"[a-z_]+_20\d{6}\Z")
_LEAST_BUDGET = 1024


def check_request(body: Json, headers: Mapping[str, str], *, counting: bool = False, verify: bool = False) -> None:
    """Raise RequestRejected if the real API would answer 400. `counting` is True for `count_tokens`."""
    version = headers.get("anthropic-version")
    if version is None:
        raise RequestRejected("anthropic-version: header is required")
    if version not in VERSIONS:
        raise RequestRejected(f'anthropic-version: "{version}" is not a valid version')
    _keys(body, version, headers.get("anthropic-beta", ""), COUNTED if counting else TOP)
    for key in ("model", "messages") if counting else ("model", "max_tokens", "messages"):
        if key not in body:
            raise RequestRejected(f"{key}: Field required")
    if not isinstance(body["model"], str) or not body["model"]:
        raise RequestRejected("model: Input should be a valid string")
    _settings(body, counting)
    _system(body.get("system"))
    _tools(body)
    messages = body["messages"]
    if not isinstance(messages, list) or not messages:
        raise RequestRejected("messages: at least one message is required")
    check_messages(messages, verify=verify)
    if (body.get("thinking") or {}).get("type") == "enabled":
        check_thinking_first(messages)
    _marks(body)


def _keys(body: Json, version: str, betas: str, known: frozenset[str]) -> None:
    for key in body:
        beta = BETA.get(key)
        allowed = key in known if beta is None else any(flag in betas for flag in beta)
        if version == _SAMPLING_GONE and key in ("temperature", "top_p", "top_k"):
            allowed = False
        if not allowed:
            raise RequestRejected(f"{key}: Extra inputs are not permitted")


def _integer(value: Any, at: str, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise RequestRejected(f"{at}: Input should be a valid integer")
    if value < least:
        raise RequestRejected(f"{at}: Input should be greater than or equal to {least}")


def _settings(body: Json, counting: bool) -> None:
    if not counting:
        _integer(body["max_tokens"], "max_tokens", 0)
    for key in ("temperature", "top_p"):
        value = body.get(key)
        if value is not None and not (isinstance(value, (int, float)) and 0 <= value <= 1):
            raise RequestRejected(f"{key}: range: 0..1")
    for at, stop in enumerate(body.get("stop_sequences") or []):
        if not isinstance(stop, str) or not stop.strip():
            raise RequestRejected(f"stop_sequences.{at}: each stop sequence must contain non-whitespace")
    only(object_or_none(body.get("metadata"), "metadata"), frozenset({"user_id"}), "metadata")
    output = object_or_none(body.get("output_config"), "output_config")
    only(output, frozenset({"effort", "format", "task_budget"}), "output_config")
    if output.get("effort") not in (None, "low", "medium", "high", "xhigh", "max"):
        raise RequestRejected("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
    if output.get("format") is not None:
        form = object_or_none(output["format"], "output_config.format")
        only(form, frozenset({"type", "schema"}), "output_config.format")
        if form.get("type") != "json_schema" or not isinstance(form.get("schema"), dict):
            raise RequestRejected("output_config.format: Input should be a json_schema with its schema")
    thinking = body.get("thinking")
    if thinking is not None:
        _thinking(object_or_none(thinking, "thinking"), body, counting)


def _thinking(thinking: Json, body: Json, counting: bool) -> None:
    kind = thinking.get("type")
    if kind not in ("enabled", "adaptive", "disabled", "between_tools"):
        raise RequestRejected(
            f"thinking: Input tag '{kind}' found using 'type' does not match any of the expected tags"
        )
    if kind == "enabled":
        if "budget_tokens" not in thinking:
            raise RequestRejected("thinking.enabled.budget_tokens: Field required")
        _integer(thinking["budget_tokens"], "thinking.enabled.budget_tokens", _LEAST_BUDGET)
        if not counting and thinking["budget_tokens"] >= body["max_tokens"]:
            raise RequestRejected("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if (object_or_none(body.get("tool_choice"), "tool_choice")).get("type") in ("any", "tool"):
            raise RequestRejected("Thinking may not be enabled when tool_choice forces tool use.")
    elif "budget_tokens" in thinking:
        raise RequestRejected(f"thinking.{kind}.budget_tokens: Extra inputs are not permitted")
    if kind in ("enabled", "adaptive") and body.get("temperature") not in (None, 1):
        raise RequestRejected("`temperature` may only be set to 1 when thinking is enabled.")


def _system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        raise RequestRejected("system: Input should be a valid list")
    for at, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            raise RequestRejected(f"system.{at}.type: Input should be 'text'")
        only(block, frozenset({"type", "text", "citations", _MARK}), f"system.{at}")
        text_block(block, f"system.{at}", "system")


def _tools(body: Json) -> None:
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        raise RequestRejected("tools: Input should be a valid list")
    names: list[str] = []
    for at, tool in enumerate(tools):
        if not isinstance(tool, dict):
            raise RequestRejected(f"tools.{at}: Input should be an object")
        kind = str(tool.get("type") or "custom")
        if kind != "custom":
            if not _TYPED_TOOL.match(kind) and kind != "mcp_toolset":
                raise RequestRejected(
                    f"tools.{at}: Input tag '{kind}' found using 'type' does not match any expected tag"
                )
            names += [str(tool["name"])] if "name" in tool else []
            continue
        where = f"tools.{at}.custom"
        only(tool, _TOOL, where)
        if not isinstance(tool.get("name"), str) or not NAME.match(tool["name"]):
            raise RequestRejected(f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        names.append(tool["name"])
        schema = tool.get("input_schema")
        if not isinstance(schema, dict):
            raise RequestRejected(f"{where}.input_schema: Field required")
        if schema.get("type") != "object":
            raise RequestRejected(f"{where}.input_schema.type: Input should be 'object'")
        if any(key in schema for key in ("oneOf", "anyOf", "allOf")):
            raise RequestRejected(f"{where}.input_schema: does not support oneOf, allOf, or anyOf at the top level")
    if len(set(names)) < len(names):
        raise RequestRejected("tools: Tool names must be unique.")
    _choice(body.get("tool_choice"), names, bool(tools))


def _choice(choice: Any, names: list[str], offered: bool) -> None:
    if choice is None:
        return
    kind = object_or_none(choice, "tool_choice").get("type")
    if kind not in ("auto", "any", "tool", "none"):
        raise RequestRejected(
            f"tool_choice: Input tag '{kind}' found using 'type' does not match any of the expected tags"
        )
    keys = {"type"} if kind == "none" else {"type", "disable_parallel_tool_use"}
    only(choice, frozenset(keys | {"name"} if kind == "tool" else keys), f"tool_choice.{kind}")
    if not offered:
        raise RequestRejected("tool_choice: may only be specified while providing tools")
    if kind == "tool" and choice.get("name") not in names:
        raise RequestRejected(f"tool_choice.tool.name: Tool '{choice.get('name')}' not found in provided tools")


def _marks(body: Json) -> None:
    """Accept at most 4 cache marks in tools, system and messages, including the automatic one."""
    count = 0
    stack: list[Any] = [body.get("tools"), body.get("system"), [m["content"] for m in body["messages"]]]
    marks = [body.get(_MARK)]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            marks.append(value.get(_MARK))
            stack.append(value.get("content"))
    for mark in marks:
        if mark is None:
            continue
        count += 1
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral" or mark.get("ttl") not in (None, "5m", "1h"):
            raise RequestRejected("cache_control: Input should be {'type': 'ephemeral', 'ttl': '5m' or '1h'}")
    if count > 4:
        raise RequestRejected(f"A maximum of 4 blocks with cache_control may be provided. Found {count}.")
