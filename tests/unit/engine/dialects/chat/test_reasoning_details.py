"""Typed, signed reasoning of a Chat upstream (OpenRouter) through clients of other dialects and home again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import LossCode, Profile, builtin_profile, direction, translate
from dragoman.dialects.chat.reasoning_details import ReasoningDetails
from dragoman.losses import Losses
from dragoman.reasoning.envelope import Envelope, unwrap
from dragoman.wire.json_codec import dumps

Json = dict[str, Any]
ROUTER = builtin_profile("chat", "openrouter").replace({"family": "router"})
CLAUDE = "anthropic-claude-v1"
SIGNED: Json = {"type": "reasoning.text", "text": "Größer 👋", "format": CLAUDE, "index": 0, "signature": "Eq=="}
HIDDEN: Json = {
    "type": "reasoning.encrypted",
    "data": "gAAA",
    "id": "rs_1",
    "format": "openai-responses-v1",
    "index": 1,
}
SUMMARY: Json = {"type": "reasoning.summary", "summary": "**Plan**", "format": "openai-responses-v1", "index": 0}
CALL: Json = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def piece(**fields: Any) -> Json:
    return {"type": "reasoning.text", "format": CLAUDE, "index": 0, **fields}


FRAGMENTS: list[Json] = [
    {"reasoning": "Größer ", "reasoning_details": [piece(text="Größer ")], "content": ""},
    {"reasoning": "👋", "reasoning_details": [piece(text="👋")], "content": ""},
    {"content": "", "reasoning_details": [piece(signature="Eq==")]},
    {"content": "", "reasoning_details": [piece(text="")]},
    {"content": "", "reasoning_details": [HIDDEN]},
    {"content": "Yes"},
    {"tool_calls": [{"index": 0, **CALL}]},
]
"""SIGNED and HIDDEN, a text and a call, as OpenRouter streams them."""
TOOL: Json = {"name": "look", "input_schema": {"type": "object", "properties": {}}}


def ask(client: str, *, stream: bool, profile: Profile = ROUTER) -> Any:
    if client == "messages":
        body: Json = {"max_tokens": 5, "messages": [{"role": "user", "content": "x"}], "tools": [TOOL]}
    else:
        body = {"input": "x", "tools": [{"type": "function", "name": "look", "parameters": TOOL["input_schema"]}]}
    return translate(direction(client, "chat"), dumps({"model": "m", "stream": stream, **body}), profile=profile)


def whole(client: str, message: Json, profile: Profile = ROUTER) -> tuple[list[Json], Losses]:
    """The content or the output of a whole reply."""
    translation = ask(client, stream=False, profile=profile)
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": "stop"}
    reply = json.loads(translation.reply(dumps({"id": "1", "model": "m", "choices": [choice]})))
    return reply["content" if client == "messages" else "output"], translation.losses


def streamed(
    client: str, deltas: list[Json], reason: str = "tool_calls", *, size: int = 0
) -> tuple[list[Json], Losses]:
    """The output that a client accumulates from a stream that arrives in pieces of `size` bytes."""
    translation = ask(client, stream=True)
    chunks: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    chunks.append({"index": 0, "delta": {}, "finish_reason": reason})
    sent = b"".join(b"data: " + dumps({"id": "1", "model": "m", "choices": [c]}) + b"\n\n" for c in chunks)
    sent += b"data: [DONE]\n\n"
    machine = translation.stream_machine()
    out = b"".join(machine.feed(sent[at : at + (size or len(sent))]) for at in range(0, len(sent), size or len(sent)))
    out += machine.finish()
    events = [json.loads(line[6:]) for line in out.decode().splitlines() if line.startswith("data: ")]
    if client == "responses":
        return events[-1]["response"]["output"], translation.losses
    content: list[Json] = []
    for event in events:
        if event["type"] == "content_block_start":
            content.append(event["content_block"])
        for key in ("text", "thinking", "signature"):
            if key in event.get("delta", {}):
                content[event["index"]][key] += event["delta"][key]
    return content, translation.losses


def again(client: str, output: list[Json], profile: Profile = ROUTER) -> tuple[list[Json], Losses]:
    """The assistant messages that a client's next request becomes."""
    if client == "messages":
        turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": output}]
        calls = [block["id"] for block in output if block["type"] == "tool_use"]
        results: Any = [{"type": "tool_result", "tool_use_id": call, "content": "y"} for call in calls]
        body: Json = {"max_tokens": 5, "messages": [*turns, {"role": "user", "content": results or "and"}]}
    else:
        calls = [item["call_id"] for item in output if item["type"] == "function_call"]
        outputs = [{"type": "function_call_output", "call_id": call, "output": "y"} for call in calls]
        body = {"input": [{"role": "user", "content": "x"}, *output, *outputs, {"role": "user", "content": "and"}]}
    translation = translate(direction(client, "chat"), dumps({"model": "m", **body}), profile=profile)
    sent = json.loads(translation.body)["messages"]
    return [message for message in sent if message["role"] == "assistant"], translation.losses


