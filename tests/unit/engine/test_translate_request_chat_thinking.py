"""Thinking in a Chat request: Messages' own field, as vendors' compatible endpoints take it, and what Claude shows."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.errors import ClientRequestError
from support.canonical_turns import translated

ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "go"}]}


@pytest.mark.parametrize(
    ("given", "sent", "effort"),
    [
        ({"type": "adaptive"}, {"type": "adaptive", "display": "summarized"}, None),
        ({"type": "adaptive", "display": "omitted"}, {"type": "adaptive", "display": "omitted"}, None),
        ({"type": "enabled", "budget_tokens": 2000}, {"type": "adaptive", "display": "summarized"}, "low"),
        ({"type": "enabled", "budget_tokens": 40000}, {"type": "adaptive", "display": "summarized"}, "xhigh"),
        ({"type": "enabled"}, {"type": "adaptive", "display": "summarized"}, "medium"),
        ({"type": "disabled"}, {"type": "disabled"}, None),
    ],
)
def test_thinking_is_sent_to_claude(given: Any, sent: Any, effort: str | None) -> None:
    body, made = translated("chat", "messages", ASK | {"thinking": given})
    assert body["thinking"] == sent
    assert body.get("output_config", {}).get("effort") == effort
    assert not made.losses


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_a_budget_is_sent_where_the_upstream_takes_one(client: str) -> None:
    body, made = translated(
        client,
        "messages",
        ASK | {"max_tokens": 20_000, "thinking": {"type": "enabled", "budget_tokens": 5000}},
        profile="compatible",
        flags={"rewrite": True},
    )
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 5000}
    assert not made.losses


def test_the_cap_bounds_a_budget() -> None:
    given = ASK | {"max_tokens": 3000, "thinking": {"type": "enabled", "budget_tokens": 5000}}
    body, made = translated("chat", "messages", given, profile="compatible")
    assert body["thinking"]["budget_tokens"] == 2999
    assert made.losses.counts == {"effort_rounded": 1}


def test_an_effort_overrides_a_budget_and_off_overrides_an_effort() -> None:
    both = ASK | {"reasoning_effort": "max", "thinking": {"type": "enabled", "budget_tokens": 2000}}
    assert translated("chat", "messages", both)[0]["output_config"] == {"effort": "max"}
    off = ASK | {"reasoning_effort": "max", "thinking": {"type": "disabled"}}
    assert translated("chat", "messages", off)[0]["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(("upstream", "profile"), [("chat", "openai"), ("chat", "deepseek"), ("responses", "openai")])
def test_other_upstreams_get_the_effort(upstream: str, profile: str) -> None:
    given = ASK | {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    body, _ = translated("chat", upstream, given, profile=profile, flags={"rewrite": True})
    assert body.get("reasoning_effort") == "low" or body["reasoning"]["effort"] == "low"
    off, _ = translated(
        "chat", upstream, ASK | {"thinking": {"type": "disabled"}}, profile=profile, flags={"rewrite": True}
    )
    assert "none" in (off.get("reasoning_effort"), off.get("reasoning", {}).get("effort")) or off["thinking"] == {
        "type": "disabled"
    }


def test_a_thinking_that_is_no_object_is_the_clients_fault() -> None:
    with pytest.raises(ClientRequestError, match="thinking: expected an object"):
        translated("chat", "messages", ASK | {"thinking": True})


def test_an_unknown_type_is_approximated() -> None:
    body, made = translated("chat", "messages", ASK | {"thinking": {"type": "dreaming"}})
    assert body["thinking"]["type"] == "adaptive"
    assert made.losses.counts == {"thinking_mode": 1}


@pytest.mark.parametrize("effort", ["low", "high", "max"])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "both", "off"])
def test_claude_shows_its_thinking_to_a_client_that_gets_it(effort: str, field: str) -> None:
    body, _ = translated("chat", "messages", ASK | {"reasoning_effort": effort}, reasoning_field=field)
    assert body["thinking"] == {"type": "adaptive"} | ({} if field == "off" else {"display": "summarized"})


def test_nothing_is_shown_where_there_is_no_reasoning() -> None:
    assert "thinking" not in translated("chat", "messages", ASK)[0]
    assert translated("chat", "messages", ASK | {"reasoning_effort": "none"})[0]["thinking"] == {"type": "disabled"}
    budget, _ = translated("chat", "messages", ASK | {"reasoning_effort": "low"}, profile="compatible")
    assert budget["thinking"] == {"type": "enabled", "budget_tokens": 1024}


def test_free_json_is_requested_by_an_instruction() -> None:
    given = ASK | {"response_format": {"type": "json_object"}}
    body, made = translated("chat", "messages", given)
    assert "JSON object" in body["system"]
    assert made.losses.counts == {"json_mode": 1}
    assert "system" not in translated("chat", "messages", given, json_mode="drop")[0]
    with pytest.raises(ClientRequestError):
        translated("chat", "messages", given, json_mode="reject")
