"""The output cap of Messages requests whose client set none, and after a refusal."""

import json
from typing import Any

import pytest

from dragoman import Dialect, Knobs, Profile, Translation, builtin_profile, translate
from dragoman.dialects.messages.request.output_cap import lower_cap
from dragoman.gateway import DIRECTIONS

COMPATIBLE = builtin_profile("messages", "compatible")
CLIENTS = {Dialect.CHAT: ("messages", "max_completion_tokens"), Dialect.RESPONSES: ("input", "max_output_tokens")}
clients = pytest.mark.parametrize("client", CLIENTS)


def made(client: Dialect, model: str = "m", *, profile: Profile = COMPATIBLE, **fields: Any) -> Translation:
    body = {"model": model, CLIENTS[client][0]: [{"role": "user", "content": "go"}], **fields}
    knobs = Knobs(on_loss="reject")
    return translate(DIRECTIONS[client, Dialect.MESSAGES], json.dumps(body).encode(), profile=profile, knobs=knobs)


@clients
@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-opus-5-5", 128_000),
        ("claude-haiku-5-5", 128_000),
        ("us.anthropic.claude-opus-4-6-v1", 128_000),
        ("claude-sonnet-4.6", 128_000),
        ("claude-opus-4-5-20251101", 64_000),
        ("claude-sonnet-4@20250514", 64_000),
        ("claude-haiku-4-5-20251001", 64_000),
        ("anthropic/claude-3.7-sonnet", 64_000),
        ("claude-opus-4-20250514", 32_000),
        ("claude-opus-4-1", 32_000),
        ("claude-3-5-sonnet-20241022", 8192),
        ("claude-3-opus-20240229", 4096),
        ("qwen", 64_000),
        ("claude-opus-4-1" + "x" * 200, 32_000),
    ],
)
def test_the_models_own_limit(client: Dialect, model: str, limit: int) -> None:
    translation = made(client, model)
    assert json.loads(translation.body)["max_tokens"] == limit
    assert [tuple(row) for row in translation.losses] == [("cap_added", CLIENTS[client][1], f"{limit} was sent")]


@clients
@pytest.mark.parametrize(
    ("flags", "limit"),
    [
        ({"default_max_tokens": 5000}, 5000),
        ({"max_output_tokens": 6000}, 6000),
        ({"default_max_tokens": 9000, "max_output_tokens": 6000}, 6000),
        ({"default_max_tokens": 5000, "max_output_tokens": 6000}, 5000),
        ({"context_window": 32_768}, 16_384),
        ({"context_window": 1_000_000}, 64_000),
    ],
)
def test_the_operators_own_limit(client: Dialect, flags: dict[str, Any], limit: int) -> None:
    assert json.loads(made(client, profile=COMPATIBLE.replace(flags)).body)["max_tokens"] == limit


@clients
def test_a_clients_own_limit_is_no_row(client: Dialect) -> None:
    fields: dict[str, Any] = {CLIENTS[client][1]: 99}
    translation = made(client, **fields)
    assert (json.loads(translation.body)["max_tokens"], len(translation.losses)) == (99, 0)


@pytest.mark.parametrize("effort", ["low", "medium", "high", "xhigh", "max"])
@pytest.mark.parametrize("limit", [4096, 8192, 32_000, 64_000, 128_000])
def test_thinking_leaves_room_for_the_text(effort: str, limit: int) -> None:
    profile = COMPATIBLE.replace({"default_max_tokens": limit})
    body = json.loads(made(Dialect.CHAT, profile=profile, reasoning_effort=effort).body)
    assert 1024 <= body["thinking"]["budget_tokens"] <= limit - min(limit // 2, 8192)


REFUSALS = {
    "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens for claude-opus-4-1": 32_000,
    "Invalid max_tokens value, the valid range of max_tokens is [1,8192]": 8192,
    "Range of max_tokens should be [1, 8192]": 8192,
    "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens`": 8192,
    "The maximum tokens you requested exceeds the model limit of 32768": 32_768,
    "The maximum tokens you requested exceeds the model limit of 8192. Try a value that is lower than 8192.": 8191,
    "maxOutputTokens value of 64000 but the range is from 1 (inclusive) to 32769 (exclusive).": 32_768,
    "max_tokens is not valid: expected a value <= 32768, but got 64000 instead. Request id: 021772432596c7e5": 32_768,
    "max_tokens (64000) exceeds model's maximum output tokens (32768) for model deepseek-v4-flash:0731": 32_768,
    "max_tokens is too large: 64000. This model supports at most 16,384 completion tokens": 16_384,
    "input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000, decrease one": 10_000,
    "maximum context length is 32768 tokens. However, you requested 65000 tokens (1000 in the messages, 64000 in the "
    "completion)": 31_768,
    "'max_tokens' is too large: 64000. This model's maximum context length is 32768 tokens and your request has 1000 "
    "input tokens (64000 > 32768 - 1000).": 31_768,
    "maximum context length is 64000 tokens. However, you requested 65000 tokens (1000 in the messages, 64000 in the "
    "completion)": 63_000,
}


@pytest.mark.parametrize("message", REFUSALS)
def test_a_refusal_that_names_a_lower_limit(message: str) -> None:
    translation, most = made(Dialect.CHAT, reasoning_effort="max"), REFUSALS[message]
    lowered = lower_cap(translation.body, message, translation.losses)
    assert lowered is not None
    body = json.loads(lowered[0])
    assert (lowered[1], lowered[2]) == (most, "context" not in message.replace("context_window", ""))
    assert body["max_tokens"] == most > body["thinking"]["budget_tokens"]
    assert translation.losses.rows[-1].code == "cap_clamped"
    assert body | {"max_tokens": 0, "thinking": 0} == json.loads(translation.body) | {"max_tokens": 0, "thinking": 0}


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens: Field required",
        "max_tokens is invalid (code 400)",
        "max_tokens: 64000 > 512",
        "bad request 4096",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199900 + 64000 > 200000, decrease one",
        "",
    ],
)
def test_a_refusal_for_another_reason(message: str) -> None:
    translation = made(Dialect.CHAT)
    assert lower_cap(translation.body, message, translation.losses) is None


def test_a_cap_that_the_client_set_stays() -> None:
    translation = made(Dialect.CHAT, max_tokens=64_000)
    assert lower_cap(translation.body, next(iter(REFUSALS)), translation.losses) is None


def test_without_room_thinking_is_left_out_and_numbers_stay() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 0.12345678901234567891}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    translation = made(Dialect.CHAT, reasoning_effort="max", tools=tools)
    lowered = lower_cap(translation.body, "max_tokens: 64000 > 1500", translation.losses)
    assert lowered is not None
    assert "thinking" not in json.loads(lowered[0])
    assert [row.code for row in translation.losses][-2:] == ["effort_floor", "cap_clamped"]
