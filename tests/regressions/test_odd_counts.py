"""Token counts in other places, forms and names than the dialect's: they are what a reply costs, so they are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Usage, direction
from regressions import wire
from regressions.repaired import replied
from regressions.test_odd_calls import cross
from regressions.wire import CHAT, DONE, MESSAGES, ROLE, begin, chunk, event
from support import responses_frames as emitted
from support.directions import Json, stream_through, translated
from support.responses_samples import numbered

RESPONSES = "responses"
every = pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
FORMS: list[tuple[str, Any]] = [("float", float), ("text", str)]
TEXT = (wire.block(0, type="text", text=""), wire.delta(0, "text", "Hi"), wire.stop(0))
STOPPED = event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None})
NAMES = {CHAT: ("prompt_tokens", "completion_tokens"), MESSAGES: ("input_tokens", "output_tokens")}
NAMES[RESPONSES] = NAMES[MESSAGES]


def _whole(upstream: str, usage: Json) -> Json:
    if upstream == CHAT:
        return wire.chat_reply(content="Hi", usage=usage)
    if upstream == MESSAGES:
        return {**wire.messages_reply("end_turn", {"type": "text", "text": "Hi"}), "usage": usage}
    return emitted.response("completed", [emitted.message(emitted.text_part("Hi"))], usage=usage)


def _stream(upstream: str, usage: Json) -> list[bytes]:
    if upstream == CHAT:
        return [ROLE, chunk({"content": "Hi"}), chunk({}, "stop"), chunk(None, usage=usage), DONE]
    if upstream == MESSAGES:
        stop = {"stop_reason": "end_turn", "stop_sequence": None}
        return [begin(), *TEXT, event("message_delta", delta=stop, usage=usage), event("message_stop")]
    return list(numbered(emitted.created(), {"type": "response.completed", "response": _whole(upstream, usage)}))


@cross
@pytest.mark.parametrize(("form", "write"), FORMS, ids=[name for name, _ in FORMS])
def test_T30_counts_as_floats_and_as_text(client: str, upstream: str, form: str, write: Any) -> None:
    """Counts that are no integers were read as none, so that a reply cost nothing (sgl-project/sglang#20678)."""
    usage = dict(zip(NAMES[upstream], (write(9), write(3)), strict=True))
    _, translation = replied(client, upstream, _whole(upstream, usage))
    assert translation.usage is not None
    assert (translation.usage.input_total, translation.usage.output_total) == (9, 3)
    streamed = translated(direction(client, upstream))
    stream_through(streamed, _stream(upstream, usage))
    assert streamed.usage is not None
    assert (streamed.usage.input_total, streamed.usage.output_total) == (9, 3)


@every
@pytest.mark.parametrize("value", [-1, 1.5, "-1", "x", "1" * 20, True, [9], {"n": 9}])
def test_T30_what_is_no_count_is_unknown(client: str, value: Any) -> None:
    """A word in the place of a count would be booked as a number."""
    if client == CHAT:
        return
    _, translation = replied(client, CHAT, _whole(CHAT, {"prompt_tokens": value, "completion_tokens": 3}))
    assert translation.usage is not None
    assert (translation.usage.input_total, translation.usage.output_total) == (None, 3)


@cross
def test_T30_counts_in_the_names_of_another_dialect(client: str, upstream: str) -> None:
    """A server that translates a vendor's API keeps its names of the counts (BerriAI/litellm#28009)."""
    names = NAMES[MESSAGES] if upstream == CHAT else NAMES[CHAT]
    _, translation = replied(client, upstream, _whole(upstream, dict(zip(names, (9, 3), strict=True))))
    assert translation.usage is not None
    assert (translation.usage.input_total, translation.usage.output_total) == (9, 3)


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_T31_the_cache_in_claudes_names_beside_chats_counts(client: str) -> None:
    """LiteLLM's proxy counts the cache so, inside of the prompt (BerriAI/litellm#28009)."""
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}
    _, translation = replied(client, CHAT, _whole(CHAT, usage))
    assert translation.usage == Usage(9, 4, 2, 3, None)


LAST: dict[str, Json] = {
    "usage": {"usage": {"input_tokens": 3, "output_tokens": 3, "cache_read_input_tokens": 6}},
    "message": {"message": {"usage": {"input_tokens": 3, "output_tokens": 3, "cache_read_input_tokens": 6}}},
    "bedrock": {
        "amazon-bedrock-invocationMetrics": {
            "inputTokenCount": 3,
            "outputTokenCount": 3,
            "cacheReadInputTokenCount": 6,
            "invocationLatency": 9,
        }
    },
}


@every
@pytest.mark.parametrize("name", list(LAST))
def test_T31_counts_in_the_last_event_of_a_messages_stream(client: str, name: str) -> None:
    """Bedrock counts the cache in `message_stop` only (BerriAI/litellm#34373), some relays everything."""
    frames = [begin(input_tokens=0, output_tokens=0), *TEXT, STOPPED, event("message_stop", **LAST[name])]
    translation = translated(direction(client, MESSAGES))
    out = stream_through(translation, frames)
    assert translation.usage is not None
    assert (translation.usage.input_total, translation.usage.cache_read, translation.usage.output_total) == (9, 6, 3)
    assert client == MESSAGES or b":9" in out
    assert not translation.losses.rows


@every
def test_T31_bedrocks_counts_of_a_whole_reply(client: str) -> None:
    """The counts of Bedrock were not booked."""
    body = {**wire.messages_reply("end_turn", {"type": "text", "text": "Hi"}), **LAST["bedrock"]}
    del body["usage"]
    translation = translated(direction(client, MESSAGES))
    translation.reply(json.dumps(body).encode())
    assert translation.usage == Usage(9, 6, None, 3, None)
