"""Named third parties: recorded agents' requests come out as their documents state (docs/reference/profiles.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions
from typing import Any

import pytest

from dragoman import direction, translate
from dragoman.dialects import Dialect
from dragoman.profiles import THIRD_PARTIES, Vendor
from dragoman.profiles.profile import BUILTIN_PROFILES, PROFILE_FIELDS, VENDOR_PROFILES, builtin_profile
from dragoman.translate_request import Translation
from dragoman_server.config.value_problems import value_problem
from support.paths import FIXTURES
from vendors.clouds import CLOUDS
from vendors.hosts import HOSTS, Host
from vendors.strict_host import refused

RECORDED = (
    "claude-code_tool_2",
    "claude-code_toolsearch_3",
    "claude-code_tool_sonnet-4-5_2",
    "codex_patch-tool_2",
    "codex_lite-tool_2",
    "opencode-anthropic_tool_3",
    "opencode-chat_tool_3",
    "opencode-responses_effort_2",
    "qwen_tool_2",
)
DIALECTS = {"anthropic": "messages", "chat": "chat", "responses": "responses"}
Json = dict[str, Any]
by_name = pytest.mark.parametrize("vendor", THIRD_PARTIES, ids=lambda vendor: f"{vendor.dialect}-{vendor.name}")


def sent(vendor: Vendor, name: str, **changes: Any) -> tuple[Translation, Json]:
    """Return what becomes of a recorded request, and its body."""
    recorded = json.loads((FIXTURES / f"{name}.json").read_bytes())
    body = {**recorded["request"]["body"], **changes}
    client = DIALECTS[recorded["dialect"]]
    profile = builtin_profile(vendor.dialect, vendor.name)
    translation = translate(direction(client, vendor.dialect), json.dumps(body).encode(), profile=profile)
    return translation, json.loads(translation.body)


def objects(value: Any) -> Iterator[Json]:
    """Every object in a body."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)


# What each vendor's own pages state of a request, next to what the grammar of its dialect states.


def _roles(body: Json) -> list[str]:
    return [message["role"] for message in body["messages"]]


def _reasons_beside_calls(body: Json, key: str = "reasoning_content") -> None:
    if body.get("thinking") != {"type": "disabled"}:
        assert all(message.get(key) for message in body["messages"] if message.get("tool_calls"))


def deepseek(body: Json) -> None:
    _reasons_beside_calls(body)
    assert body.get("thinking", {}).get("type") in (None, "enabled", "disabled")
    assert "max_completion_tokens" not in body


def kimi(body: Json) -> None:
    _reasons_beside_calls(body)
    assert not {"max_tokens", "reasoning_effort"} & body.keys()
    assert body.get("temperature", 1) == 1


def glm(body: Json) -> None:
    assert body.get("tool_choice", "auto") == "auto"
    unknown = {"stream_options", "parallel_tool_calls", "user", "safety_identifier", "max_completion_tokens"}
    assert not unknown & body.keys()
    assert not any("strict" in tool["function"] for tool in body.get("tools", ()))
    assert len(body.get("stop", ())) <= 1
    assert body.get("temperature", 1) <= 1
    assert body.get("response_format", {}).get("type") != "json_schema"


def minimax(body: Json) -> None:
    assert body["reasoning_split"] is True
    assert body.get("temperature", 1) <= 1
    assert not any("reasoning_content" in message for message in body["messages"])


def template(body: Json) -> None:
    """One system message, and that the first."""
    assert "system" not in _roles(body)[1:]


def vllm(body: Json) -> None:
    template(body)
    assert not any("reasoning_content" in message for message in body["messages"])


def ollama(body: Json) -> None:
    assert "parallel_tool_calls" not in body
    assert not any("reasoning_content" in message for message in body["messages"])


def llama(body: Json) -> None:
    template(body)
    assert isinstance(body.get("tool_choice", "auto"), str)


