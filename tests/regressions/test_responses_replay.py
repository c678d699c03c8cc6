"""Group B, where a history comes back: whose reasoning may go where, and in which shape."""

from __future__ import annotations

import json

import pytest

from dragoman import LossCode, Profile, builtin_profile, direction, translate
from oracles.requests import check
from regressions.dialect_bodies import RESPONSES
from regressions.wire import CHAT, MESSAGES, events_of
from support import responses_frames as emitted
from support.directions import Json, ask, stream_through
from support.responses_samples import numbered

CLAUDE = builtin_profile(MESSAGES).replace({"family": "claude"})
OPENAI = builtin_profile(RESPONSES)
AZURE = builtin_profile(RESPONSES).replace({"family": "azure-east"})
VLLM = builtin_profile(RESPONSES, "compatible").replace({"family": "vllm"})
DEEPSEEK = builtin_profile(CHAT, "compatible").replace({"family": "deepseek"})
KIMI = builtin_profile(CHAT, "compatible").replace({"family": "kimi"})
UPSTREAMS: dict[str, tuple[str, Profile]] = {
    "claude": (MESSAGES, CLAUDE),
    "openai": (RESPONSES, OPENAI),
    "azure": (RESPONSES, AZURE),
    "vllm": (RESPONSES, VLLM),
    "deepseek": (CHAT, DEEPSEEK),
    "kimi": (CHAT, KIMI),
}
USE: Json = {"type": "tool_use", "id": "call_a", "name": "read", "input": {}}
CALL = emitted.call("call_a", "read")
SECRET = "EqQBgAAAABo"
"""The proof in every made-up reply."""
HEADERS = {"anthropic-version": "2023-06-01"}


