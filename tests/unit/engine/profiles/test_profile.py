"""Each flag that a third party needs: what it changes in a request, and the row where something is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import LossCode, direction, translate
from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from dragoman.profiles.profile import builtin_profile
from support import samples

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES = Dialect
LOOK, FIND = ({"name": name, "input_schema": {"type": "object", "properties": {}}} for name in ("look", "find"))
SAID = {"role": "user", "content": "Hi"}
CALLED: Json = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}
ANSWERED = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]}


def ask(
    upstream: Dialect = CHAT, base: str = "compatible", knobs: Knobs | None = None, *, flags: Json, **fields: Any
) -> tuple[Json, dict[LossCode, int]]:
    """The body that a Messages client's request becomes with these flags, and its losses."""
    return ask_of(MESSAGES, upstream, base, knobs, flags=flags, **fields)


def ask_of(
    client: Dialect, upstream: Dialect, base: str, knobs: Knobs | None = None, *, flags: Json, **fields: Any
) -> tuple[Json, dict[LossCode, int]]:
    """The same for a client of any dialect."""
    translation = translate(
        direction(client, upstream),
        json.dumps(samples.request(client, **fields)).encode(),
        profile=builtin_profile(upstream, base).replace(flags),
        knobs=knobs or Knobs(),
    )
    return json.loads(translation.body), translation.losses.counts


# --- how much to reason -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "off", "high"),
    [
        ("reasoning_effort", {"reasoning_effort": "none"}, {"reasoning_effort": "high"}),
        ("thinking", {"thinking": {"type": "disabled"}}, {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("enable_thinking", {"enable_thinking": False}, {"enable_thinking": True, "reasoning_effort": "high"}),
        (
            "chat_template_kwargs",
            {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
            {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}, "reasoning_effort": "high"},
        ),
        ("reasoning", {"reasoning": {"effort": "none"}}, {"reasoning": {"effort": "high"}}),
        (
            "reasoning_split",
            {"reasoning_split": True, "reasoning_effort": "none"},
            {"reasoning_split": True, "reasoning_effort": "high"},
        ),
    ],
)
def test_thinking_field_is_how_reasoning_is_switched(field: str, off: Json, high: Json) -> None:
    keys = {
        "thinking",
        "enable_thinking",
        "chat_template_kwargs",
        "reasoning",
        "reasoning_split",
        "reasoning_effort",
    }

    def told(**fields: Any) -> Json:
        body, counts = ask(flags={"thinking_field": field}, **fields)
        assert counts == {}
        return {key: value for key, value in body.items() if key in keys}

    assert told(thinking={"type": "disabled"}) == off
    assert told(output_config={"effort": "high"}) == high
    assert told() == ({"reasoning_split": True} if field == "reasoning_split" else {})


def test_an_upstream_with_reasoning_on_and_off_only_is_told_no_level() -> None:
    """Moonshot refuses `thinking` together with `reasoning_effort` (HKUDS/nanobot#3939)."""
    flags = {"thinking_field": "thinking", "efforts": ()}
    body, counts = ask(flags=flags, output_config={"effort": "high"})
    assert body["thinking"] == {"type": "enabled"}
    assert "reasoning_effort" not in body
    assert counts == {LossCode.EFFORT_ROUNDED: 1}
    assert ask(flags=flags, thinking={"type": "disabled"})[1] == {}


def test_messages_may_be_told_budget_and_effort() -> None:
    """DeepSeek takes `enabled` and ignores its budget; its effort is another field."""
    body, counts = ask_of(
        CHAT, MESSAGES, "compatible", flags={"thinking": "budget_and_effort"}, reasoning_effort="low", max_tokens=9000
    )
    assert (body["thinking"], body["output_config"]) == ({"type": "enabled", "budget_tokens": 1024}, {"effort": "low"})
    assert counts == {}


# --- reasoning of earlier turns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reasoning_content", "why"),
        ("reasoning", "why"),
        ("reasoning_details", [{"type": "reasoning.text", "text": "why"}]),
    ],
)
def test_reasoning_key_is_where_reasoning_goes_back(key: str, value: Any) -> None:
    thought = {"type": "thinking", "thinking": "why", "signature": ""}
    for content in ([thought, *CALLED["content"]], [thought, {"type": "text", "text": "so"}]):
        history = [SAID, {"role": "assistant", "content": content}, ANSWERED if content[1]["type"] != "text" else SAID]
        body, _ = ask(flags={"reasoning_key": key}, messages=history)
        message = body["messages"][1]
        assert message[key] == value
        assert not {"reasoning_content", "reasoning", "reasoning_details"} - {key} & message.keys()