def kept(output: list[Json]) -> list[Any]:
    """The blocks in the envelopes."""
    proofs = [block.get("signature") or block.get("encrypted_content") for block in output]
    opened = [unwrap(proof) for proof in proofs if proof]
    assert all(envelope is not None and envelope.family == "router" for envelope in opened)
    return [envelope.block for envelope in opened if envelope is not None]


@pytest.mark.parametrize("client", ["messages", "responses"])
@pytest.mark.parametrize("how", ["whole", "streamed", "byte by byte"])
def test_typed_reasoning_goes_home_as_it_came(client: str, how: str) -> None:
    if how == "whole":
        proved: Json = {"reasoning": "Größer 👋", "reasoning_details": [SIGNED, HIDDEN]}
        output, losses = whole(client, {**proved, "content": "Yes", "tool_calls": [CALL]})
    else:
        output, losses = streamed(client, FRAGMENTS, size=1 if how == "byte by byte" else 0)
    assert not set(losses.counts) - {LossCode.FINISH_FIXED, LossCode.USAGE_ESTIMATED}
    assert kept(output) == [{"reasoning_details": [SIGNED, HIDDEN]}]
    assert [block["type"] for block in output] == (
        ["thinking", "text", "tool_use"] if client == "messages" else ["reasoning", "message", "function_call"]
    )
    [message], losses = again(client, output)
    assert message["reasoning_details"] == [SIGNED, HIDDEN]
    assert "reasoning" not in message
    assert (message["content"], len(message["tool_calls"])) == ("Yes", 1)
    assert not losses.counts


def test_the_client_may_trim_the_text() -> None:
    output, _ = whole("messages", {"reasoning_details": [SIGNED], "content": "Yes"})
    output[0]["thinking"] = ""
    assert again("messages", output)[0][0]["reasoning_details"] == [SIGNED]


@pytest.mark.parametrize("client", ["messages", "responses"])
def test_a_proof_without_words_and_one_behind_a_call_go_home_too(client: str) -> None:
    """Hidden reasoning has no text, and Gemini signs its calls, after their text."""
    behind = {**HIDDEN, "id": "c1", "format": "google-gemini-v1"}
    deltas: list[Json] = [
        {"reasoning_details": [{**SUMMARY, "summary": "**Pl"}]},
        {"reasoning_details": [{**SUMMARY, "summary": "an**"}]},
        {"content": "Yes"},
        {"tool_calls": [{"index": 0, **CALL}], "reasoning_details": [behind]},
    ]
    output, _ = streamed(client, deltas)
    assert kept(output) == [{"reasoning_details": [SUMMARY]}, {"reasoning_details": [behind]}]
    [message], losses = again(client, output)
    assert message["reasoning_details"] == [SUMMARY, behind]
    assert not losses.counts


@pytest.mark.parametrize("size", [0, 1, 400])
def test_frames_that_differ_in_the_text_of_a_piece_only_are_kept_each(size: int) -> None:
    words = [f"word {number} " for number in range(40)]
    output, _ = streamed("messages", [{"reasoning_details": [piece(text=word)]} for word in words], "stop", size=size)
    assert (output[0]["thinking"], len(output)) == ("".join(words), 1)
    assert kept(output) == [{"reasoning_details": [piece(text="".join(words))]}]


