"""Checks of the messages of a request to Anthropic's Messages API: blocks, their order, calls, signatures."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator
from typing import Any, NoReturn

from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.reply import SIGNATURE_PREFIX, signature_of
from oracles.requests.json_rules import words

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_MARK = "cache_control"
_BLOCKS: dict[str, frozenset[str]] = {
    "text": frozenset({"text", "citations", _MARK}),
    "image": frozenset({"source", "transformations", _MARK}),
    "document": frozenset({"source", "title", "context", "citations", _MARK}),
    "search_result": frozenset({"source", "title", "content", "citations", _MARK}),
    "thinking": frozenset({"thinking", "signature"}),
    "redacted_thinking": frozenset({"data"}),
    "tool_use": frozenset({"id", "name", "input", "caller", "toolset_name", _MARK}),
    "tool_result": frozenset({"tool_use_id", "content", "is_error", "toolset_name", _MARK}),
    "tool_reference": frozenset({"tool_name", _MARK}),
}
"""Block type → its keys, for the blocks whose fields are checked."""

_SERVER_BLOCKS = words(
    "advisor_tool_result bash_code_execution_tool_result code_execution_tool_result compaction fallback "
    "mcp_tool_listing mcp_tool_result mcp_tool_use server_tool_use text_editor_code_execution_tool_result "
    "tool_search_tool_result web_fetch_tool_result web_search_tool_result"
)
_ROLE_BLOCKS: dict[str, frozenset[str]] = {
    "user": frozenset({"text", "image", "document", "search_result", "tool_result", "container_upload", "compaction"}),
    "assistant": frozenset({"text", "thinking", "redacted_thinking", "tool_use", "document"}) | _SERVER_BLOCKS,
    "system": frozenset({"text", "tool_addition", "tool_removal"}),
}
_RESULT_BLOCKS = frozenset({"text", "image", "document", "search_result", "tool_reference", "browser_state"})


def check_messages(messages: list[Json], *, verify: bool) -> None:
    """Raise RequestRejected for the first message that the API would reject."""
    for at, message in enumerate(messages):
        _message(message, f"messages.{at}", last=at == len(messages) - 1, verify=verify)
    _system_places(messages)
    _pairs(messages)


def only(holder: Json, known: frozenset[str], at: str) -> None:
    """Reject keys that the API does not define."""
    for key in holder:
        if key not in known:
            raise RequestRejected(f"{at}.{key}: Extra inputs are not permitted")


def object_or_none(value: Any, at: str) -> Json:
    """Return the value if it is an object; an absent one is empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RequestRejected(f"{at}: Input should be an object")
    return value


def text_block(block: Json, at: str, label: str) -> None:
    """Accept a text block whose text is not blank."""
    text = block.get("text")
    if not isinstance(text, str):
        raise RequestRejected(f"{at}.text: Field required")
    if not text:
        raise RequestRejected(f"{label}: text content blocks must be non-empty")
    if not text.strip():
        raise RequestRejected(f"{label}: text content blocks must contain non-whitespace text")


def _message(message: Any, at: str, *, last: bool, verify: bool) -> None:
    if not isinstance(message, dict):
        raise RequestRejected(f"{at}: Input should be an object")
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or role not in _ROLE_BLOCKS:
        raise RequestRejected(f"{at}.role: Input should be 'user', 'assistant' or 'system'")
    extra = {"output_config", "clear_at"} if role == "system" else set()
    only(message, frozenset({"role", "content"} | extra), at)
    if role == "assistant" and last:
        raise RequestRejected("This model does not support assistant message prefill.")
    if isinstance(content, str):
        if not content.strip():
            raise RequestRejected(f"{at}: {role} messages must have non-empty content")
        return
    if not isinstance(content, list):
        raise RequestRejected(f"{at}.content: Field required")
    if not content:
        raise RequestRejected(f"{at}: {role} messages must have non-empty content")
    for n, block in enumerate(content):
        _block(block, _ROLE_BLOCKS[role], f"{at}.content.{n}", verify)


