"""A value fits a type of an SDK only if the type has all of it."""

from __future__ import annotations

from typing import Any

import pytest

from vendors.hosts import HOSTS, Host
from vendors.sdk_types import misfits, sdk_type

MESSAGE = {"role": "user", "content": "Hi"}
CHAT = [host for host in HOSTS if host.dialect == "chat"]
by_chat_host = pytest.mark.parametrize("host", CHAT, ids=lambda host: host.name)


def paths(host: Host, **fields: Any) -> list[str]:
    """The paths of the misfits of a request."""
    return [misfit.path for misfit in misfits({"model": "m", "messages": [MESSAGE]} | fields, sdk_type(host.types))]


@by_chat_host
def test_a_plain_request_fits(host: Host) -> None:
    assert paths(host, stream=True, temperature=1, stop=["END"], max_tokens=5) == []


@by_chat_host
@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"unheard_of": None}, "unheard_of"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"messages": [{**MESSAGE, "unheard_of": 1}]}, "messages[0].unheard_of"),
        ({"messages": [{"role": 5, "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "5", "tool_call_id": 5}]}, "messages[0].tool_call_id"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "unheard_of": 1}]}]},
            "messages[0].content[0].unheard_of",
        ),
        ({"tools": [{"type": "function", "function": {"name": "f", "unheard_of": 1}}]}, "tools[0].function.unheard_of"),
        ({"response_format": {"type": "unheard_of"}}, "response_format.type"),
        ({"tool_choice": 5}, "tool_choice"),
    ],
)
def test_what_the_types_do_not_have_is_named(host: Host, fields: dict[str, Any], path: str) -> None:
    found = paths(host, **fields)
    # Where a type is a union, the misfit may be the object that holds the field.
    assert path in found or path.rpartition(".")[0] in found


@by_chat_host
def test_a_missing_field_is_named(host: Host) -> None:
    kind = sdk_type(host.types)
    assert "messages" in [misfit.path for misfit in misfits({"model": "m"}, kind)]
