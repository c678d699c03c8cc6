"""The items of Codex's sub-agents and scheduled tasks in a request that may pass through (mapping §1.7, §8.4).

OpenAI's server takes messages between agents, tool parameters that its models encrypt, and outputs without a call.
Servers that are compatible with the API reject them.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.tools.encrypted_arguments import KEYWORD

_WITHOUT_CALL: Final = frozenset({"agent_message", "function_call_output", "custom_tool_call_output"})
"""Types of the items that are meant if they do not name a call."""


def has_agent_items(payload: Json) -> bool:
    """True if a request, given as its JSON object, holds one of these.

    It is read whole with each request of an agent, so the bytes are not searched: that takes several times as long.
    """
    items = payload.get("input")
    if type(items) is list:
        for item in [item for item in items if type(item) is dict and not item.get("call_id")]:
            kind = item.get("type")
            if type(kind) is str and (kind in _WITHOUT_CALL or (kind == "additional_tools" and _encrypts(item))):
                return True
    return _encrypts(payload)


def _encrypts(holder: Json) -> bool:
    """True if one of the `tools`, also in a namespace, has a parameter that the model encrypts."""
    tools = holder.get("tools")
    if type(tools) is not list:
        return False
    for tool in tools:
        if type(tool) is dict and (_encrypts(tool) if "tools" in tool else _has_encrypted(tool.get("parameters"))):
            return True
    return False


def _has_encrypted(schema: Any) -> bool:
    properties = schema.get("properties") if type(schema) is dict else None
    if type(properties) is dict:
        for value in properties.values():
            if type(value) is dict and KEYWORD in value and value[KEYWORD] is True:
                return True
    return False
