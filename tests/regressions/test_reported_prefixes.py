"""Group I: what a prompt cache lives on. A later request must begin with the bytes of the one before."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from dragoman import Direction, builtin_profile, direction, translate
from dragoman.gateway import ReplyOptions
from regressions.dialect_bodies import conversation, offered
from regressions.live import EVERY
from support.directions import CROSS, Json, ask

BREAKPOINT = ',"prompt_cache_breakpoint":{"mode":"explicit"}'
MARK: Json = {"type": "ephemeral"}
BILLING = "x-anthropic-billing-header: cc_version=2.1.329.{}; cc_entrypoint=sdk-cli; cch={:05x};"
from_messages = pytest.mark.parametrize("row", [row for row in CROSS if row.client.dialect == "messages"], ids=str)
across = pytest.mark.parametrize("row", CROSS, ids=str)


def _history(row: Direction, body: bytes) -> str:
    """The history as it is on the wire, without the bracket that ends it."""
    key = f'"{row.upstream.dialect.facts.conversation}":'.encode()
    text = body[body.index(key) :].decode()
    _, end = json.JSONDecoder().raw_decode(text[len(key) :])
    return text[: len(key) + end - 1]


def _marked(turns: int) -> Json:
    """Return what Claude Code sends: the marks stand on the instructions, and on the last two turns of the user's."""
    messages: list[Json] = []
    for turn in range(turns):
        messages.append({"role": "user", "content": [{"type": "text", "text": f"Step {turn}"}]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"Done {turn}"}]})
    messages.append({"role": "user", "content": [{"type": "text", "text": "And now?"}]})
    for message in messages[-3::2]:
        message["content"][-1]["cache_control"] = MARK
    system = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "And kind.", "cache_control": MARK}]
    return {"system": system, "messages": messages}


def _growing(row: Direction, profile: str | None) -> list[str]:
    """The history after each of seven turns, under whichever marks it has then."""
    histories = []
    for turns in range(1, 8):
        fields = _marked(turns)
        fields["messages"][-1]["content"][-1]["text"] = f"Step {turns}"
        raw = json.dumps(ask("messages", **fields)).encode()
        histories.append(
            _history(row, translate(row, raw, profile=builtin_profile(row.upstream.dialect, profile)).body)
        )
    return histories


@from_messages
@pytest.mark.parametrize("profile", [None, "compatible"])
def test_T80_the_billing_line_is_gone_before_it_can_break_a_prefix(row: Direction, profile: str | None) -> None:
    """Claude Code's billing line, new with each request, stands at the head of the system prompt: nothing behind it is
    ever found in a cache (1rgs/claude-code-proxy#99, CaddyGlow/ccproxy-api#61). vLLM's own endpoint drops it too."""
    sent = set()
    for turn in range(3):
        fields = _marked(2)
        fields["system"].insert(0, {"type": "text", "text": BILLING.format(turn, turn * 77)})
        raw = json.dumps(ask("messages", **fields)).encode()
        sent.add(
            translate(
                row,
                raw,
                profile=builtin_profile(row.upstream.dialect, profile),
                options=ReplyOptions(request_id=f"r{turn}"),
            ).body
        )
    (body,) = sent
    assert b"billing" not in body
    assert b"Be brief." in body


@pytest.mark.parametrize("profile", ["compatible", "vllm"])
def test_T80_a_local_model_with_claudes_own_endpoint_is_spared_as_well(profile: str) -> None:
    """50 s a turn against 3.65 s without it on a local model (waybarrios/vllm-mlx#277): in passthrough, where all else
    stays as it was, the line goes as well; Anthropic gets it."""
    fields = {"system": [{"type": "text", "text": BILLING.format(1, 2)}, {"type": "text", "text": "Be brief."}]}
    raw = json.dumps(ask("messages", **fields)).encode()
    row = direction("messages", "messages")
    sent = json.loads(translate(row, raw, profile=builtin_profile("messages", profile)).body)
    assert sent == {**json.loads(raw), "system": fields["system"][1:]}
    assert translate(row, raw, profile=builtin_profile("messages", "anthropic")).body == raw


@from_messages
def test_T81_rolling_marks_leave_the_prefix_as_it_is(row: Direction) -> None:
    """Rolling `cache_control` marks make the prefix differ (sgl-project/sglang#36877): a block that has lost its mark,
    or has one more, is the same bytes to a server that knows no marks."""
    for before, after in itertools.pairwise(_growing(row, "compatible")):
        assert after.startswith(before)


