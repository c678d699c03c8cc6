"""A Messages client learns which of its stop sequences ended a reply, where the Chat server states it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import direction, translate
from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from dragoman.translate_request import Translation
from oracles.grammar import messages
from support.samples import chat_frame, dump, request

Json = dict[str, Any]
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def _asked(client: str = "messages", **knobs: Any) -> Translation:
    stops = {"stop_sequences" if client == "messages" else "stop": ["END", "###"]}
    body = {
        name: value for name, value in {**request(Dialect(client), stream=True), **stops}.items() if name != "stream"
    }
    return translate(direction(client, "chat"), dump(body), knobs=Knobs(**knobs))


def _whole(asked: Translation, finish: str, choice: Json, **message: Any) -> Json:
    noted = {"index": 0, "message": {"role": "assistant", "content": "one", **message}, "finish_reason": finish}
    reply = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [noted | choice]}
    stated: Json = json.loads(asked.reply(dump(reply)))
    return stated


def _streamed(asked: Translation, finish: str, choice: Json) -> Json:
    """The delta of `message_delta`, of a stream that keeps the grammar."""
    machine = asked.stream_machine()
    last = {"index": 0, "delta": {}, "finish_reason": finish, **choice}
    frames = [chat_frame({"role": "assistant", "content": "one"}), chat_frame({}, choices=[last]), b"data: [DONE]\n\n"]
    out = b"".join(machine.feed(frame) for frame in frames) + machine.finish()
    messages.check(out)
    (line,) = (line for line in out.splitlines() if b'"message_delta"' in line and line.startswith(b"data: "))
    noted: Json = json.loads(line[6:])["delta"]
    return noted


@pytest.mark.parametrize("emulation", ["on", "off"])
@pytest.mark.parametrize("key", ["stop_reason", "matched_stop"])
def test_the_sequence_that_the_server_names(key: str, emulation: str) -> None:
    stated = _whole(_asked(stop_emulation=emulation), "stop", {key: "###"})
    assert (stated["stop_reason"], stated["stop_sequence"]) == ("stop_sequence", "###")
    assert stated["content"] == [{"type": "text", "text": "one", "citations": None}]
    noted = _streamed(_asked(stop_emulation=emulation), "stop", {key: "###"})
    assert (noted["stop_reason"], noted["stop_sequence"]) == ("stop_sequence", "###")


@pytest.mark.parametrize(
    ("finish", "choice", "noted"),
    [
        ("stop", {"stop_reason": 151645}, "end_turn"),
        ("stop", {"stop_reason": None, "matched_stop": 2}, "end_turn"),
        ("stop", {"matched_stop": "<|im_end|>"}, "end_turn"),
        ("stop", {"stop_reason": "stop"}, "end_turn"),
        ("stop", {"stop_reason": ["###"]}, "end_turn"),
        ("length", {"stop_reason": "###"}, "max_tokens"),
        ("content_filter", {"stop_reason": "###"}, "refusal"),
    ],
)
def test_what_is_no_stop_sequence_of_the_client_s(finish: str, choice: Json, noted: str) -> None:
    for stated in (_whole(_asked(), finish, choice), _streamed(_asked(), finish, choice)):
        assert (stated["stop_reason"], stated["stop_sequence"]) == (noted, None)


def test_a_call_is_a_call() -> None:
    call = {name: value for name, value in CALL.items() if name != "index"}
    stated = _whole(_asked(), "stop", {"stop_reason": "###"}, content=None, tool_calls=[call])
    assert (stated["stop_reason"], stated["stop_sequence"]) == ("tool_use", None)


def test_clients_of_openai_s_dialects_have_no_word_for_it() -> None:
    stated = _whole(_asked("chat"), "stop", {"stop_reason": "###"})
    assert stated["choices"][0]["finish_reason"] == "stop"
    body = b'{"model":"m","input":"Hi"}'
    asked = translate(direction("responses", "chat"), body)
    assert _whole(asked, "stop", {"stop_reason": "###"})["status"] == "completed"
