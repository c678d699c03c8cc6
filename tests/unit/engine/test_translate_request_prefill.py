"""A conversation that ends with the assistant: continued by models that do, quoted for those that refuse it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.dialects.directions import direction
from dragoman.errors import ClientRequestError
from dragoman.knobs import Knobs
from dragoman.profiles.profile import builtin_profile
from dragoman.translate_request import translate

CLIENTS = ("chat", "messages", "responses")
OBSERVED = "Thought: look it up\nAction: search\nObservation: 42 "
TAKES = ("claude-haiku-4-5", "claude-3-5-sonnet-20241022", "anthropic/claude-sonnet-4.5", "claude-opus-4-1@20250805")
REFUSES = ("claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-5-5", "claude-fable-5", "claude-sonnet-4.6", "other")


def body(client: str, *turns: tuple[str, Any], **fields: Any) -> dict[str, Any]:
    stated = [{"role": role, "content": content} for role, content in turns]
    if client == "responses":
        return {"model": "m", "input": stated, "max_output_tokens": 16, **fields}
    return {"model": "m", "messages": stated, "max_tokens": 16, **fields}


def sent(client: str, model: str, *turns: tuple[str, Any], profile: str = "anthropic", **fields: Any) -> Any:
    row = direction(Dialect(client), Dialect.MESSAGES)
    chosen = builtin_profile("messages", profile).replace({"rewrite": True})
    knobs = Knobs(**fields.pop("knobs", {}))
    payload = json.dumps(body(client, *turns, **fields)).encode()
    made = translate(row, payload, profile=chosen, knobs=knobs, upstream_model=model)
    return json.loads(made.body), made.losses


@pytest.mark.parametrize("model", TAKES)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_model_that_takes_it_continues_it(client: str, model: str) -> None:
    got, losses = sent(client, model, ("user", "go"), ("assistant", OBSERVED))
    assert json.dumps(got["messages"][-1]).count("Observation: 42") == 1
    assert got["messages"][-1]["role"] == "assistant"
    assert losses.counts == {"blank_cut": 1}  # the API rejects white space at its end


@pytest.mark.parametrize("model", REFUSES)
@pytest.mark.parametrize("client", CLIENTS)
def test_others_get_it_as_a_quotation(client: str, model: str) -> None:
    got, losses = sent(client, model, ("user", "go"), ("assistant", OBSERVED))
    (message,) = got["messages"]
    assert message["role"] == "user"
    assert message["content"][0] == {"type": "text", "text": "go"}
    assert OBSERVED in message["content"][1]["text"]
    assert losses.counts == {"continuation": 1}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_compatible_server_gets_it_as_a_quotation(client: str) -> None:
    got, losses = sent(client, "claude-haiku-4-5", ("user", "go"), ("assistant", OBSERVED), profile="compatible")
    assert [message["role"] for message in got["messages"]] == ["user"]
    assert losses.counts == {"continuation": 1}


def test_a_model_that_thinks_continues_nothing() -> None:
    turns = (("user", "go"), ("assistant", OBSERVED))
    got, losses = sent("chat", "claude-haiku-4-5", *turns, reasoning_effort="high")
    assert [message["role"] for message in got["messages"]] == ["user"]
    assert losses.counts["continuation"] == 1
    got, _ = sent("chat", "claude-haiku-4-5", *turns, reasoning_effort="none")
    assert got["messages"][-1]["role"] == "assistant"


def test_texts_of_several_turns_are_quoted_together() -> None:
    got, _ = sent("chat", "other", ("user", "go"), ("assistant", "one "), ("assistant", "two"))
    (message,) = got["messages"]
    assert "one two" in message["content"][-1]["text"]


def test_a_conversation_of_the_assistants_alone() -> None:
    got, _ = sent("chat", "other", ("assistant", "one"))
    (message,) = got["messages"]
    assert message["role"] == "user"
    assert "one" in message["content"][0]["text"]


def test_results_stay_first() -> None:
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "ok"}
    turns = (("user", "go"), ("assistant", [call]), ("user", [result]), ("assistant", "so"))
    got, _ = sent("messages", "other", *turns)
    assert [block["type"] for block in got["messages"][-1]["content"]] == ["tool_result", "text"]


def test_an_instruction_between_stays_last() -> None:
    turns = (("user", "go"), ("system", "be brief"), ("assistant", "so"))
    got, _ = sent("chat", "claude-opus-5-5", *turns)
    assert [message["role"] for message in got["messages"]] == ["user", "system"]
    assert "so" in got["messages"][0]["content"][-1]["text"]


@pytest.mark.parametrize(("knob", "roles"), [("drop", ["user"]), ("pass", ["user", "assistant"])])
def test_the_knob_decides_for_every_model(knob: str, roles: list[str]) -> None:
    for model in ("claude-haiku-4-5", "other"):
        got, _ = sent("chat", model, ("user", "go"), ("assistant", "so"), knobs={"prefill": knob})
        assert [message["role"] for message in got["messages"]] == roles


def test_the_knob_rejects_it() -> None:
    with pytest.raises(ClientRequestError):
        sent("chat", "claude-haiku-4-5", ("user", "go"), ("assistant", "so"), knobs={"prefill": "reject"})
    with pytest.raises(ClientRequestError):
        sent("chat", "other", ("user", "go"), ("assistant", "so"), knobs={"on_loss": "reject"})