@pytest.mark.parametrize("row", [row for row in CROSS if row.client.dialect == "messages"][:2], ids=str)
def test_T81_where_marks_are_known_nothing_but_the_marks_moves(row: Direction) -> None:
    """OpenAI takes breakpoints of its own (sgl-project/sglang#36877): next to them the prefix is the same bytes, so a
    text that loses its mark does not become another shape."""
    histories = _growing(row, None)
    assert all(history.count(BREAKPOINT) == 3 for history in histories[1:])
    for before, after in itertools.pairwise(history.replace(BREAKPOINT, "") for history in histories):
        assert after.startswith(before)


@from_messages
@pytest.mark.parametrize("profile", [None, "compatible"])
def test_T81_a_result_keeps_its_shape_when_its_mark_moves_on(row: Direction, profile: str | None) -> None:
    """Likewise for a tool's result and of an instruction (sgl-project/sglang#36877): Claude Code sends them as an array
    of blocks, or under a mark, while they are the newest, and as a bare string from then on."""
    histories = []
    for turns in range(1, 5):
        messages: list[Json] = [{"role": "user", "content": "Go"}]
        for turn in range(turns):
            use = {"type": "tool_use", "id": f"toolu_{turn}", "name": "look", "input": {}}
            result: Json = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": f"seen {turn}"}
            messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
            if turn % 2:
                messages.append({"role": "system", "content": f"note {turn}"})
            elif turn == turns - 1:
                result["cache_control"] = MARK
        if messages[-1]["role"] == "system":
            messages[-1]["content"] = [{"type": "text", "text": messages[-1]["content"], "cache_control": MARK}]
        raw = json.dumps(ask("messages", messages=messages, tools=offered("messages", "look"))).encode()
        sent = translate(row, raw, profile=builtin_profile(row.upstream.dialect, profile)).body
        histories.append(_history(row, sent).replace(BREAKPOINT, ""))
    for before, after in itertools.pairwise(histories):
        assert after.startswith(before)


def _turns(client: str, count: int) -> list[Any]:
    turns: list[Any] = ["Look around"]
    for number in range(count):
        turns += [[("text", f"Looking {number}"), ("call", f"call_{number}", "look", '{"at": 1}')]]
        turns += [("result", f"call_{number}", f"seen {number}")]
    return turns


@across
def test_T81_the_same_request_is_the_same_bytes_whenever_it_is_sent(row: Direction) -> None:
    """A fresh `prompt_cache_key` with each request (CaddyGlow/ccproxy-api#61), or any other thing of the moment: two
    requests at other times and with other ids are equal, and a key that the client did not give is not made up."""
    client = row.client.dialect
    fields = {**conversation(client, *_turns(client, 3)), "tools": offered(client, "look")}
    body = json.dumps(ask(client, **fields)).encode()
    first = translate(row, body, options=ReplyOptions(created=1, request_id="req_1")).body
    second = translate(row, body, options=ReplyOptions(created=2_000_000_000, request_id="req_2")).body
    assert first == second
    assert b"prompt_cache_key" not in first


@across
def test_T81_every_turn_begins_with_the_bytes_of_the_one_before(row: Direction) -> None:
    """Likewise for a growing conversation (sgl-project/sglang#36877): instructions and tools as they were, the history
    longer and nothing else."""
    client = row.client.dialect
    before, fixed = "", set()
    for count in range(6):
        fields = {**conversation(client, *_turns(client, count)), "tools": offered(client, "look", "list")}
        body = translate(
            row, json.dumps(ask(client, **fields)).encode(), options=ReplyOptions(request_id=f"req_{count}")
        ).body
        history = _history(row, body)
        assert history.startswith(before), f"turn {count}"
        before = history
        fixed.add(body.replace(history.encode(), b""))
    assert len(fixed) == 1


@pytest.mark.parametrize(("client", "upstream"), [("chat", "responses"), ("responses", "chat")])
def test_T81_the_clients_own_key_stays_its_own(client: str, upstream: str) -> None:
    """And a key that it does give goes on as it is (CaddyGlow/ccproxy-api#61)."""
    assert (client, upstream) in EVERY
    body = json.dumps(ask(client, prompt_cache_key="session-7")).encode()
    sent = [
        json.loads(translate(direction(client, upstream), body, options=ReplyOptions(request_id=f"r{n}")).body)
        for n in (1, 2)
    ]
    assert [one["prompt_cache_key"] for one in sent] == ["session-7"] * 2
