"""The kind of a tool call in replies and deltas: some servers send the members of both kinds, one of them empty."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.shared.json_fields import is_empty
from dragoman.errors import UpstreamProtocolError

CALL_TYPES: Final = ("function", "custom", "", None)
"""The types of the calls that are read. Many fragments have none."""
_NOTHING: Json = {}


def call_body(call: Json) -> tuple[bool, Json]:
    """Return whether a call, or a fragment of one, is of a free-text tool, and its `function` or `custom` object.

    The object is empty if the call has no such member. Raises UpstreamProtocolError for a call of any other type.
    """
    kind = call.get("type")
    if kind not in CALL_TYPES:
        raise UpstreamProtocolError(f"upstream sent a tool call of type {kind!r}, which was not requested")
    function, custom = call.get("function"), call.get("custom")
    if custom and not is_empty(custom) and (kind != "function" or is_empty(function)):
        return True, _object(custom)
    return False, _object(function)


def _object(value: Any) -> Json:
    return value if type(value) is dict else _NOTHING
