"""Group B with Responses on either side: signatures, runs of reasoning, and what must not leak into the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Direction, Knobs, LossCode, Profile, builtin_profile, direction, translate
from regressions.dialect_bodies import (
    RESPONSES,
    assistant_turn,
    conversation,
    every_direction,
    from_responses,
    new_directions,
    replied,
    to_responses,
)
from regressions.wire import (
    CHAT,
    DONE,
    MESSAGES,
    ROLE,
    answer,
    begin,
    block,
    calls,
    chunk,
    delta,
    end,
    events_of,
    more_call,
    start_call,
    stop,
    tool,
    whole,
)
from support import responses_frames as emitted
from support.directions import CROSS, Json, ask, judge, stream_through, translated
from support.responses_samples import numbered

CLAUDE = builtin_profile(MESSAGES).replace({"family": "claude"})
SIGNED = {"type": "thinking", "thinking": "Größer  than\n", "signature": "EqQBCkYIBxgCKkD/+=="}
WRAPPED: Json = {
    "type": "reasoning",
    "id": "rs_own1",
    "summary": [{"type": "summary_text", "text": "About  größer\n"}],
    "encrypted_content": "gAAAAABo/+=-_==",
}
REASONING, ANSWER, CALL = ("reasoning", "Hm"), ("text", "Yes"), ("call", "call_a", "read", '{"f":"a"}')


def through(row: Direction, profile: Profile | None, body: Json) -> Json:
    """Return what goes upstream for a body."""
    sent: Json = json.loads(translate(row, json.dumps(body).encode(), profile=profile).body)
    return sent


def signed_frames() -> list[bytes]:
    """A Claude turn: signed thinking, then a call."""
    frames = [begin(), block(0, type="thinking", thinking="", signature="")]
    frames += [delta(0, "thinking", "Größer "), delta(0, "thinking", " than\n"), delta(0, "signature", "EqQBCkYIBxg")]
    frames += [delta(0, "signature", "CKkD/+=="), stop(0), tool(1, "call_a", "read"), delta(1, "input_json", "{}")]
    return [*frames, stop(1), end("tool_use")]


def wrapped_frames() -> list[bytes]:
    """An OpenAI turn: a sealed item, then a call."""
    text, call = WRAPPED["summary"][0]["text"], emitted.call("call_a", "read")
    item = {**WRAPPED, "summary": [], "encrypted_content": "provisional"}
    return numbered(
        emitted.created(),
        emitted.added(0, **item),
        emitted.at(0, "reasoning_summary_part.added", summary_index=0, part={"type": "summary_text", "text": ""}),
        emitted.at(0, "reasoning_summary_text.delta", summary_index=0, delta=text),
        emitted.at(0, "reasoning_summary_text.done", summary_index=0, text=text),
        emitted.at(0, "reasoning_summary_part.done", summary_index=0, part=WRAPPED["summary"][0]),
        emitted.done(0, **WRAPPED),
        emitted.added(1, **call | {"arguments": "", "status": "in_progress"}),
        emitted.at(1, "function_call_arguments.delta", delta=call["arguments"]),
        emitted.done(1, **call),
        emitted.ended(WRAPPED, call),
    )


@pytest.mark.parametrize("streamed", [True, False])
def test_T10_a_signature_comes_back_to_claude_through_a_responses_client(streamed: bool) -> None:
    """ "Invalid signature in thinking block" on turn two (router-for-me/CLIProxyAPI#2172,
    lbjlaq/Antigravity-Manager#3478): not one byte of the block may change, whatever the client makes of the text."""
    row = direction(RESPONSES, MESSAGES)
    translation = translate(row, json.dumps(ask(RESPONSES)).encode(), profile=CLAUDE)
    block = SIGNED | ({} if streamed else {"novelty": [1.0, {"a": None}]})
    if streamed:
        out = stream_through(translation, signed_frames())
        judge(RESPONSES, out)
        output = events_of(out)[-1]["response"]["output"]
    else:
        content = [block, {"type": "tool_use", "id": "call_a", "name": "read", "input": {}}]
        reply = {**replied(MESSAGES), "content": content, "stop_reason": "tool_use"}
        output = json.loads(translation.reply(json.dumps(reply).encode()))["output"]
    assert "EqQBCk" not in json.dumps(output)
    trims: list[Json] = [{}, {"content": None}, {"content": [], "id": None}, {"content": None, "status": None}]
    for trimmed in trims:
        items = [output[0] | trimmed, output[1], {"type": "function_call_output", "call_id": "call_a", "output": "y"}]
        sent = through(row, CLAUDE, ask(RESPONSES, input=[{"role": "user", "content": "x"}, *items]))
        assert sent["messages"][1]["content"][0] == block
        assert json.dumps(sent["messages"][1]["content"][0]) == json.dumps(block)


@pytest.mark.parametrize("streamed", [True, False])
def test_T10_encrypted_content_comes_back_to_openai_through_a_messages_client(streamed: bool) -> None:
    """Likewise the other way round: Claude Code brings the item back that OpenAI sealed
    (router-for-me/CLIProxyAPI#2172)."""
    row = direction(MESSAGES, RESPONSES)
    translation = translate(row, json.dumps(ask(MESSAGES)).encode())
    if streamed:
        out = stream_through(translation, wrapped_frames())
        judge(MESSAGES, out)
        deltas = [p["delta"] for p in events_of(out) if p["type"] == "content_block_delta"]
        signature = "".join(d["signature"] for d in deltas if d["type"] == "signature_delta")
    else:
        reply = emitted.response("completed", [WRAPPED, emitted.call("call_a", "read")], usage=emitted.USAGE)
        signature = json.loads(translation.reply(json.dumps(reply).encode()))["content"][0]["signature"]
    assert "gAAAAAB" not in signature
    assert "provisional" not in signature
    for shown in ("About  größer\n", ""):
        thinking = {"type": "thinking", "thinking": shown, "signature": signature}
        use = {"type": "tool_use", "id": "call_a", "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "call_a", "content": "y"}
        turns = [{"role": "assistant", "content": [thinking, use]}, {"role": "user", "content": [result]}]
        sent = through(row, None, ask(MESSAGES, messages=[{"role": "user", "content": "x"}, *turns]))
        assert json.dumps(sent["input"][1]) == json.dumps(WRAPPED)
        assert sent["input"][2]["call_id"] == "call_a"


def test_T10_wrapped_items_pass_through_byte_by_byte() -> None:
    """The block was touched on its way though both sides use the same dialect (sifxprime/krouter#11)."""
    raw = json.dumps(
        {"model": "alias", "input": [WRAPPED | {"novelty": [1.0, 1e3]}], "store": False}, indent=1
    ).encode()
    row = direction(RESPONSES, RESPONSES)
    assert translate(row, raw).body == raw
    assert translate(row, raw, upstream_model="gpt-6").body == raw.replace(b'"alias"', b'"gpt-6"')
    stream = b"".join(wrapped_frames())
    machine = translate(row, raw).stream_machine()
    assert machine.feed(stream) + machine.finish() == stream


def test_T10_no_proof_is_ever_made_up_for_a_responses_client() -> None:
    """Every thinking block stamped with a constant signature (sifxprime/krouter#11)."""
    held, out = answer(RESPONSES, CHAT, *assistant_turn(CHAT, REASONING, ANSWER))
    assert held.reasoning == "Hm"
    assert b"encrypted_content" not in out
    assert "encrypted_content" not in json.dumps(whole(RESPONSES, CHAT, replied(CHAT, REASONING, ANSWER)))


@every_direction
def test_T12_reasoning_text_and_calls_are_three_blocks_in_their_order(client: str, upstream: str) -> None:
    """ "Content block is not a thinking block", `thinking_delta` inside a text block (BerriAI/litellm#32357,
    musistudio/claude-code-router#1397), or no reasoning at all (T-14, ggml-org/llama.cpp#18542)."""
    frames = assistant_turn(upstream, REASONING, ANSWER, CALL)
    out = stream_through(translated(direction(client, upstream)), frames)
    if client == upstream:
        assert out == b"".join(frames)
        return
    held = judge(client, out)
    assert held.blocks == [("reasoning", "Hm"), ("text", "Yes"), ("tool", '{"f":"a"}')]


@new_directions
def test_T12_a_second_run_of_reasoning_gets_an_item_of_its_own(client: str, upstream: str) -> None:
    """The second reasoning run in one turn goes to the wrong block (musistudio/claude-code-router#1725)."""
    stated = [("reasoning", "one"), ("text", "A"), ("reasoning", "two"), ("text", "B")]
    held, _ = answer(client, upstream, *assistant_turn(upstream, *stated))
    if client == CHAT:  # which has one field for each: paragraphs
        assert (held.reasoning, held.text) == ("one\n\ntwo", "A\n\nB")
    else:
        assert held.blocks == stated


def test_T12_reasoning_between_the_fragments_of_a_call_does_not_touch_them() -> None:
    """Reasoning and tool calls corrupt the argument deltas (musistudio/claude-code-router#1397)."""
    frames = [ROLE, chunk({"reasoning_content": "Hm"}), calls(start_call(0, "call_a", "read"))]
    frames += [calls(more_call(0, '{"f":')), chunk({"reasoning_content": "!"}), calls(more_call(0, '"a"}'))]
    held, _ = answer(RESPONSES, CHAT, *frames, chunk({}, "tool_calls"), DONE)
    assert [call.arguments for call in held.calls] == ['{"f":"a"}']
    assert held.reasoning == "Hm!"


def test_T12_reasoning_deltas_use_the_events_that_clients_read() -> None:
    """The delta used another field, and the client dropped the whole turn (nielspeter/claude-code-proxy#17)."""
    frames = assistant_turn(CHAT, REASONING, ANSWER)
    surface: Any
    for surface, kind in (("reasoning_text", "reasoning_text"), ("summary", "reasoning_summary_text")):
        translation = translated(direction(RESPONSES, CHAT), knobs=Knobs(reasoning_surface=surface))
        out = stream_through(translation, frames)
        assert judge(RESPONSES, out).reasoning == "Hm"
        deltas = [p["delta"] for p in events_of(out) if p["type"] == f"response.{kind}.delta"]
        assert "".join(deltas) == "Hm"


def test_T13_there_is_one_start_however_often_the_role_comes() -> None:
    """A duplicate `message_start`, or one repeated for ever (BerriAI/litellm#33224,
    LuthienResearch/luthien-proxy#59)."""
    held, out = answer(
        RESPONSES, CHAT, ROLE, ROLE, chunk({"role": "assistant", "content": "A"}), chunk({}, "stop"), DONE
    )
    assert held.text == "A"
    assert out.count(b"event: response.created") == out.count(b"event: response.in_progress") == 1


@from_responses
def test_T13_a_repeated_created_ends_the_stream_and_in_progress_does_not(client: str) -> None:
    """The loop must not go on on our side (LuthienResearch/luthien-proxy#59)."""
    held, _ = answer(client, RESPONSES, *numbered(*[emitted.created()] * 5))
    assert held.error is not None
    again = {"type": "response.in_progress", "response": emitted.response()}
    held, out = answer(
        client, RESPONSES, *numbered(emitted.created(), again, again), *assistant_turn(RESPONSES, ANSWER)[1:]
    )
    assert (held.text, held.error) == ("Yes", None)
    assert out.count(b'"role":"assistant"') == 1


@from_responses
def test_T14_a_summary_never_leaks_into_the_answer_and_is_reported_once(client: str) -> None:
    """A reasoning summary leaks into the answer, deltas doubled; HTTP 200 so dashboards stay green
    (diegosouzapw/OmniRoute#5786)."""
    item = emitted.reasoned("the thoughts", summary=("in short",))
    frames = [emitted.created(), emitted.added(0, **item | {"content": [], "summary": []})]
    frames += [emitted.at(0, "reasoning_summary_text.delta", summary_index=0, delta="in short")]
    frames += [emitted.at(0, "reasoning_summary_text.done", summary_index=0, text="in short")]
    frames += [emitted.at(0, "reasoning_text.delta", delta="the thoughts"), emitted.done(0, **item)]
    frames += [*emitted.opens(1), *emitted.writes(1, "Yes"), *emitted.closes(1, "Yes")]
    message = emitted.message(emitted.text_part("Yes"))
    held, _ = answer(client, RESPONSES, *numbered(*frames, emitted.ended(item, message)))
    assert held.blocks == [("reasoning", "in short"), ("text", "Yes")]
    got = whole(client, RESPONSES, emitted.response("completed", [item, message], usage=emitted.USAGE))
    wire = json.dumps(got)
    assert (wire.count("the thoughts"), wire.count("in short"), wire.count("Yes")) == (1, 0, 1)
    stated = got["choices"][0]["message"]["content"] if client == CHAT else got["content"][-1]["text"]
    assert stated == "Yes"


@to_responses
@pytest.mark.parametrize("surface", ["reasoning_text", "summary"])
def test_T14_reasoning_is_no_part_of_a_message_item(upstream: str, surface: Any) -> None:
    """Likewise towards Responses clients, streamed and whole (diegosouzapw/OmniRoute#5786,
    ggml-org/llama.cpp#18542)."""
    knobs = Knobs(reasoning_surface=surface)
    translation = translated(direction(RESPONSES, upstream), knobs=knobs)
    streamed = events_of(stream_through(translation, assistant_turn(upstream, REASONING, ANSWER)))[-1]["response"][
        "output"
    ]
    row = translated(direction(RESPONSES, upstream), knobs=knobs)
    given = json.loads(row.reply(json.dumps(replied(upstream, REASONING, ANSWER)).encode()))["output"]
    for reasoned, message in (streamed, given):
        place = reasoned["summary"] if surface == "summary" else reasoned["content"]
        assert [part["text"] for part in place] == ["Hm"]
        assert json.dumps(reasoned).count("Hm") == 1 or "dgm1." in json.dumps(reasoned)
        assert [part["text"] for part in message["content"]] == ["Yes"]


@from_responses
@pytest.mark.parametrize(
    "reasoned", [emitted.reasoned("Hm"), emitted.reasoned(summary=("Hm",))], ids=["text", "summary"]
)
def test_T14_reasoning_of_a_responses_upstream_is_returned_in_whole_replies(client: str, reasoned: Json) -> None:
    """The endpoint stopped returning reasoning (ggml-org/llama.cpp#18542)."""
    items = [reasoned, emitted.message(emitted.text_part("Yes"))]
    got = whole(client, RESPONSES, emitted.response("completed", items, usage=emitted.USAGE))
    if client == MESSAGES:
        assert [part["type"] for part in got["content"]] == ["thinking", "text"]
        assert got["content"][0]["thinking"] == "Hm"
    else:
        assert got["choices"][0]["message"]["reasoning_content"] == "Hm"
        assert got["choices"][0]["message"]["content"] == "Yes"


@pytest.mark.parametrize("texts", [1, 2])
@pytest.mark.parametrize("row", CROSS, ids=str)
def test_T14_reasoning_in_a_history_is_never_sent_as_an_answer(row: Direction, texts: int) -> None:
    """Reasoning in the history teaches the model to answer so (diegosouzapw/OmniRoute#5786), be the turn a plain one
    or one of several texts."""
    client = row.client.dialect
    body = ask(client, **conversation(client, "x", [REASONING, ANSWER], "y"))
    if texts == 2:
        stated = body["input"][2] if client == RESPONSES else body["messages"][1]
        text = {"type": "output_text" if client == RESPONSES else "text", "text": "Yes"}
        stated["content"] = [text] * texts if client != MESSAGES else [*stated["content"], text]
    translation = translate(row, json.dumps(body).encode())
    assert "Hm" not in translation.body.decode()
    assert translation.body.count(b"Yes") == texts
    assert translation.losses.counts in ({LossCode.REASONING_UNSIGNED: 1}, {LossCode.REASONING_FOREIGN: 1})
