"""Gemini's signatures of calls and texts, through clients of every dialect and back to the same call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Knobs, Limits, LossCode, Profile, builtin_profile, direction, translate
from dragoman.dialects.chat.extra_content import add_signatures, read_signed, sign_history
from dragoman.losses import Losses
from dragoman.reasoning.envelope import Envelope, unwrap
from dragoman.wire.json_codec import dumps

Json = dict[str, Any]
COMPATIBLE = builtin_profile("chat", "compatible").replace({"family": "google"})
GEMINI = builtin_profile("chat", "gemini").replace({"family": "google"})
TOOL: Json = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
FUNCTION: Json = {"name": "look", "parameters": TOOL["input_schema"]}
SKIP: Json = {"google": {"thought_signature": "skip_thought_signature_validator"}}


def extra(signature: str, vendor: str = "google") -> Json:
    return {"extra_content": {vendor: {"thought_signature": signature}}}


def call(call_id: str, signature: str = "", vendor: str = "google") -> Json:
    made: Json = {"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return made | (extra(signature, vendor) if signature else {})


def ask(client: str, *, stream: bool, profile: Profile = COMPATIBLE, **options: Any) -> Any:
    bodies: dict[str, Json] = {
        "messages": {"max_tokens": 5, "messages": [{"role": "user", "content": "x"}], "tools": [TOOL]},
        "responses": {"input": "x", "tools": [{"type": "function", **FUNCTION}]},
        "chat": {"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": FUNCTION}]},
    }
    body = dumps({"model": "m", "stream": stream, **bodies[client]})
    return translate(direction(client, "chat"), body, profile=profile, **options)


def whole(client: str, message: Json, profile: Profile = COMPATIBLE, **options: Any) -> tuple[list[Json], Losses]:
    """The content, the output or the message of a whole reply."""
    translation = ask(client, stream=False, profile=profile, **options)
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": "stop"}
    reply = json.loads(translation.reply(dumps({"id": "1", "model": "m", "choices": [choice]})))
    if client == "chat":
        return [reply["choices"][0]["message"]], translation.losses
    return reply["content" if client == "messages" else "output"], translation.losses


def streamed(
    client: str, deltas: list[Json], profile: Profile = COMPATIBLE, *, size: int = 0, **options: Any
) -> tuple[list[Json], Losses]:
    """Return the same of a stream that arrives in pieces of `size` bytes."""
    translation = ask(client, stream=True, profile=profile, **options)
    chunks: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    chunks.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    sent = b"".join(b"data: " + dumps({"id": "1", "model": "m", "choices": [c]}) + b"\n\n" for c in chunks)
    sent += b"data: [DONE]\n\n"
    machine = translation.stream_machine()
    step = size or len(sent)
    out = b"".join(machine.feed(sent[at : at + step]) for at in range(0, len(sent), step)) + machine.finish()
    events = [json.loads(line[6:]) for line in out.decode().splitlines() if line.startswith("data: {")]
    if client == "responses":
        return events[-1]["response"]["output"], translation.losses
    if client == "chat":
        return [accumulated([event["choices"][0]["delta"] for event in events])], translation.losses
    content: list[Json] = []
    for event in events:
        if event["type"] == "content_block_start":
            content.append(event["content_block"])
        for key in ("text", "thinking", "signature"):
            if key in event.get("delta", {}):
                content[event["index"]][key] += event["delta"][key]
    return content, translation.losses


def accumulated(deltas: list[Json]) -> Json:
    message: Json = {"role": "assistant", "content": ""}
    calls: list[Json] = []
    for delta in deltas:
        message["content"] += delta.get("content") or ""
        message |= {key: delta[key] for key in ("extra_content",) if key in delta}
        for fragment in delta.get("tool_calls", ()):
            if fragment["index"] == len(calls):
                calls.append({"function": {"arguments": ""}})
            kept = calls[fragment["index"]]
            kept["function"]["arguments"] += fragment.get("function", {}).get("arguments", "")
            kept["function"] |= {key: text for key, text in fragment.get("function", {}).items() if key == "name"}
            kept |= {key: fragment[key] for key in ("id", "type", "extra_content") if key in fragment}
    return message | ({"tool_calls": calls} if calls else {})


def again(client: str, output: list[Json], profile: Profile = COMPATIBLE) -> tuple[Json, Losses]:
    """The assistant's message that a client's next request becomes."""
    if client == "messages":
        turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": output}]
        calls = [block["id"] for block in output if block["type"] == "tool_use"]
        results: Any = [{"type": "tool_result", "tool_use_id": call_id, "content": "y"} for call_id in calls]
        body: Json = {"max_tokens": 5, "messages": [*turns, {"role": "user", "content": results or "and"}]}
    elif client == "responses":
        calls = [item["call_id"] for item in output if item["type"] == "function_call"]
        outputs = [{"type": "function_call_output", "call_id": call_id, "output": "y"} for call_id in calls]
        body = {"input": [{"role": "user", "content": "x"}, *output, *outputs, {"role": "user", "content": "and"}]}
    else:
        [message] = output
        answers = [
            {"role": "tool", "tool_call_id": made["id"], "content": "y"} for made in message.get("tool_calls", ())
        ]
        body = {"messages": [{"role": "user", "content": "x"}, message, *answers, {"role": "user", "content": "z"}]}
    translation = translate(direction(client, "chat"), dumps({"model": "m", **body}), profile=profile)
    [sent] = [message for message in json.loads(translation.body)["messages"] if message["role"] == "assistant"]
    return sent, translation.losses


REPLIES: dict[str, tuple[Json, list[list[Json]]]] = {
    "one call": ({"tool_calls": [call("a", "S")]}, [[{"tool_calls": [{"index": 0, **call("a", "S")}]}]]),
    "parallel calls, without an index": (
        {"tool_calls": [call("a", "S"), call("b")]},
        [
            [{"tool_calls": [call("a", "S"), call("b")]}],
            [{"tool_calls": [call("a", "S")]}, {"tool_calls": [call("b")]}],
            [{"tool_calls": [call("a")]}, {"tool_calls": [extra("S")]}, {"tool_calls": [call("b")]}],
        ],
    ),
    "each call is signed": (
        {"content": "Hm", "tool_calls": [call("a", "S"), call("b", "T")]},
        [
            [{"content": "Hm"}, {"tool_calls": [{"index": 0, **call("a", "S")}, {"index": 1, **call("b", "T")}]}],
            [
                {"content": "Hm"},
                {"tool_calls": [{"index": 0, **call("a")}]},
                {"tool_calls": [{"index": 1, **call("b")}]},
                {"tool_calls": [{"index": 1, **extra("T")}]},
                {"tool_calls": [{"index": 0, **extra("S")}]},
            ],
        ],
    ),
    "the last of the calls is signed": (
        {"tool_calls": [call("a"), call("b", "T", "vertex")]},
        [[{"tool_calls": [{"index": 0, **call("a")}, {"index": 1, **call("b", "T", "vertex")}]}]],
    ),
    "a text": (
        {"content": "Yes", **extra("T")},
        [
            [{"content": "Yes", **extra("T")}],
            [{"content": "Y", **extra("T")}, {"content": "es"}],
            [{"content": "Yes"}, {"content": "", **extra("T")}],
            [{"content": "Yes"}, extra("T")],
        ],
    ),
    "a text and a call": (
        {"content": "Yes", **extra("T", "vertex"), "tool_calls": [call("a", "S", "vertex")]},
        [[{"content": "Yes", **extra("T", "vertex")}, {"tool_calls": [call("a", "S", "vertex")]}]],
    ),
    "an id that no client takes": (
        {"tool_calls": [call("a:1/ü", "S")]},
        [[{"tool_calls": [call("a:1/ü", "S")]}]],
    ),
}
FORMS = [
    pytest.param(name, deltas, size, id=f"{name}-{form}-{size}")
    for name, (_, streams) in REPLIES.items()
    for form, deltas in enumerate([None, *streams])
    for size in ((0,) if deltas is None else (0, 7))
]


def received(client: str, name: str, deltas: list[Json] | None, size: int, profile: Profile) -> list[Json]:
    if deltas is None:
        return whole(client, REPLIES[name][0], profile)[0]
    return streamed(client, deltas, profile, size=size)[0]


def signatures(message: Json) -> list[Any]:
    calls = message.get("tool_calls") or ()
    return [message.get("extra_content"), *(made.get("extra_content") for made in calls)]


@pytest.mark.parametrize("profile", [COMPATIBLE, GEMINI.replace({"signed_calls": False})], ids=["compatible", "gemini"])
@pytest.mark.parametrize("client", ["messages", "responses"])
@pytest.mark.parametrize(("name", "deltas", "size"), FORMS)
def test_a_signature_returns_to_its_own_call(
    client: str, name: str, deltas: list[Json] | None, size: int, profile: Profile
) -> None:
    output = received(client, name, deltas, size, profile)
    message, losses = again(client, output, profile)
    assert signatures(message) == signatures(REPLIES[name][0])
    assert not losses.counts
    assert (message["content"] or None) == REPLIES[name][0].get("content")


@pytest.mark.parametrize(("name", "deltas", "size"), FORMS)
def test_a_chat_client_of_a_rewritten_route_gets_and_returns_it(
    name: str, deltas: list[Json] | None, size: int
) -> None:
    profile = COMPATIBLE.replace({"rewrite": True})
    [message] = received("chat", name, deltas, size, profile)
    assert signatures(message) == signatures(REPLIES[name][0])
    sent, losses = again("chat", [message], profile)
    assert signatures(sent) == signatures(REPLIES[name][0])
    assert not losses.counts


@pytest.mark.parametrize("client", ["messages", "responses"])
@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_no_other_family_gets_it(client: str, upstream: str) -> None:
    output, _ = whole(client, {"content": "Yes", **extra("T"), "tool_calls": [call("a", "S")]})
    if client == "messages":
        body: Json = {"max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
        body["messages"] += [{"role": "assistant", "content": output}]
        body["messages"] += [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "y"}]}]
    else:
        answered = {"type": "function_call_output", "call_id": "a", "output": "y"}
        body = {"input": [{"role": "user", "content": "x"}, *output, answered]}
    profile = builtin_profile(upstream).replace({"family": "another"})
    translation = translate(direction(client, upstream), dumps({"model": "m", **body}), profile=profile)
    assert b"extra_content" not in translation.body
    assert b"dgm1." not in translation.body
    assert translation.losses.counts[LossCode.REASONING_FOREIGN] == 2


@pytest.mark.parametrize("upstream", ["messages", "responses"])
def test_a_chat_client_s_signatures_are_lost_with_a_row_elsewhere(upstream: str) -> None:
    message = {"role": "assistant", "content": "Yes", **extra("T"), "tool_calls": [call("a", "S")]}
    turns = [{"role": "user", "content": "x"}, message, {"role": "tool", "tool_call_id": "a", "content": "y"}]
    translation = translate(direction("chat", upstream), dumps({"model": "m", "messages": turns}))
    assert b"google" not in translation.body
    rows = [(row.code, row.path) for row in translation.losses.rows]
    assert (LossCode.REASONING_FOREIGN, "messages[1].extra_content") in rows
    assert (LossCode.REASONING_FOREIGN, "messages[1].tool_calls[0].extra_content") in rows


@pytest.mark.parametrize("client", ["messages", "responses"])
def test_unsigned_calls_of_other_models_get_the_documented_value(client: str) -> None:
    output, _ = whole(client, {"content": "Yes", "tool_calls": [call("a"), call("b")]}, GEMINI)
    message, losses = again(client, output, GEMINI)
    assert signatures(message) == [None, SKIP, None]
    assert losses.counts == {LossCode.REASONING_FILLED: 1}
    message, losses = again(client, output)
    assert signatures(message) == [None, None, None], "only where the profile requires signatures"
    assert not losses.counts


@pytest.mark.parametrize("rewrite", [False, True])
def test_a_chat_history_without_signatures_is_signed_too(rewrite: bool) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]}
    sent, losses = again("chat", [message], GEMINI.replace({"rewrite": rewrite}))
    assert signatures(sent) == [None, SKIP, None]
    assert losses.counts == {LossCode.REASONING_FILLED: 1}


def test_a_signed_chat_history_passes_through_byte_by_byte() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [call("a", "S"), call("b")]}
    body = dumps({"model": "m", "messages": [{"role": "user", "content": "x"}, message]})
    assert translate(direction("chat", "chat"), body, profile=GEMINI).body == body


@pytest.mark.parametrize(
    "messages", [None, [], [None], [{"role": "assistant", "tool_calls": []}], [{"tool_calls": {}}, {"tool_calls": [1]}]]
)
def test_a_malformed_history_is_left_to_the_upstream(messages: Any) -> None:
    body = {"messages": messages}
    assert not sign_history(body, Losses())
    assert body == {"messages": messages}


@pytest.mark.parametrize("client", ["messages", "responses"])
def test_signatures_go_together_with_reasoning_that_the_server_wants_back(client: str) -> None:
    deltas: list[Json] = [{"reasoning_content": "Hm"}, {"tool_calls": [{"index": 0, **call("a", "S")}]}]
    both: Json = {"reasoning_content": "Hm", "tool_calls": [call("a", "S")]}
    for output in (streamed(client, deltas)[0], whole(client, both)[0]):
        assert len(output) == 2, "one block of reasoning"
        message, losses = again(client, output)
        assert (message["reasoning_content"], signatures(message)) == ("Hm", signatures(both))
        assert not losses.counts


@pytest.mark.parametrize("message", REPLIES)
@pytest.mark.parametrize("client", ["messages", "responses"])
def test_no_signature_makes_an_end_of_its_own(client: str, message: str) -> None:
    """A signature after the last block is still within the reply, which stays complete."""
    for deltas in REPLIES[message][1]:
        translation = ask(client, stream=True)
        machine = translation.stream_machine()
        sent = b"".join(
            b"data: " + dumps({"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta}]}) + b"\n\n"
            for delta in deltas
        )
        end = b'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
        machine.feed(sent + end + b"data: [DONE]\n\n")
        machine.finish()
        assert (translation.failure, translation.violation) == (None, None)


def test_a_signature_after_the_finish_is_kept() -> None:
    translation = ask("messages", stream=True)
    finished = {"choices": [{"index": 0, "delta": {"content": "Yes"}, "finish_reason": "stop"}]}
    late = {"choices": [{"index": 0, "delta": extra("T"), "finish_reason": None}]}
    machine = translation.stream_machine()
    out = machine.feed(b"data: %b\n\ndata: %b\n\ndata: [DONE]\n\n" % (dumps(finished), dumps(late)))
    assert b"signature_delta" in out
    assert out.endswith(b'data: {"type":"message_stop"}\n\n')


@pytest.mark.parametrize("deltas", REPLIES["a text"][1])
def test_claude_code_gets_no_block_behind_its_last_text(deltas: list[Json]) -> None:
    output, losses = streamed("messages", deltas, knobs=Knobs(last_signature="drop"))
    assert output[-1] == {"type": "text", "text": "Yes", "citations": None}
    kept = any(block["type"] == "thinking" for block in output)
    assert kept != (LossCode.REASONING_SIGNATURE in losses.counts)


def test_a_signature_before_a_call_is_sent_to_claude_code() -> None:
    deltas = [{"content": "Yes", **extra("T")}, {"content": "."}, {"tool_calls": [call("a", "S")]}]
    output, _ = streamed("messages", deltas, knobs=Knobs(last_signature="drop"))
    assert again("messages", output)[0]["tool_calls"][0]["extra_content"] == extra("S")["extra_content"]
    late = [{"tool_calls": [call("a")]}, {"tool_calls": [extra("S")]}]
    output, _ = streamed("messages", late, knobs=Knobs(last_signature="drop"))
    assert again("messages", output)[0]["tool_calls"][0]["extra_content"] == extra("S")["extra_content"]


def test_signatures_are_limited() -> None:
    message = {"tool_calls": [{"index": 0, **call("a", "S" * 101)}]}
    translation = ask("messages", stream=True, limits=Limits(tool_arguments=100))
    machine = translation.stream_machine()
    machine.feed(b"data: " + dumps({"choices": [{"index": 0, "delta": message}]}) + b"\n\n")
    assert translation.failure is not None
    assert "tool_arguments" in translation.failure.message


@pytest.mark.parametrize("value", [None, 1, [], {}, {"google": None}, {"google": {"thought": True}}, {"google": {}}])
def test_other_extra_content_is_no_signature(value: Any) -> None:
    assert read_signed({"extra_content": value}) is None


@pytest.mark.parametrize(
    "block", [{"extra_content": 1}, {"extra_content": {"a": 1}}, {"extra_content": {}, "x": 1}, {}]
)
def test_what_no_reader_puts_into_an_envelope_does_not_come_out(block: Json) -> None:
    opened = unwrap(Envelope("google", "m").wrap("chat", block))
    assert opened is not None
    assert opened.block is None


def test_a_call_that_the_client_left_out_leaves_its_signature_to_no_other() -> None:
    message: Json = {"tool_calls": [call("b")]}
    add_signatures(message, ["b"], {"a": extra("S")["extra_content"]})
    assert message == {"tool_calls": [call("b")]}


@pytest.mark.parametrize("client", ["chat", "messages", "responses"])
def test_a_signed_stream_is_joined_for_a_client_that_requested_a_whole_reply(client: str) -> None:
    profile = COMPATIBLE.replace({"rewrite": True})
    translation = ask(client, stream=False, profile=profile)
    translation.context.names = {"sent": "declared"}  # the reply is written again in one dialect too
    deltas: list[Json] = [{"content": "Hm", **extra("S")}, {"tool_calls": [{"index": 0, **call("a", "T")}]}, {}]
    chunks = [{"index": 0, "delta": delta, "finish_reason": None if delta else "tool_calls"} for delta in deltas]
    sent = b"".join(b"data: " + dumps({"id": "1", "model": "m", "choices": [c]}) + b"\n\n" for c in chunks)
    reply = json.loads(translation.reply(sent + b"data: [DONE]\n\n"))
    if client == "chat":
        output = [reply["choices"][0]["message"]]
    else:
        output = reply["content"] if client == "messages" else reply["output"]
    message, _ = again(client, output, profile)
    assert read_signed(message) == extra("S")["extra_content"]
    assert [read_signed(made) for made in message["tool_calls"]] == [extra("T")["extra_content"]]


@pytest.mark.parametrize("client", ["chat", "messages", "responses"])
def test_unsigned_extra_content_of_a_reply_is_a_row(client: str) -> None:
    unsigned: Json = {"extra_content": {"google": {"thought": True}}}
    message: Json = {"content": "Hm", **unsigned, "tool_calls": [{**call("a"), **unsigned}]}
    profile = COMPATIBLE.replace({"rewrite": True})
    translation = ask(client, stream=False, profile=profile)
    translation.context.names = {"sent": "declared"}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "tool_calls"}
    translation.reply(dumps({"id": "1", "model": "m", "choices": [choice]}))
    _, losses = streamed(client, [message | {"tool_calls": [{"index": 0, **message["tool_calls"][0]}]}], profile)
    for made, of in ((translation.losses, "message"), (losses, "delta")):
        if client == "chat" and of == "delta":
            continue  # it passes through
        paths = {row.path for row in made.rows if row.code is LossCode.UNKNOWN_FIELD}
        call_path = "tool_calls[0]" if of == "message" else "tool_calls"
        assert {f"choices[0].{of}.extra_content", f"choices[0].{of}.{call_path}.extra_content"} <= paths
