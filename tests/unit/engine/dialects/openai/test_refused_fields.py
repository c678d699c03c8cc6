"""Fields that a host rejects are left out, and each that the client has set has a row at the client's own field."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import LossCode
from dragoman.dialects import Dialect
from dragoman.dialects.openai.refused_fields import leave_out
from dragoman.losses import Losses
from support.flagged_requests import ask_of

CHAT, MESSAGES, RESPONSES, *_ = Dialect
Row = tuple[LossCode, str]


def left_out(body: dict[str, Any], *refused: str, origin: str = "chat") -> tuple[dict[str, Any], list[Row]]:
    """The body that is left, and the rows."""
    losses = Losses()
    leave_out(body, refused, origin, losses)
    return body, [(row.code, row.path) for row in losses.rows]


@pytest.mark.parametrize(
    ("name", "origin", "row"),
    [
        ("verbosity", "chat", (LossCode.VERBOSITY, "verbosity")),
        ("verbosity", "responses", (LossCode.VERBOSITY, "text.verbosity")),
        ("user", "chat", (LossCode.METADATA, "user")),
        ("user", "messages", (LossCode.METADATA, "metadata.user_id")),
        ("prompt_cache_key", "responses", (LossCode.CACHE_HINT, "prompt_cache_key")),
        ("seed", "chat", (LossCode.SAMPLING_UNSUPPORTED, "seed")),
        ("parallel_tool_calls", "messages", (LossCode.PARALLEL_CALLS, "tool_choice.disable_parallel_tool_use")),
        ("of_no_table", "chat", (LossCode.VENDOR_OPTION, "of_no_table")),
    ],
)
def test_a_field_is_left_out_with_a_row(name: str, origin: str, row: Row) -> None:
    assert left_out({"model": "m", name: False}, name, "other", origin=origin) == ({"model": "m"}, [row])


@pytest.mark.parametrize(
    ("name", "value"), [("parallel_tool_calls", True), ("store", False), ("stream_options", {"include_usage": True})]
)
def test_a_field_that_states_what_happens_anyway_has_no_row(name: str, value: Any) -> None:
    assert left_out({name: value}, name) == ({}, [])
    assert left_out({"store": True}, "store")[1] == [(LossCode.VENDOR_OPTION, "store")]


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_the_flag_holds_for_both_dialects(upstream: Dialect) -> None:
    client = RESPONSES if upstream is CHAT else CHAT
    flags = {"refused_fields": ("prompt_cache_key",)}
    body, counts = ask_of(client, upstream, "openai", flags=flags, prompt_cache_key="k")
    assert "prompt_cache_key" not in body
    assert counts[LossCode.CACHE_HINT] == 1
    assert ask_of(client, upstream, "openai", flags={}, prompt_cache_key="k")[0]["prompt_cache_key"] == "k"


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_a_tier_that_the_host_does_not_have_is_not_sent(upstream: Dialect) -> None:
    client = RESPONSES if upstream is CHAT else CHAT
    flags = {"service_tiers": ("auto", "flex")}
    assert ask_of(client, upstream, "openai", flags=flags, service_tier="flex")[0]["service_tier"] == "flex"
    body, counts = ask_of(client, upstream, "openai", flags=flags, service_tier="priority")
    assert "service_tier" not in body
    assert counts[LossCode.SERVICE_TIER] == 1


def test_verbosity_is_left_out_where_it_is_nested() -> None:
    for refused, lost in (((), {}), (("verbosity",), {LossCode.VERBOSITY: 1})):
        body, counts = ask_of(CHAT, RESPONSES, "openai", flags={"refused_fields": refused}, verbosity="low")
        assert body.get("text") == (None if refused else {"verbosity": "low"})
        assert counts == lost


def test_a_rewritten_request_has_the_name_of_the_cap_that_the_host_knows() -> None:
    body, _ = ask_of(CHAT, CHAT, "mistral", flags={"rewrite": True}, max_completion_tokens=9)
    assert body["max_tokens"] == 9
    assert "max_completion_tokens" not in body
