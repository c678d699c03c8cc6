"""The controls of a Responses request, and whole bodies: recorded ones, the same twice, longer and longer."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any

import pytest

from dragoman import builtin_profile, direction, translate
from dragoman.canonical.request import Json, OutputFormat, Thinking
from dragoman.knobs import Knobs
from dragoman.losses import LossCode
from oracles.requests import check
from support.paths import FIXTURES
from support.responses_written import COMPATIBLE, HI, ask, flags, function, refused

PATHS = {"/v1/chat/completions": "chat", "/v1/messages": "messages"}
SCHEMA: Json = {"type": "object", "properties": {}, "additionalProperties": False, "required": []}


# --- length, sampling, stops ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cap", "longest", "sent", "codes"),
    [
        (900, 0, 900, []),
        (16, 0, 16, []),
        (15, 0, 16, [LossCode.CAP_RAISED]),
        (1, 8, 16, [LossCode.CAP_RAISED]),
        (900, 500, 500, [LossCode.CAP_CLAMPED]),
    ],
)
def test_the_cap_is_raised_to_the_least_and_lowered_to_the_most(
    cap: int, longest: int, sent: int, codes: list[LossCode]
) -> None:
    body, losses = ask(max_tokens=cap, max_tokens_at=("max_tokens",), profile=flags(max_output_tokens=longest))
    assert body["max_output_tokens"] == sent
    assert losses == [(code, "max_tokens") for code in codes]


def test_a_cap_of_nothing_is_refused_and_none_is_left_out() -> None:
    assert refused(max_tokens=0, max_tokens_at=("max_tokens",)) == "max_tokens"
    assert "max_output_tokens" not in ask()[0]


@pytest.mark.parametrize(
    ("sampling", "sent", "lost"),
    [
        ("free", {"temperature": 0.5, "top_p": 1}, ["seed", "top_k"]),
        ("default_only", {"top_p": 1}, ["temperature", "seed", "top_k"]),
        ("none", {}, ["temperature", "top_p", "seed", "top_k"]),
    ],
)
def test_sampling(sampling: str, sent: Json, lost: list[str]) -> None:
    body, losses = ask(
        temperature=0.5, top_p=1, top_k=4, sampling={"seed": 1}, profile=flags(sampling=sampling), origin="chat"
    )
    assert {key: body[key] for key in ("temperature", "top_p", "top_k", "seed") if key in body} == sent
    assert [path for _, path in losses] == lost


def test_a_temperature_above_the_most_is_lowered() -> None:
    body, losses = ask(temperature=1.7, profile=flags(max_temperature=1.0))
    assert body["temperature"] == 1.0
    assert losses == [(LossCode.TEMPERATURE_CLAMPED, "temperature")]


def test_stops_are_left_to_the_gateway() -> None:
    fields: Json = {"stop": ["a", " ", "b"], "stop_at": ("stop_sequences",)}
    body, losses = ask(**fields)
    assert not {"stop", "stop_sequences"} & set(body)
    assert losses == [(LossCode.STOP_DROPPED, "stop_sequences")]
    assert ask(**fields, knobs=Knobs(stop_emulation="off"))[1] == [(LossCode.STOP_DROPPED, "stop_sequences")] * 3


# --- reasoning and text -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("thinking", "sent", "losses"),
    [
        (Thinking("high"), {"effort": "high"}, []),
        (Thinking("high", display="omitted"), {"effort": "high"}, []),
        (Thinking(None, display="summarized"), {"summary": "auto"}, []),
        (Thinking("low", summary="detailed"), {"effort": "low", "summary": "detailed"}, []),
        (Thinking(None, display="updates"), {"summary": "auto"}, [(LossCode.REASONING_MODE, "thinking.display")]),
        (Thinking("none"), {"effort": "none"}, []),
        (Thinking(None, ("thinking",)), None, []),
    ],
)
def test_reasoning(thinking: Thinking, sent: Json | None, losses: list[Any]) -> None:
    body, rows = ask(thinking=thinking)
    assert body.get("reasoning") == sent
    assert rows == losses


def test_T47_effort_is_rounded_to_what_there_is() -> None:
    wish = Thinking("max", ("output_config", "effort"))
    body, losses = ask(thinking=wish, profile=flags(efforts=("low", "high")))
    assert body["reasoning"] == {"effort": "high"}
    assert losses == [(LossCode.EFFORT_ROUNDED, "output_config.effort")]
    body, losses = ask(thinking=wish, profile=flags(efforts=()))
    assert "reasoning" not in body
    assert losses == [(LossCode.EFFORT_ROUNDED, "output_config.effort")]
    body, losses = ask(thinking=Thinking("none", ("thinking",)), profile=flags(efforts=("low",)))
    assert body["reasoning"] == {"effort": "low"}
    assert losses == [(LossCode.EFFORT_FLOOR, "thinking")]


def test_output_formats_are_flat() -> None:
    at = ("output_config", "format")
    form = OutputFormat("json_schema", at, schema=SCHEMA)
    sent = {"type": "json_schema", "name": "response", "schema": SCHEMA, "strict": True}
    assert ask(format=form)[0]["text"] == {"format": sent}
    named = OutputFormat("json_schema", at, "a city", SCHEMA, None, "d")
    body, _ = ask(format=named, verbosity="low", origin="chat")
    assert body["text"]["format"].pop("name").startswith("a_city_")
    assert body["text"] == {
        "format": {"type": "json_schema", "description": "d", "schema": SCHEMA},
        "verbosity": "low",
    }
    assert ask(format=OutputFormat("json_object"), origin="chat")[0]["text"] == {"format": {"type": "json_object"}}
    assert refused(format=form, profile=flags(structured_output=False)) == "output_config.format"
    assert refused(format=OutputFormat("json_schema", at, "n"), origin="chat") == "output_config.format"


# --- service ----------------------------------------------------------------------------------------------------------


def test_encrypted_reasoning_is_always_asked_for_where_it_is_taken_back() -> None:
    assert ask()[0]["include"] == ["reasoning.encrypted_content"]
    assert "include" not in ask(profile=COMPATIBLE)[0]
    # Chat clients bring no encrypted reasoning back, so it is not requested.
    body, _ = ask(logprobs=True, top_logprobs=3, origin="chat")
    assert body["include"] == ["message.output_text.logprobs"]
    assert body["top_logprobs"] == 3


@pytest.mark.parametrize(
    ("origin", "store", "sent"),
    [
        ("chat", None, False),
        ("chat", False, False),
        ("chat", True, True),
        ("messages", None, False),
        ("responses", None, None),
        ("responses", True, True),
    ],
)
def test_nothing_is_stored_unasked(origin: str, store: bool | None, sent: bool | None) -> None:
    assert ask(origin=origin, store=store)[0].get("store") is sent


@pytest.mark.parametrize(
    ("origin", "tier", "sent"),
    [
        ("messages", "auto", "auto"),
        ("messages", "standard_only", "default"),
        ("messages", "priority", None),
        ("chat", "flex", "flex"),
        ("chat", "ultrafast", None),
        ("responses", "ultrafast", "ultrafast"),
    ],
)
def test_service_tiers(origin: str, tier: str, sent: str | None) -> None:
    body, losses = ask(origin=origin, service_tier=tier, service_tier_at=("service_tier",))
    assert body.get("service_tier") == sent
    assert losses == ([] if sent else [(LossCode.SERVICE_TIER, "service_tier")])


def test_the_end_user_is_hashed_when_long_or_json() -> None:
    for profile in (flags(), COMPATIBLE):
        assert ask(end_user="u1", profile=profile)[0]["safety_identifier"] == "u1"
    for user_id in ('{"device_id":"x"}', "x" * 65):
        assert ask(end_user=user_id)[0]["safety_identifier"] == sha256(user_id.encode()).hexdigest()


def test_what_the_openai_dialects_share_passes_and_keys_have_one_order() -> None:
    cache = {"prompt_cache_retention": "24h", "prompt_cache_key": "k", "prompt_cache_options": {"mode": "implicit"}}
    body, losses = ask(
        origin="chat",
        stream=True,
        cache=cache,
        moderation={"model": "m"},
        metadata={"a": "b"},
        end_user="u",
        service_tier="flex",
        tools=[function(origin="chat")],
        verbosity="low",
        thinking=Thinking("low"),
        temperature=1.0,
        max_tokens=20,
    )
    assert losses == []
    assert {key: body[key] for key in cache} == cache
    assert body["stream_options"] == {"include_obfuscation": False}
    assert list(body) == [
        *("model", "input", "tools", "max_output_tokens", "temperature", "reasoning", "text", "store"),
        *("safety_identifier", "service_tier", "metadata"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "moderation"),
        *("stream", "stream_options"),
    ]
    assert not {"stream", "stream_options"} & set(ask(HI)[0])


# --- recorded requests ------------------------------------------------------------------------------------------------

_CUT = re.compile(r"(.{20}).* …\[\d+ more\]", re.DOTALL)


def _recorded() -> dict[str, list[tuple[str, Json]]]:
    """Session → dialect and body of each step. Counts of tokens are no requests for a reply."""
    sessions: dict[str, list[tuple[str, Json]]] = {}
    for path in sorted(FIXTURES.glob("*.json")):
        recorded = json.loads(path.read_text("utf-8"))
        dialect = PATHS.get(recorded["request"]["path"])
        if dialect is not None:
            sessions.setdefault(recorded["session"], []).append((dialect, recorded["request"]["body"]))
    return sessions


RECORDED = _recorded()


def upstream_body(dialect: str, body: Json, profile: str) -> Json:
    """The body that goes upstream; the same bytes each time."""
    raw = json.dumps(body).encode()
    row, flags_ = direction(dialect, "responses"), builtin_profile("responses", profile)
    sent = translate(row, raw, profile=flags_).body
    assert translate(row, raw, profile=flags_).body == sent
    written: Json = json.loads(sent)
    return written


def comparable(value: Any) -> Any:
    """Without cache marks, which clients move, and the recorder's cuts, which fall elsewhere in each step."""
    if isinstance(value, dict):
        return {key: comparable(entry) for key, entry in value.items() if key != "prompt_cache_breakpoint"}
    if isinstance(value, list):
        return [comparable(entry) for entry in value]
    return _CUT.sub(r"\1", value) if isinstance(value, str) else value