def _block(block: Any, allowed: frozenset[str], at: str, verify: bool) -> None:
    kind = object_or_none(block, at).get("type")
    if not isinstance(kind, str) or kind not in allowed:
        expected = ", ".join(f"'{name}'" for name in sorted(allowed))
        raise RequestRejected(
            f"{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {expected}"
        )
    keys = _BLOCKS.get(kind)
    if keys is not None:
        only(block, keys | {"type"}, f"{at}.{kind}")
    match kind:
        case "text":
            text_block(block, at, at.split(".content")[0])
        case "thinking":
            _signed(block, f"{at}.thinking", verify)
        case "redacted_thinking":
            if not block.get("data"):
                raise RequestRejected(f"{at}.redacted_thinking.data: Field required")
        case "tool_use":
            if not isinstance(block.get("id"), str) or not _ID.match(block["id"]):
                raise RequestRejected(f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            if not isinstance(block.get("name"), str) or not NAME.match(block["name"]):
                raise RequestRejected(f"{at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
            if not isinstance(block.get("input"), dict):
                raise RequestRejected(f"{at}.tool_use.input: Input should be a valid dictionary")
        case "tool_result":
            if not isinstance(block.get("tool_use_id"), str):
                raise RequestRejected(f"{at}.tool_result.tool_use_id: Field required")
            content = block.get("content", "")
            if not isinstance(content, (str, list)):
                raise RequestRejected(f"{at}.tool_result.content: Input should be a valid string or list")
            for n, part in enumerate(content if isinstance(content, list) else []):
                _block(part, _RESULT_BLOCKS, f"{at}.tool_result.content.{n}", verify)
        case "image" | "document":
            _source(block, f"{at}.{kind}")


def _source(block: Json, at: str) -> None:
    source = object_or_none(block.get("source"), f"{at}.source")
    needed = {"base64": ("media_type", "data"), "url": ("url",), "file": ("file_id",), "text": ("data",)}
    kind = source.get("type")
    if not isinstance(kind, str) or (kind not in needed and kind != "content"):
        raise RequestRejected(
            f"{at}.source: Input tag '{kind}' found using 'type' does not match any of the expected tags"
        )
    for key in needed.get(kind, ()):
        if not source.get(key):
            raise RequestRejected(f"{at}.source.{kind}.{key}: Field required")


def _signed(block: Json, at: str, verify: bool) -> None:
    if not isinstance(block.get("thinking"), str):
        raise RequestRejected(f"{at}.thinking: Field required")
    signature = block.get("signature")
    if not isinstance(signature, str):
        raise RequestRejected(f"{at}.signature: Field required")
    if not signature:
        _bad_signature(at)
    if verify:
        try:
            raw = b64decode(signature, validate=True)
        except NotBase64:
            _bad_signature(at)
        # Omitted thinking is sent back without its text: then only the signature's prefix can be checked.
        if not raw.startswith(SIGNATURE_PREFIX.encode()) or (
            block["thinking"] and signature_of(block["thinking"]) != signature
        ):
            _bad_signature(at)


def _bad_signature(at: str) -> NoReturn:
    raise RequestRejected(f"{at.removesuffix('.thinking')}: Invalid `signature` in `thinking` block")


def _system_places(messages: list[Json]) -> None:
    """Check that `system` messages follow a user's (or a server tool's result) and are last or precede an
    assistant's."""
    for at, message in enumerate(messages):
        if message["role"] != "system":
            continue
        before = messages[at - 1] if at else None
        fits = before is not None and (before["role"] == "user" or _ends_in_server_result(before))
        after = messages[at + 1]["role"] if at + 1 < len(messages) else "assistant"
        if not fits or after != "assistant":
            raise RequestRejected(
                f"messages.{at}: a system message must follow a user message and precede an assistant one"
            )


def _ends_in_server_result(message: Json) -> bool:
    content = message["content"]
    return (
        message["role"] == "assistant"
        and isinstance(content, list)
        and content[-1]["type"] in _SERVER_BLOCKS - {"server_tool_use", "mcp_tool_use"}
    )


def _merged(messages: list[Json]) -> Iterator[tuple[str, list[tuple[str, Json]]]]:
    """Yield the turns: consecutive messages of one role are one turn, and `system` messages are skipped."""
    role, blocks = "", list[tuple[str, Json]]()
    for at, message in enumerate(messages):
        if message["role"] == "system":
            continue
        if message["role"] != role:
            if role:
                yield role, blocks
            role, blocks = message["role"], []
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        blocks += [(f"messages.{at}.content.{n}", block) for n, block in enumerate(content)]
    yield role, blocks


def _pairs(messages: list[Json]) -> None:
    """Check that each `tool_use` has one `tool_result` at the head of the next turn, and that there are no others."""
    calls: list[str] = []
    seen: set[str] = set()
    for role, blocks in _merged(messages):
        if role == "assistant":
            calls = [block["id"] for _, block in blocks if block["type"] == "tool_use"]
            for call in calls:
                if call in seen:
                    raise RequestRejected("messages: `tool_use` ids must be unique")
                seen.add(call)
            continue
        answered: set[str] = set()
        other = False
        for at, block in blocks:
            if block["type"] != "tool_result":
                other = True
                continue
            call = block["tool_use_id"]
            if call not in calls:
                raise RequestRejected(f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {call}.")
            if call in answered:
                raise RequestRejected(f"{at}: each tool_use must have a single result. Found multiple with id: {call}")
            if other:
                raise RequestRejected(f"{at}: `tool_result` blocks must come before other content of the message")
            answered.add(call)
        _all_answered([call for call in calls if call not in answered])
        calls = []
    _all_answered(calls)


def _all_answered(missing: list[str]) -> None:
    if missing:
        raise RequestRejected(
            "messages: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block."
        )


def check_thinking_first(messages: list[Json]) -> None:
    """Check that an assistant turn with answered calls begins with its thinking, as a thinking budget requires."""
    turns = list(_merged(messages))
    if len(turns) < 2 or not any(block["type"] == "tool_result" for _, block in turns[-1][1]):
        return
    at, first = turns[-2][1][0]
    if first["type"] not in ("thinking", "redacted_thinking"):
        raise RequestRejected(
            f"{at}.type: Expected `thinking` or `redacted_thinking`, but found `{first['type']}`. When `thinking` is "
            "enabled, a final `assistant` message must start with a thinking block."
        )