def openrouter(body: Json) -> None:
    assert "reasoning_effort" not in body
    assert not any("reasoning_content" in message for message in body["messages"])
    assert not any("prompt_cache_breakpoint" in part for part in objects(body["messages"]))


def azure(body: Json) -> None:
    assert not {"max_tokens", "user"} & body.keys()
    assert "include_obfuscation" not in body.get("stream_options", {})


def qwen(body: Json) -> None:
    assert "thinking" not in body
    assert not any("prompt_cache_breakpoint" in part for part in objects(body["messages"]))


def gemini(body: Json) -> None:
    assert not any("reasoning_content" in message for message in body["messages"])
    assert body.get("reasoning_effort") in (None, "none", "low", "medium", "high")
    calls = [message["tool_calls"] for message in body["messages"] if message.get("tool_calls")]
    assert all(first["extra_content"]["google"]["thought_signature"] for first, *_ in calls)


def no_reasoning(body: Json) -> None:
    assert not any("reasoning_content" in message for message in body["messages"])


def litellm(body: Json) -> None:
    assert not any("prompt_cache_breakpoint" in part for part in objects(body["messages"]))


def text_only(body: Json) -> None:
    """DeepSeek takes texts, calls and results, and an effort next to the budget that it ignores."""
    assert not any(part.get("type") in ("image", "document") for part in objects(body["messages"]))
    assert body.get("thinking", {}).get("type") in (None, "enabled", "disabled")


def no_stops(body: Json) -> None:
    assert "stop_sequences" not in body


def anything(body: Json) -> None:
    assert body.get("messages") or body["input"]


def known_fields_only(body: Json) -> None:
    """Fields, blocks and options that go with a beta, or that are Claude Code's own (messages §12)."""
    assert not {"context_management", "safeguards", "betas", "diagnostics", "speed"} & body.keys()
    kinds = {part.get("type") for part in objects(body["messages"])}
    assert not kinds & {"tool_addition", "tool_removal", "tool_reference"}
    options = {"defer_loading", "eager_input_streaming", "input_examples", "allowed_callers"}
    assert not any(options & tool.keys() for tool in body.get("tools", ()))
    assert body.get("thinking", {}).get("display") != "updates"
    assert "{" not in body.get("metadata", {}).get("user_id", "")


def system_first(body: Json) -> None:
    known_fields_only(body)
    assert "system" not in _roles(body)


def responses(body: Json) -> None:
    assert body.get("reasoning", {}).get("effort") in (None, "none", "low", "high", "max")


def bedrock_responses(body: Json) -> None:
    """Reasoning goes back encrypted, and it is requested so."""
    assert all(item["encrypted_content"] for item in body["input"] if item.get("type") == "reasoning")
    effort = body.get("reasoning", {}).get("effort", "none")
    assert effort == "none" or "reasoning.encrypted_content" in body["include"]


def chatgpt(body: Json) -> None:
    assert not {"temperature", "top_p"} & body.keys()


RULES: dict[tuple[str, str], Callable[[Json], None]] = {
    ("chat", "deepseek"): deepseek,
    ("chat", "kimi"): kimi,
    ("chat", "glm"): glm,
    ("chat", "minimax"): minimax,
    ("chat", "qwen"): qwen,
    ("chat", "openrouter"): openrouter,
    ("chat", "gemini"): gemini,
    ("chat", "litellm"): litellm,
    ("chat", "vllm"): vllm,
    ("chat", "sglang"): template,
    ("chat", "llama.cpp"): llama,
    ("chat", "ollama"): ollama,
    ("chat", "copilot"): no_reasoning,
    ("chat", "azure"): azure,
    ("messages", "deepseek"): text_only,
    ("messages", "kimi"): system_first,
    ("messages", "glm"): anything,
    ("messages", "minimax"): no_stops,
    ("messages", "ollama"): anything,
    ("messages", "llama.cpp"): system_first,
    ("messages", "vllm"): system_first,
    ("messages", "amazon-bedrock"): anything,
    ("messages", "bedrock-invoke"): known_fields_only,
    ("messages", "vertex"): anything,
    ("messages", "copilot"): known_fields_only,
    ("messages", "azure"): anything,
    ("responses", "deepseek"): responses,
    ("responses", "amazon-bedrock"): bedrock_responses,
    ("responses", "azure"): lambda body: None,
    ("responses", "chatgpt"): chatgpt,
}


