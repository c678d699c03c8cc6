"""The conversion of a request: its context for the way back, its names, its stop sequences, its estimate."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from dragoman import Knobs, Limits, Profile, builtin_profile, direction, translate
from dragoman.gateway import ReplyOptions
from support.short_requests import BODIES, CHAT, CHAT_REPLY, CROSS, MESSAGES, raw


@pytest.mark.parametrize(("client", "upstream"), CROSS)
def test_the_context_is_filled_for_the_way_back(client: str, upstream: str) -> None:
    limits, knobs, profile = Limits(blocks=7), Knobs(block_order="sequential"), builtin_profile(upstream)
    translation = translate(
        direction(client, upstream),
        raw({**BODIES[client], "stream": True}),
        upstream_model="up",
        profile=profile,
        knobs=knobs,
        limits=limits,
        options=ReplyOptions(created=17, request_id="req_1"),
    )
    context = translation.context
    assert (context.model, context.created, context.request_id) == ("client", 17, "req_1")
    assert (context.limits, context.knobs, context.profile) == (limits, knobs, profile)
    assert translation.stream
    assert translation.losses is context.losses
    assert json.loads(translation.body)["model"] == "up"
    assert json.loads(translation.body)["stream"] is True


@pytest.mark.parametrize("asked", [True, False])
def test_usage_is_always_asked_of_chat_and_shown_if_the_client_asked(asked: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if asked else {}
    translation = translate(direction("chat", "messages"), raw({**CHAT, "stream": True, **options}))
    assert translation.context.include_usage is asked
    sent = translate(direction("messages", "chat"), raw({**MESSAGES, "stream": True}))
    assert json.loads(sent.body)["stream_options"] == {"include_usage": True, "include_obfuscation": False}


@pytest.mark.parametrize(("client", "upstream"), CROSS)
def test_T30_the_estimate_is_never_zero_and_grows_with_the_prompt(client: str, upstream: str) -> None:
    def estimate(content: Any) -> int:
        body = {**BODIES[client], "messages": [{"role": "user", "content": content}]}
        return translate(direction(client, upstream), raw(body)).context.input_estimate

    assert 0 < estimate("Hi") < 200
    assert 900 < estimate("word " * 800) - estimate("Hi") < 1100


def test_T30_an_inline_image_does_not_count_its_bytes() -> None:
    data = base64.b64encode(bytes(300_000)).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    body = {**MESSAGES, "messages": [{"role": "user", "content": [image]}]}
    assert 1500 <= translate(direction("messages", "chat"), raw(body)).context.input_estimate < 1800


def test_names_go_there_fitted_and_come_back() -> None:
    """T-42, T-55 of the field's own limits: `mcp.files/read` is no name for an upstream."""
    tool = {"name": "mcp.files/read", "input_schema": {"type": "object", "properties": {}}}
    translation = translate(direction("messages", "chat"), raw({**MESSAGES, "tools": [tool]}))
    sent = json.loads(translation.body)["tools"][0]["function"]["name"]
    assert sent.replace("_", "").isalnum()
    assert translation.context.names == {sent: "mcp.files/read"}


def test_stop_sequences_that_were_not_sent_are_cut_here() -> None:
    body = raw({**MESSAGES, "stop_sequences": ["END", "#b", "#c", "#d", "#e"]})
    sent = translate(direction("messages", "chat"), body, profile=Profile(stop_limit=0))
    assert "stop" not in json.loads(sent.body)
    assert sent.context.stops == ("END", "#b", "#c", "#d", "#e")
    reply = json.loads(sent.reply(raw(CHAT_REPLY)))
    assert (reply["content"][0]["text"], reply["stop_reason"], reply["stop_sequence"]) == (
        "One ",
        "stop_sequence",
        "END",
    )
    some = translate(direction("messages", "chat"), body)
    assert json.loads(some.body)["stop"] == ["END", "#b", "#c", "#d"]
    assert some.context.stops == ("#e",)
    off = translate(
        direction("messages", "chat"), body, profile=Profile(stop_limit=0), knobs=Knobs(stop_emulation="off")
    )
    assert off.context.stops == ()
