"""Block types of the Messages API which other dialects lack, and those of images (mapping §4.1, §4.2)."""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json
from dragoman.dialects.shared.json_fields import parse_object
from dragoman.losses import LossCode

IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Media types of images that the API accepts."""
DIRECT: Final[Json] = {"type": "direct"}
"""The `caller` of a call that the model itself made, which a missing one stands for."""


NATIVE_BLOCKS: Final[dict[str, LossCode]] = {
    "server_tool_use": LossCode.HOSTED_HISTORY,
    "web_search_tool_result": LossCode.HOSTED_HISTORY,
    "web_fetch_tool_result": LossCode.HOSTED_HISTORY,
    "code_execution_tool_result": LossCode.HOSTED_HISTORY,
    "bash_code_execution_tool_result": LossCode.HOSTED_HISTORY,
    "text_editor_code_execution_tool_result": LossCode.HOSTED_HISTORY,
    "tool_search_tool_result": LossCode.HOSTED_HISTORY,
    "mcp_tool_use": LossCode.VENDOR_BLOCK,
    "mcp_tool_result": LossCode.VENDOR_BLOCK,
    "mcp_tool_listing": LossCode.VENDOR_BLOCK,
    "advisor_tool_result": LossCode.VENDOR_BLOCK,
    "fallback": LossCode.VENDOR_BLOCK,
}
"""Assistant blocks of requests that no other dialect has → the loss code if they are dropped (mapping §8.4)."""


OPAQUE_BLOCKS: Final[dict[str, LossCode]] = {
    **NATIVE_BLOCKS,
    "compaction": LossCode.VENDOR_BLOCK,
    "container_upload": LossCode.HOSTED_HISTORY,
}
"""Blocks of replies that no other dialect has → the loss code if they are dropped.

In a request, `compaction` becomes text and `container_upload` is rejected instead.
"""


def join_block(block: Json, deltas: list[Json]) -> Json:
    """Return an opaque block of a stream with what its deltas add: texts, and the JSON of `input`."""
    added: dict[str, list[str]] = {}
    for delta in deltas:
        for key, value in delta.items():
            if key != "type" and type(value) is str:
                added.setdefault(key, []).append(value)
    texts = {key: "".join(pieces) for key, pieces in added.items()}
    arguments = texts.pop("partial_json", "")
    joined = {**block, **{key: (block.get(key) or "") + text for key, text in texts.items()}}
    if arguments:
        joined["input"] = parse_object(arguments) or block.get("input")
    return joined


WEB_SEARCH: Final = "web_search"
"""Name of the hosted web search tool, and the beginning of its versioned types."""


WEB_SEARCH_OPTIONS: Final = ("allowed_domains", "blocked_domains", "user_location", "max_uses")