def reply_of(name: str) -> Json:
    """A turn of that provider: reasoning ("thoughts of claude") and a call."""
    dialect, _ = UPSTREAMS[name]
    words = f"thoughts of {name}"
    if dialect == MESSAGES:
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "stop_sequence": None}
        content = [{"type": "thinking", "thinking": words, "signature": SECRET}, USE]
        return {**head, "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}}
    if dialect == RESPONSES:
        wrapped = {} if name == "vllm" else {"encrypted_content": SECRET}
        texts = (words,) if name == "vllm" else ()
        item = emitted.reasoned(*texts, summary=() if texts else (words,), id=f"rs_{name}", **wrapped)
        return emitted.response("completed", [item, CALL], usage=emitted.USAGE)
    call = {"id": "call_a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "reasoning_content": words, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "up", "choices": [choice]}


def turn_of(client: str, name: str) -> list[Json]:
    """Return the same turn as a client of the dialect holds it."""
    dialect, profile = UPSTREAMS[name]
    translation = translate(direction(client, dialect), json.dumps(ask(client)).encode(), profile=profile)
    got = json.loads(translation.reply(json.dumps(reply_of(name)).encode()))
    return list(got["content"] if client == MESSAGES else got["output"])


def history(client: str, *turns: list[Json]) -> Json:
    """A conversation of such turns, each answered."""
    stated: list[Json] = [{"role": "user", "content": "x"}]
    for number, turn in enumerate(turns):
        call_id = f"call_{number}"
        if client == RESPONSES:
            stated += [part | {"call_id": call_id} if "call_id" in part else part for part in turn]
            stated.append({"type": "function_call_output", "call_id": call_id, "output": "y"})
        else:
            content = [part | {"id": call_id} if part["type"] == "tool_use" else part for part in turn]
            result = {"type": "tool_result", "tool_use_id": call_id, "content": "y"}
            stated += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    return ask(client, **{"input" if client == RESPONSES else "messages": stated})


def sent(client: str, name: str, body: Json) -> tuple[Json, dict[LossCode, int]]:
    """Return what the provider is sent, which its API takes, and the losses."""
    dialect, profile = UPSTREAMS[name]
    translation = translate(direction(client, dialect), json.dumps(body).encode(), profile=profile)
    return json.loads(translation.body), translation.losses.counts


MOVES = [
    (RESPONSES, ("claude", "deepseek"), ("claude", "deepseek", "kimi", "openai")),
    (MESSAGES, ("openai", "deepseek", "vllm"), ("openai", "deepseek", "kimi", "azure", "vllm", "claude")),
]


@pytest.mark.parametrize(("client", "makers", "goals"), MOVES)
def test_T11_a_session_that_moves_sends_each_provider_only_its_own(
    client: str, makers: tuple[str, ...], goals: tuple[str, ...]
) -> None:
    """The error when a session moves between a real and a compatible provider (ding113/claude-code-hub#518)."""
    body = history(client, *(turn_of(client, name) for name in makers))
    for goal in goals:
        wire, losses = sent(client, goal, body)
        text = json.dumps(wire)
        for name in makers:
            assert (f"thoughts of {name}" in text) is (name == goal), (goal, name)
        assert "dgm1." not in text
        assert text.count("y") >= len(makers)
        assert losses.get(LossCode.REASONING_FOREIGN, 0) == len(makers) - (goal in makers)
        if goal != "vllm":  # which wants the plain items that OpenAI refuses
            check(UPSTREAMS[goal][0], wire, HEADERS)


def test_T11_a_session_of_codex_comes_home_to_openai() -> None:
    """Likewise on a Responses upstream that is passed through: what others sealed is left out, its own untouched
    (ding113/claude-code-hub#518; T-16, BerriAI/litellm#40364)."""
    own = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    azure = {"type": "reasoning", "id": "rs_2", "encrypted_content": turn_of(MESSAGES, "azure")[0]["signature"]}
    turns = [[own, CALL], turn_of(RESPONSES, "claude"), turn_of(RESPONSES, "deepseek"), [azure, CALL]]
    wire, losses = sent(RESPONSES, "openai", history(RESPONSES, *turns))
    kinds = [item.get("type", "message") for item in wire["input"]]
    assert kinds == ["message", "reasoning", *["function_call", "function_call_output"] * 4]
    assert wire["input"][1] == own
    assert losses == {LossCode.REASONING_FOREIGN: 3}


def test_T11_texts_of_a_chat_model_do_not_go_to_openai() -> None:
    """A session that was at Claude and at a Chat server: OpenAI takes no text in a reasoning item (`content` must be
    empty), and no other upstream's."""
    plain = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    stored = {"type": "reasoning", "id": "rs_2", "summary": []}
    turns = [turn_of(RESPONSES, "claude"), [plain, CALL], [stored, CALL]]
    wire, losses = sent(RESPONSES, "openai", history(RESPONSES, *turns))
    assert [item for item in wire["input"] if item.get("type") == "reasoning"] == [stored]
    assert losses == {LossCode.REASONING_FOREIGN: 1, LossCode.REASONING_UNSIGNED: 1}
    wire, _ = sent(RESPONSES, "vllm", history(RESPONSES, *turns))
    assert plain in wire["input"]


def test_T15_reasoning_content_finds_its_way_back_through_codex() -> None:
    """The upstream demands `reasoning_content` back on tool turns; the bridge lost it (anthropics/claude-code#37485,
    lidge-jun/opencodex#994). Codex returns the item with `content: null`, and others trim more of it."""
    reasoned, call = turn_of(RESPONSES, "deepseek")
    trims: list[Json] = [{}, {"content": None}, {"content": [], "summary": []}, {"content": None, "id": None}]
    for trimmed in trims:
        wire, losses = sent(RESPONSES, "deepseek", history(RESPONSES, [reasoned | trimmed, call]))
        assert wire["messages"][1]["reasoning_content"] == "thoughts of deepseek"
        assert wire["messages"][1]["tool_calls"][0]["id"] == "call_0"
        assert not losses


def test_T15_the_streamed_item_is_given_back_as_the_whole_one() -> None:
    """Codex keeps the item of `response.output_item.done` (lidge-jun/opencodex#994)."""
    frames = [
        b'data: {"id":"c","choices":[{"index":0,"delta":%b}]}\n\n' % json.dumps(delta).encode()
        for delta in (
            {"role": "assistant", "reasoning_content": "thoughts "},
            {"reasoning_content": "of deepseek"},
            {
                "tool_calls": [
                    {"index": 0, "id": "call_a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
                ]
            },
        )
    ]
    frames.append(
        b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
    )
    translation = translate(direction(RESPONSES, CHAT), json.dumps(ask(RESPONSES)).encode(), profile=DEEPSEEK)
    events = events_of(stream_through(translation, frames))
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done[0]["encrypted_content"] == turn_of(RESPONSES, "deepseek")[0]["encrypted_content"]
    wire, _ = sent(RESPONSES, "deepseek", history(RESPONSES, [done[0] | {"content": None}, done[1]]))
    assert wire["messages"][1]["reasoning_content"] == "thoughts of deepseek"


def test_T15_plain_reasoning_goes_back_to_a_server_without_encryption() -> None:
    """Likewise for a Responses server that wants its plain items (lidge-jun/opencodex#994)."""
    turn = turn_of(MESSAGES, "vllm")
    wire, losses = sent(MESSAGES, "vllm", history(MESSAGES, [turn[0] | {"thinking": ""}, turn[1]]))
    assert wire["input"][1]["content"] == [{"type": "reasoning_text", "text": "thoughts of vllm"}]
    assert not losses


def test_T16_the_blob_goes_back_and_nothing_is_looked_up() -> None:
    """`store: false` with an encrypted item answered "item not found": the blob was ignored, the id looked up
    (maximhq/bifrost#5410)."""
    wire, losses = sent(MESSAGES, "openai", history(MESSAGES, turn_of(MESSAGES, "openai")))
    item = wire["input"][1]
    assert (item["encrypted_content"], item["id"]) == (SECRET, "rs_openai")
    assert wire["store"] is False
    assert wire["include"] == ["reasoning.encrypted_content"]
    assert "item_reference" not in json.dumps(wire)
    assert not losses


def test_T16_a_blob_never_goes_to_another_deployment() -> None:
    """Encrypted reasoning sent to another deployment: `invalid_encrypted_content` (BerriAI/litellm#40364)."""
    body = history(MESSAGES, turn_of(MESSAGES, "openai"), turn_of(MESSAGES, "azure"))
    for goal, kept in (("openai", "rs_openai"), ("azure", "rs_azure")):
        wire, losses = sent(MESSAGES, goal, body)
        assert [item["id"] for item in wire["input"] if item["type"] == "reasoning"] == [kept]
        assert losses == {LossCode.REASONING_FOREIGN: 1}


@pytest.mark.parametrize("goal", ["claude", "deepseek"])
@pytest.mark.parametrize("texts", [0, 2])
def test_T16_openais_own_blob_never_reaches_another_vendor(goal: str, texts: int) -> None:
    """Codex brings its old items along when the route changes to another vendor (BerriAI/litellm#40364)."""
    own: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": SECRET}
    stated = [emitted.message(*[emitted.text_part("Hm")] * texts)] if texts else []
    wire, losses = sent(RESPONSES, goal, history(RESPONSES, [own, *stated, CALL]))
    assert SECRET not in json.dumps(wire)
    assert losses == {LossCode.REASONING_FOREIGN if goal == "claude" else LossCode.REASONING_ENCRYPTED: 1}
    check(UPSTREAMS[goal][0], wire, HEADERS)


def test_T16_stale_items_without_their_blob_are_left_out_every_time() -> None:
    """Stale reasoning items without the blob keep failing; there is no cleanup (Wei-Shaw/sub2api#3138)."""
    bare = emitted.response("completed", [emitted.reasoned(summary=("stale",)), CALL], usage=emitted.USAGE)
    translation = translate(direction(MESSAGES, RESPONSES), json.dumps(ask(MESSAGES)).encode())
    turn = json.loads(translation.reply(json.dumps(bare).encode()))["content"]
    for _ in range(2):
        wire, losses = sent(MESSAGES, "openai", history(MESSAGES, turn))
        assert [item["type"] for item in wire["input"]] == ["message", "function_call", "function_call_output"]
        assert losses == {LossCode.REASONING_UNSIGNED: 1}


@pytest.mark.parametrize(
    "reasoned",
    [
        emitted.reasoned("plain", id="rs_vllm"),
        emitted.reasoned(summary=("plain",), id="rs_vllm"),
        emitted.reasoned(id="rs_vllm"),
    ],
    ids=["content", "summary", "neither"],
)
def test_T16_plain_items_stay_behind_when_their_server_learns_to_encrypt(reasoned: Json) -> None:
    """It then looks up the id of an item without a blob (Wei-Shaw/sub2api#3138), be there content or not
    (agentscope-ai/agentscope#2420)."""
    reply = emitted.response("completed", [reasoned, CALL], usage=emitted.USAGE)
    made = translate(direction(MESSAGES, RESPONSES), json.dumps(ask(MESSAGES)).encode(), profile=VLLM)
    turn = json.loads(made.reply(json.dumps(reply).encode()))["content"]
    body = json.dumps(history(MESSAGES, turn)).encode()
    profile = VLLM.replace({"encrypted_reasoning": True})
    translation = translate(direction(MESSAGES, RESPONSES), body, profile=profile)
    assert b"rs_vllm" not in translation.body
    assert translation.losses.counts == {LossCode.REASONING_UNSIGNED: 1}


@pytest.mark.parametrize("goal", ["claude", "deepseek"])
@pytest.mark.parametrize("content", [None, [], "absent"])
def test_T16_an_id_with_empty_content_is_no_item_to_send(goal: str, content: object) -> None:
    """Replay of an id plus empty content is refused by stateless upstreams (agentscope-ai/agentscope#2420)."""
    item: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "content": content}
    if content == "absent":
        del item["content"]
    wire, losses = sent(RESPONSES, goal, history(RESPONSES, [item, CALL]))
    assert "rs_1" not in json.dumps(wire)
    assert wire["messages"][1]["role"] == "assistant"
    check(UPSTREAMS[goal][0], wire, HEADERS)
    assert set(losses) <= {LossCode.REASONING_FOREIGN, LossCode.REASONING_UNSIGNED}


def odd(**item: object) -> list[Json]:
    """A turn with a reasoning item of an odd shape, as a Messages client holds it."""
    reply = emitted.response("completed", [{"type": "reasoning", "encrypted_content": SECRET, **item}, CALL])
    translation = translate(direction(MESSAGES, RESPONSES), json.dumps(ask(MESSAGES)).encode())
    return list(json.loads(translation.reply(json.dumps(reply).encode()))["content"])


@pytest.mark.parametrize(
    "item",
    [
        {"id": "rs_1"},
        {"id": "rs_1", "summary": None},
        {"id": "", "summary": []},
        {"id": None, "summary": []},
        {"id": "rs_1", "summary": [], "status": "completed"},
        {"id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "plain"}]},
    ],
    ids=["no summary", "null summary", "empty id", "null id", "status", "plaintext"],
)
def test_T17_replayed_items_have_the_one_shape_that_is_taken(item: Json) -> None:
    """A chain of four 400s: missing `summary`, empty id, plaintext content not allowed, duplicate id
    (microsoft/agent-framework-go#784)."""
    wire, _ = sent(MESSAGES, "openai", history(MESSAGES, odd(**item)))
    check(RESPONSES, wire, HEADERS)
    reasoned = wire["input"][1]
    assert reasoned["type"] == "reasoning"
    assert reasoned["encrypted_content"] == SECRET
    assert type(reasoned["summary"]) is list
    assert "content" not in reasoned
    assert reasoned.get("id", "rs_1") == "rs_1"


def test_T17_an_item_that_comes_twice_is_sent_once() -> None:
    """ "Duplicate item found with id" (microsoft/agent-framework-go#784): a client repeats a turn."""
    turn = odd(id="rs_1", summary=[])
    wire, _ = sent(MESSAGES, "openai", history(MESSAGES, turn, turn))
    check(RESPONSES, wire, HEADERS)
    assert [item["type"] for item in wire["input"]].count("reasoning") == 1


def test_T17_the_items_that_codex_is_given_come_back_whole() -> None:
    """The items for Responses clients have the shape that Responses servers take back, ids and all: a session may
    go on there (microsoft/agent-framework-go#784)."""
    for name in ("claude", "deepseek"):
        turns = turn_of(RESPONSES, name)
        assert type(turns[0]["summary"]) is list
        assert turns[0]["id"].startswith("rs_")
        assert turns[1]["id"].startswith("fc_")
        wire, _ = sent(RESPONSES, "openai", history(RESPONSES, turns))
        check(RESPONSES, wire, HEADERS)


def test_T17_a_streamed_item_starts_without_the_provisional_blob() -> None:
    """A client that keeps the value of `response.output_item.added` replays the wrong one
    (microsoft/agent-framework-go#784)."""
    item = emitted.reasoned(summary=("in short",), encrypted_content=SECRET)
    early = item | {"summary": [], "encrypted_content": "provisional"}
    frames = numbered(emitted.created(), emitted.added(0, **early), emitted.done(0, **item), emitted.ended(item))
    translation = translate(direction(MESSAGES, RESPONSES), json.dumps(ask(MESSAGES)).encode())
    events = events_of(stream_through(translation, frames))
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    signature = next(delta["signature"] for delta in deltas if delta["type"] == "signature_delta")
    wire, _ = sent(
        MESSAGES, "openai", history(MESSAGES, [{"type": "thinking", "thinking": "", "signature": signature}, USE])
    )
    assert wire["input"][1]["encrypted_content"] == SECRET