def test_calls_without_reasoning_are_given_a_blank_one_where_it_must_be_there() -> None:
    """`thinking is enabled but reasoning_content is missing in assistant tool call message` (T-15)."""
    history = [SAID, CALLED, ANSWERED]
    body, counts = ask(flags={"reasoning_required": True}, messages=history)
    assert body["messages"][1]["reasoning_content"] == " "
    assert counts == {LossCode.REASONING_FILLED: 1}
    body, counts = ask(flags={"reasoning_required": True}, messages=history, thinking={"type": "disabled"})
    assert "reasoning_content" not in body["messages"][1]
    assert counts == {}
    spoken = [SAID, {"role": "assistant", "content": [{"type": "text", "text": "x"}, *CALLED["content"]]}, ANSWERED]
    assert ask(flags={"reasoning_required": True}, messages=spoken)[1] == {LossCode.REASONING_FILLED: 1}


# --- tools ------------------------------------------------------------------------------------------------------------

ONE = {"type": "function", "function": {"name": "look"}}
SUBSET = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [ONE]}}
CHAT_TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("look", "find")
]


@pytest.mark.parametrize(
    ("taken", "asked", "choice", "tools", "lost"),
    [
        ("named", ONE, ONE, 2, {}),
        ("named", SUBSET, "required", 1, {LossCode.TOOLS_FILTERED: 1}),
        ("words", ONE, "required", 1, {LossCode.TOOLS_FILTERED: 1}),
        ("words", "none", "none", 2, {}),
        ("unforced", "required", "auto", 2, {LossCode.CHOICE_DOWNGRADED: 1}),
        ("unforced", ONE, "auto", 1, {LossCode.TOOLS_FILTERED: 1, LossCode.CHOICE_DOWNGRADED: 1}),
        ("unforced", "none", "none", 2, {}),
        ("auto", "auto", "auto", 2, {}),
        ("auto", "required", "auto", 2, {LossCode.CHOICE_DOWNGRADED: 1}),
        ("auto", "none", None, 0, {LossCode.TOOLS_FILTERED: 1}),
    ],
)
def test_a_choice_becomes_one_that_is_taken(
    taken: str, asked: Any, choice: Any, tools: int, lost: dict[LossCode, int]
) -> None:
    """Tools that may not be called are not sent; what is forced is asked for more softly."""
    profile = builtin_profile("chat", "compatible").replace({"tool_choice": taken, "rewrite": True})
    request = samples.request(CHAT, tools=CHAT_TOOLS, tool_choice=asked)
    translation = translate(direction("chat", "chat"), json.dumps(request).encode(), profile=profile)
    body = json.loads(translation.body)
    assert (body.get("tool_choice"), len(body.get("tools", ()))) == (choice, tools)
    assert translation.losses.counts == lost


def test_one_call_at_a_time_is_not_asked_of_who_cannot_be_asked() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    body, counts = ask(flags={"parallel_tool_calls": False}, tools=[LOOK], tool_choice=choice)
    assert "parallel_tool_calls" not in body
    assert counts == {LossCode.PARALLEL_CALLS: 1}
    body, counts = ask(flags={}, tools=[LOOK], tool_choice=choice)
    assert (body["parallel_tool_calls"], counts) == (False, {})


def test_strict_is_not_sent_where_it_is_not_taken() -> None:
    for strict, lost in ((True, {LossCode.SCHEMA_STRICTNESS: 1}), (False, {})):
        body, counts = ask(flags={"strict_tools": False}, tools=[{**LOOK, "strict": strict}])
        assert "strict" not in body["tools"][0]["function"]
        assert counts == lost