STRICT: dict[tuple[str, str], Host] = {(host.dialect.value, host.profile): host for host in HOSTS}
"""Hosts that check all of a request."""


def obeys(vendor: Vendor, body: Json) -> None:
    """Check a request by the rules of the vendor, and as its strict host does."""
    RULES.get((vendor.dialect, vendor.name), anything)(body)
    if (host := STRICT.get((vendor.dialect, vendor.name))) is not None:
        assert [*refused(host, body)] == []


@pytest.mark.few
@by_name
@pytest.mark.parametrize("recorded", RECORDED)
def test_a_recorded_request_is_what_the_vendor_takes(vendor: Vendor, recorded: str) -> None:
    translation, body = sent(vendor, recorded)
    if not translation.direction.passthrough or translation.rewritten:
        obeys(vendor, body)


DEMANDING: dict[str, Json] = {
    "claude-code_tool_2": {
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "stop_sequences": ["a", "b", "c", "d", "e"],
        "temperature": 1.0,
        "top_k": 5,
        "output_config": {"effort": "xhigh"},
    },
    "claude-code_tool_sonnet-4-5_2": {"tool_choice": {"type": "tool", "name": "Bash"}, "thinking": None},
    "opencode-chat_tool_3": {
        "tool_choice": {"type": "function", "function": {"name": "bash"}},
        "parallel_tool_calls": False,
        "stop": ["a", "b"],
        "temperature": 1.7,
        "reasoning_effort": "none",
        "user": "u",
    },
    "opencode-responses_effort_2": {"tool_choice": "required", "temperature": 1.5, "reasoning": {"effort": "medium"}},
}
"""Recorded requests that ask for more than their clients do."""


@pytest.mark.few
@by_name
@pytest.mark.parametrize("recorded", DEMANDING)
def test_a_demanding_request_is_what_the_vendor_takes(vendor: Vendor, recorded: str) -> None:
    translation, body = sent(vendor, recorded, **DEMANDING[recorded])
    if not translation.direction.passthrough or translation.rewritten:
        obeys(vendor, body)


@by_name
def test_a_profile_states_what_differs_and_where_it_is_stated(vendor: Vendor) -> None:
    base = BUILTIN_PROFILES[vendor.dialect, vendor.base]
    profile = BUILTIN_PROFILES[vendor.dialect, vendor.name]
    assert vendor.source
    assert vendor.base in ("compatible", VENDOR_PROFILES[vendor.dialect])
    for flag, spec in PROFILE_FIELDS.items():
        fact = vendor.facts.get(flag)
        differs = getattr(profile, flag) != getattr(base, flag)
        assert differs == (fact is not None), flag
        assert fact is None or fact.source
        assert value_problem(spec, getattr(profile, flag)) is None
    assert {*RULES, *STRICT} == {(known.dialect, known.name) for known in THIRD_PARTIES}


@pytest.mark.few
@by_name
def test_the_judge_of_a_vendor_is_the_package_of_its_types(vendor: Vendor) -> None:
    host = STRICT.get((vendor.dialect, vendor.name))
    package = host.types.partition(".")[0] if host is not None else ""
    own = packages_distributions()[package][0] if package not in ("", "anthropic", "openai") else ""
    # Clouds have clients in Anthropic's and OpenAI's own SDKs.
    clouds = {
        (cloud.host.dialect, cloud.host.profile): cloud.host.types.partition(".")[0] for cloud in CLOUDS if cloud.by_sdk
    }
    own = clouds.get((Dialect(vendor.dialect), vendor.name), own)
    assert own.replace("_", "-") == vendor.judge