def test_plain_reasoning_of_the_same_upstream_stays_plain() -> None:
    output, _ = streamed("messages", [{"reasoning": "Hm"}, {"content": "Yes"}], "stop")
    assert kept(output) == [{"reasoning_content": "Hm"}]
    [message], _ = again("messages", output)
    assert (message["reasoning"], "reasoning_details" in message) == ("Hm", False)


@pytest.mark.parametrize(
    "profile",
    [ROUTER.replace({"family": "another"}), ROUTER.replace({"reasoning_details": False})],
    ids=["another-family", "no-details"],
)
def test_no_other_upstream_gets_them(profile: Profile) -> None:
    output, _ = whole("messages", {"reasoning_details": [SIGNED, HIDDEN], "content": "Yes"})
    [message], losses = again("messages", output, profile)
    assert message == {"role": "assistant", "content": "Yes"}
    assert losses.rows == [(LossCode.REASONING_FOREIGN, "messages[1].content[0]", "dropped")]


def test_an_upstream_that_does_not_want_them_back_loses_them_on_the_way_out() -> None:
    plain = ROUTER.replace({"reasoning_details": False})
    output, losses = whole("messages", {"reasoning_details": [SIGNED, HIDDEN], "content": "Yes"}, plain)
    assert kept(output) == [{"reasoning_content": "Größer 👋"}]
    assert {LossCode.REASONING_SIGNATURE, LossCode.REASONING_ENCRYPTED} <= losses.counts.keys()


def test_a_text_of_claudes_that_was_cut_before_its_signature_stays_behind() -> None:
    """OpenRouterTeam/ai-sdk-provider#423: Anthropic refuses it, and another model's has no signature."""
    unsigned = {key: value for key, value in SIGNED.items() if key != "signature"}
    gemini = {**unsigned, "format": "google-gemini-v1", "index": 1}
    output, _ = whole("messages", {"reasoning_details": [unsigned, gemini], "content": "Yes"})
    [message], losses = again("messages", output)
    assert message["reasoning_details"] == [gemini]
    assert losses.rows == [(LossCode.REASONING_UNSIGNED, "messages[1].content[0]", "dropped")]


@pytest.mark.parametrize("block", [{"reasoning_details": "x"}, {"reasoning_details": [1]}, {"reasoning_details": [{}]}])
def test_what_no_reader_puts_into_an_envelope_does_not_come_out(block: Json) -> None:
    output: list[Json] = [
        {"type": "thinking", "thinking": "Hm", "signature": Envelope("router", "m").wrap("chat", block)}
    ]
    [message], losses = again("messages", [*output, {"type": "text", "text": "Yes"}])
    assert "reasoning_details" not in message
    assert losses.counts == {LossCode.REASONING_FOREIGN: 1}


@pytest.mark.parametrize(
    ("fragments", "pieces"),
    [
        ([SIGNED, HIDDEN, HIDDEN], [SIGNED, {**HIDDEN, "data": "gAAAgAAA"}]),
        ([{**HIDDEN, "id": "a"}, {**HIDDEN, "id": "b"}], [{**HIDDEN, "id": "a"}, {**HIDDEN, "id": "b"}]),
        ([piece(text="a", id=None), piece(text="b", id="x")], [piece(text="ab", id="x")]),
        ([piece(text="a"), piece(text="b", index=1)], [piece(text="a"), piece(text="b", index=1)]),
        ([{"type": "reasoning.text", "text": "a"}] * 2, [{"type": "reasoning.text", "text": "a"}] * 2),
        ([piece(text="a"), piece(text=None, signature="s")], [piece(text="a", signature="s")]),
    ],
)
def test_fragments_of_one_index_add_up_to_a_piece(fragments: list[Json], pieces: list[Json]) -> None:
    details = ReasoningDetails()
    for fragment in fragments:
        details.add(fragment)
    assert details.complete() == pieces