@pytest.mark.parametrize("profile", ["openai", "compatible"])
@pytest.mark.parametrize("session", RECORDED)
def test_T81_recorded_requests_are_taken_and_extend_each_other(session: str, profile: str) -> None:
    before: dict[str, Json] = {}
    for dialect, body in RECORDED[session]:
        sent = upstream_body(dialect, body, profile)
        check("responses", sent, {})
        users = [message for message in body["messages"] if message["role"] == "user"]
        topic = json.dumps(comparable(_without_marks(users[0])))
        shorter = before.get(topic)
        if shorter is not None:
            count = len(shorter["input"])
            assert comparable(sent["input"][:count]) == comparable(shorter["input"])
            assert comparable(sent.get("instructions")) == comparable(shorter.get("instructions"))
        before[topic] = sent
    extended = len(RECORDED[session]) - len(before)
    assert extended > 0 or len(RECORDED[session]) == 1


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_marks(entry) for key, entry in value.items() if key != "cache_control"}
    return [_without_marks(entry) for entry in value] if isinstance(value, list) else value


def test_the_recorded_requests_are_there() -> None:
    assert sum(map(len, RECORDED.values())) >= 75


def _long(turns: int) -> list[Json]:
    """A Messages conversation of an agent that thinks, talks, calls and is answered."""
    messages: list[Json] = [{"role": "user", "content": "Go."}]
    for n in range(turns):
        use = {"type": "tool_use", "id": f"toolu_{n}", "name": "run", "input": {"n": n}}
        text = {"type": "text", "text": f"Step {n}."}
        thinking = {"type": "thinking", "thinking": "…", "signature": "c2ln"}
        messages.append({"role": "assistant", "content": [thinking, text, use] if n % 2 else [use]})
        answer: Json = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": f"out {n}"}
        messages.append({"role": "user", "content": [answer, text] if n % 3 else [answer]})
        if n % 5 == 0:
            messages.append({"role": "system", "content": f"note {n}"})
    return messages


def test_T81_two_hundred_turns_extend_the_shorter_history() -> None:
    messages = _long(100)
    before: list[Json] = []
    sent: Json = {}
    ends = [n for n in range(1, len(messages) + 1) if messages[n - 1]["role"] != "assistant"]
    for end in ends[::7]:
        body = {"model": "m", "max_tokens": 99, "system": "Be brief.", "messages": messages[:end]}
        sent = upstream_body("messages", body, "openai")
        assert sent["instructions"] == "Be brief."
        assert sent["input"][: len(before)] == before
        assert len(sent["input"]) > len(before)
        before = sent["input"]
    check("responses", sent, {})