# --- instructions, stops, sampling, caching, padding ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "roles", "lost"),
    [
        ("auto", ["system", "user", "assistant", "user"], {LossCode.SYSTEM_MOVED: 1}),
        ("hoist", ["system", "user", "assistant", "user"], {LossCode.SYSTEM_MOVED: 1}),
        ("inline", ["system", "user", "system", "assistant", "user"], {}),
        ("user", ["system", "user", "user", "assistant", "user"], {LossCode.SYSTEM_DEMOTED: 1}),
    ],
)
def test_a_template_with_one_system_message_gets_one(mode: Any, roles: list[str], lost: dict[LossCode, int]) -> None:
    """`System message must be at the beginning` (ggml-org/llama.cpp#27367)."""
    late = [SAID, {"role": "system", "content": "be brief"}, {"role": "assistant", "content": "ok"}, SAID]
    body, counts = ask(flags={"system_inline": False}, knobs=Knobs(mid_system=mode), system="be kind", messages=late)
    assert [message["role"] for message in body["messages"]] == roles
    assert counts == lost
    said = json.dumps(body["messages"])
    assert "be kind" in said
    assert "be brief" in said


def test_several_leading_instructions_become_one_message() -> None:
    leading = [{"role": "developer", "content": "a"}, {"role": "developer", "content": "b"}, SAID]
    body, counts = ask_of(RESPONSES, CHAT, "compatible", flags={"system_inline": False}, input=leading)
    assert body["messages"][0] == {"role": "system", "content": "a\n\nb"}
    assert counts == {LossCode.TURNS_MERGED: 1}


def test_a_messages_upstream_without_stop_sequences_is_given_none() -> None:
    fields: Json = {"stop": ["END"], "max_tokens": 9}
    body, counts = ask_of(CHAT, MESSAGES, "compatible", flags={"stop_limit": 0}, **fields)
    assert "stop_sequences" not in body
    assert counts == {}  # the gateway cuts the text itself
    off = Knobs(stop_emulation="off")
    assert ask_of(CHAT, MESSAGES, "compatible", off, flags={"stop_limit": 0}, **fields)[1] == {LossCode.STOP_DROPPED: 1}


def test_top_k_goes_to_servers_that_take_it() -> None:
    assert ask(flags={"top_k": True}, top_k=5)[0]["top_k"] == 5
    body, counts = ask(flags={}, top_k=5)
    assert "top_k" not in body
    assert counts == {LossCode.TOP_K: 1}


@pytest.mark.parametrize(("ttl", "written"), [(None, {}), ("5m", {"ttl": "5m"}), ("1h", {"ttl": "1h"})])
def test_cache_marks_are_spelled_as_the_router_spells_them(ttl: str | None, written: Json) -> None:
    mark = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    said = {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": mark}]}
    flags = {"explicit_cache": True, "text_parts": True, "cache_field": "cache_control"}
    body, counts = ask(flags=flags, messages=[said])
    (part,) = body["messages"][0]["content"]
    assert part == {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", **written}}
    assert counts == {}


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_padding_is_not_asked_for(upstream: Dialect) -> None:
    """The reader throws it away (mapping §8.1)."""
    options = ask(upstream, "openai", flags={}, stream=True)[0]["stream_options"]
    assert options["include_obfuscation"] is False
    others = ask(upstream, "compatible", flags={}, stream=True)[0].get("stream_options", {})
    assert "include_obfuscation" not in others


def test_encrypted_reasoning_is_asked_for_where_there_is_any_and_it_can_come_back() -> None:
    include = ask(RESPONSES, "openai", flags={})[0].get("include")
    assert include == ["reasoning.encrypted_content"]
    assert "include" not in ask(RESPONSES, "openai", flags={"encrypted_reasoning": False})[0]
    assert "include" not in ask(RESPONSES, "openai", flags={"efforts": ()})[0]
    assert "include" not in ask_of(CHAT, RESPONSES, "openai", flags={})[0]
