from __future__ import annotations

from typing import Any

import pytest

from dragoman import Knobs
from dragoman.errors import Unsupported
from dragoman.wire.json_codec import dumps
from support.generate import GEMINI, send

Json = dict[str, Any]
ASK: Json = {"messages": [{"role": "user", "content": "Hi"}]}
SCHEMA: Json = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}


def chat(profile: Any = GEMINI, knobs: Any = None, **fields: Any) -> Any:
    return send("chat", {**ASK, **fields}, profile, knobs or Knobs())


def test_the_least_request() -> None:
    assert chat().body == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


def test_settings() -> None:
    sent = chat(
        max_completion_tokens=9, temperature=0.5, top_p=0.9, stop=["a", "b"], seed=7, logprobs=True, top_logprobs=2
    )
    assert sent.config == {
        "maxOutputTokens": 9,
        "temperature": 0.5,
        "topP": 0.9,
        "seed": 7,
        "stopSequences": ["a", "b"],
        "responseLogprobs": True,
        "logprobs": 2,
    }
    assert sent.codes == []
    assert send("messages", {**ASK, "top_k": 5}).config["topK"] == 5


def test_settings_that_the_upstream_does_not_take() -> None:
    assert chat(frequency_penalty=0.5, logit_bias={"1": 2}).codes == ["sampling_unsupported"] * 2
    fixed = GEMINI.replace({"sampling": "default_only"})
    assert chat(fixed, temperature=1, top_p=0.5, seed=1).config == {"temperature": 1}
    assert send("messages", {**ASK, "top_k": 5}, fixed).codes == ["top_k"]
    hot = chat(GEMINI.replace({"max_temperature": 1.0, "max_output_tokens": 5}), temperature=1.5, max_tokens=9)
    assert hot.config == {"maxOutputTokens": 5, "temperature": 1.0}
    assert sorted(hot.codes) == ["cap_clamped", "temperature_clamped"]
    with pytest.raises(Unsupported, match="max_tokens"):
        send("messages", {**ASK, "max_tokens": 0})


def test_stop_sequences_beyond_the_limit() -> None:
    stops = list("abcd")
    few = GEMINI.replace({"stop_limit": 3})
    assert chat(few, stop=stops).config["stopSequences"] == stops[:3]
    assert chat(few, stop=stops).codes == []  # emulated
    assert chat(few, Knobs(stop_emulation="off"), stop=stops).codes == ["stop_dropped"]


def test_an_output_format() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}
    assert chat(response_format=form).config == {"responseJsonSchema": SCHEMA, "responseMimeType": "application/json"}
    assert chat(response_format={"type": "json_object"}).config == {"responseMimeType": "application/json"}
    with pytest.raises(Unsupported, match="response_format"):
        chat(GEMINI.replace({"structured_output": False}), response_format=form)


def test_the_service_tier() -> None:
    assert chat(service_tier="flex").body["serviceTier"] == "flex"
    assert "serviceTier" not in chat(service_tier="default").body
    assert chat(service_tier="scale").codes == ["service_tier"]
    assert chat(GEMINI.replace({"service_tiers": ()}), service_tier="flex").codes == ["service_tier"]


def test_fields_without_a_place() -> None:
    sent = chat(
        metadata={"a": "b"}, verbosity="low", user="u", store=True, moderation={"model": "m"}, prompt_cache_key="k"
    )
    assert sorted(sent.codes) == ["metadata", "metadata", "moderation", "verbosity"]
    assert list(sent.body) == ["contents"]
    assert send("messages", {**ASK, "cache_control": {"type": "ephemeral"}}).codes == ["cache_hint"]
    assert [loss.path for loss in chat(user="u", safety_identifier="s").losses] == ["user", "safety_identifier"]
    assert [loss.path for loss in send("messages", {**ASK, "metadata": {"user_id": "u"}}).losses] == [
        "metadata.user_id"
    ]
    with pytest.raises(Unsupported, match="moderation"):
        chat(moderation={"mode": "block"})


def test_several_choices_are_refused() -> None:
    with pytest.raises(Unsupported, match="n"):
        chat(n=2)


def test_losses_can_be_refused() -> None:
    with pytest.raises(Unsupported, match="verbosity"):
        send("chat", {**ASK, "verbosity": "low"}, strict=True)


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_equal_requests_are_equal_bytes(client: str) -> None:
    first, second = (send(client, dict(ASK)).body for _ in range(2))
    assert dumps(first) == dumps(second)
