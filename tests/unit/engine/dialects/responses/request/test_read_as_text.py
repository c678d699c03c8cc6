"""Items that no other dialect has: as text in the history, refused in the current turn of the user."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.parts import Image, Json, Text
from dragoman.dialects.directions import direction
from dragoman.dialects.responses.request import read_items, refused_items
from dragoman.dialects.responses.request.read_as_text import COMPACTED, ENCRYPTED, is_encrypted
from dragoman.dialects.shared.odd_history import item_text
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.translate_request import Translation, translate
from support.responses_input import ASSISTANT, USER, call, output, read

CIPHER = "gAAAAABo" + "x9_-" * 40 + "=="
HEADER = {"type": "input_text", "text": "Message Type: NEW_TASK\nSender: /root\nPayload:\n"}
REPORTED: Json = {
    "type": "agent_message",
    "id": "amsg_1",
    "author": "/root",
    "recipient": "/root/other",
    "content": [HEADER],
}
PNG = "data:image/png;base64,AAAA"
COMPATIBLE = builtin_profile("responses", "compatible")
UPSTREAMS = [("chat", None), ("messages", None), ("responses", COMPATIBLE.replace({"rewrite": True}))]
"""Each dialect; Responses with a server that has OpenAI's items not."""


def sent(upstream: str, profile: Profile | None, *items: Any, **knobs: Any) -> tuple[Json, Translation]:
    body = json.dumps({"model": "m", "input": list(items)}).encode()
    translation = translate(direction("responses", upstream), body, profile=profile, knobs=Knobs(**knobs))
    return json.loads(translation.body), translation


def part(item: Json) -> Any:
    """The part that the item becomes."""
    request, rows = read(item)
    assert {code for code, _ in rows} == {LossCode.ITEM_SHAPE}
    return request.turns[0].parts[0]


def noted(*content: Any) -> Json:
    return {**REPORTED, "content": list(content)}


# --- messages between agents ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            [HEADER, {"type": "encrypted_content", "encrypted_content": "Look at a.py."}],
            HEADER["text"] + "Look at a.py.",
        ),
        ([HEADER, {"type": "encrypted_content", "encrypted_content": "ok"}], HEADER["text"] + "ok"),
        ([HEADER], HEADER["text"]),
        ([{"type": "encrypted_content", "encrypted_content": "Go"}], "Message from /root to /root/other:\nGo"),
        ("Go", "Message from /root to /root/other:\nGo"),
        (None, "Message from /root to /root/other:\n"),
        ([HEADER, {"type": "encrypted_content", "encrypted_content": CIPHER}], HEADER["text"] + ENCRYPTED),
    ],
)
@pytest.mark.parametrize(("upstream", "profile"), UPSTREAMS, ids=[name for name, _ in UPSTREAMS])
@pytest.mark.parametrize("before", [(), (USER, call("c"), output("c")), (USER, ASSISTANT)])
def test_a_message_between_agents_is_user_text(
    content: Any, text: str, upstream: str, profile: Profile | None, before: tuple[Json, ...]
) -> None:
    """T-50: a sub-agent got no task."""
    body, translation = sent(upstream, profile, *before, {**REPORTED, "content": content})
    assert json.dumps(text) in json.dumps(body)
    assert "agent_message" not in translation.body.decode()
    assert CIPHER not in translation.body.decode()
    assert LossCode.ITEM_SHAPE in translation.losses.counts


def test_a_picture_for_an_agent_stays_a_picture() -> None:
    turn = read(noted(HEADER, {"type": "input_image", "image_url": PNG}, {"type": "input_hologram"}))[0].turns[0]
    (native,) = turn.parts
    assert [type(instead) for instead in native.instead] == [Text, Image, Text]  # type: ignore[union-attr]
    assert native.instead[2].text == "[input_hologram]"  # type: ignore[union-attr]


def test_openai_gets_its_own_items_unchanged() -> None:
    item = noted(HEADER, {"type": "encrypted_content", "encrypted_content": CIPHER})
    task = {"type": "function_call_output", "id": "fco_1", "name": "heartbeat", "output": "Look."}
    unknown = {"type": "no_such_item", "id": "x_1", "a": 1}
    profile = builtin_profile("responses").replace({"rewrite": True})
    body, _ = sent("responses", profile, USER, item, task, unknown, ASSISTANT, USER)
    assert body["input"][1:4] == [item, task, unknown]


@pytest.mark.parametrize(
    ("content", "encrypted"),
    [(CIPHER, True), (CIPHER[:40], False), ("Look at the file a.py and say what is wrong with it. " * 3, False)],
)
def test_what_is_ciphertext(content: str, encrypted: bool) -> None:
    assert is_encrypted(content) is encrypted


# --- outputs without a call -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [{}, {"name": "heartbeat"}, {"name": "heartbeat", "namespace": "tasks"}])
@pytest.mark.parametrize("call_id", [{}, {"call_id": None}, {"call_id": ""}])
@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
@pytest.mark.parametrize("given", ["Look again.", [{"type": "input_text", "text": "Look again."}]])
@pytest.mark.parametrize(("upstream", "profile"), UPSTREAMS, ids=[name for name, _ in UPSTREAMS])
def test_an_output_without_a_call_is_the_users(
    name: Json, call_id: Json, kind: str, given: Any, upstream: str, profile: Profile | None
) -> None:
    item = {"type": kind, "id": "fco_1", **name, **call_id, "output": given}
    for items in ([item], [USER, ASSISTANT, item, ASSISTANT, USER], [USER, call("c"), output("c"), item]):
        body, translation = sent(upstream, profile, *items)
        assert body.get("messages", body.get("input"))
        assert translation.body.decode().count("Look again.") == 1
        label = ".".join([*([name["namespace"]] if "namespace" in name else []), name.get("name", "a tool")])
        assert f"[Output of {label}]" in translation.body.decode()
        assert LossCode.ORPHAN_DROPPED not in translation.losses.counts


# --- the computer -----------------------------------------------------------------------------------------------------


def test_calls_and_outputs_of_the_computer_are_those_of_a_function() -> None:
    clicks = [{"type": "screenshot"}]
    computer = {"type": "computer_call", "call_id": "c", "actions": clicks, "status": "completed"}
    assert json.loads(part(computer).arguments) == {"actions": clicks}
    shot = {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": PNG}}
    assert [type(inside) for inside in part(shot).content] == [Image]


# --- unknown and broken items -----------------------------------------------------------------------------------------

BROKEN: dict[str, Any] = {
    "unknown type": {"type": "no_such_item", "id": "x_1", "words": "WORDS"},
    "approval": {"type": "mcp_approval_request", "id": "x_1", "name": "WORDS", "arguments": "{}", "server_label": "s"},
    "program": {"type": "program", "id": "x_1", "call_id": "p", "code": "WORDS", "fingerprint": "f"},
    "no object": "WORDS",
    "a type that is none": {"type": 5, "text": "WORDS"},
    "a call without a name": {"type": "function_call", "call_id": "c9", "arguments": "WORDS"},
    "a call without an id": {"type": "function_call", "name": "f", "arguments": "WORDS"},
    "a search output without tools": {
        "type": "tool_search_output",
        "execution": "client",
        "call_id": "WORDS",
        "x": "WORDS",
    },
    "an unknown role": {"type": "message", "role": "robot", "content": "WORDS"},
    "no content": {"type": "message", "role": "user", "words": "WORDS"},
    "an unknown part": {"role": "user", "content": [{"type": "input_hologram", "text": "WORDS"}]},
    "a part that is no object": {"role": "user", "content": ["WORDS"]},
    "an unknown part of the assistant": {"role": "assistant", "content": [{"type": "hologram", "text": "WORDS"}]},
    "an unknown phase": {"role": "assistant", "content": [{"type": "output_text", "text": "WORDS"}], "phase": "x"},
}


@pytest.mark.parametrize("item", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize(("upstream", "profile"), UPSTREAMS, ids=[name for name, _ in UPSTREAMS])
def test_an_item_of_the_history_is_never_refused(item: Any, upstream: str, profile: Profile | None) -> None:
    """T-50: one item ended the session."""
    body, translation = sent(upstream, profile, USER, item, ASSISTANT, USER)
    assert "WORDS" in json.dumps(body)
    assert {LossCode.ITEM_SHAPE, LossCode.CONTENT_REPLACED} & set(translation.losses.counts)
    with pytest.raises(ClientRequestError):
        sent(upstream, profile, USER, item, ASSISTANT, USER, on_loss="reject")
    if type(item) is dict and item.get("role") == "user" and "content" in item:
        return  # after the last call, its parts are the user's latest turn
    # Also between a call and its output, which stay together.
    _, translation = sent(upstream, profile, USER, call("c"), item, output("c"), USER)
    assert not {LossCode.ORPHAN_DROPPED, LossCode.ORPHAN_REPAIRED} & set(translation.losses.counts)


@pytest.mark.parametrize(
    "item", [item for item in BROKEN.values() if type(item) is dict and item.get("role") != "assistant"]
)
def test_an_item_of_the_current_turn_is_refused(item: Any) -> None:
    with pytest.raises(ClientRequestError):
        sent("chat", None, USER, ASSISTANT, item)
    if "role" in item:
        with pytest.raises(ClientRequestError):
            sent("chat", None, USER, ASSISTANT, item, USER)


def test_an_output_is_never_refused() -> None:
    """It stands in the history from its first request on."""
    parts = [{"type": "input_text", "text": "x"}, {"type": "input_audio", "input_audio": {}}]
    body, translation = sent("chat", None, USER, call("c"), output("c", parts))
    assert "left out: " in json.dumps(body["messages"][-1])
    assert translation.losses.counts == {LossCode.CONTENT_REPLACED: 1}


def test_a_reference_is_always_refused() -> None:
    with pytest.raises(Unsupported, match="send the item itself"):
        sent("chat", None, USER, {"type": "item_reference", "id": "msg_1"}, ASSISTANT, USER)


@pytest.mark.parametrize("kind", ["compaction", "context_compaction"])
def test_another_providers_compacted_history_is_a_placeholder(kind: str) -> None:
    body, translation = sent("chat", None, {"type": kind, "id": "cmp_1", "encrypted_content": CIPHER}, USER)
    assert body["messages"][0] == {"role": "user", "content": [{"type": "text", "text": COMPACTED}]}
    assert translation.losses.counts == {LossCode.COMPACTION_SHAPE: 1}


def test_broken_reasoning_and_old_triggers_are_left_out() -> None:
    request, rows = read(USER, {"type": "reasoning", "summary": {}}, {"type": "compaction_trigger"}, ASSISTANT, USER)
    assert [turn.role for turn in request.turns] == ["user", "assistant", "user"]
    assert [code for code, _ in rows] == [LossCode.REASONING_UNSIGNED, LossCode.COMPACTION_SHAPE]


def test_long_data_is_not_repeated_as_text() -> None:
    text = item_text({"type": "x", "id": "x_1", "image": PNG + "A" * 5000, "words": "so " * 800, "none": None})
    assert text.startswith('[x] {"image":"[5026 characters of data]","words":"so so ')
    assert "none" not in text
    assert "x_1" not in text


_WORDS = ["message", "function_call", "reasoning", "user", "assistant", "agent_message", "shell_call", "x"]
_KEYS = ["type", "role", "content", "output", "call_id", "name", "text", "summary", "tools"]
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5) | st.sampled_from(_WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=12,
)


@given(_ANYTHING)
def test_no_item_of_the_history_is_refused(item: Any) -> None:
    for upstream, profile in UPSTREAMS:
        sent(upstream, profile, USER, item, ASSISTANT, USER)


def test_many_broken_items_before_many_messages_are_read_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    found = refused_items.current_turn

    def counted(items: list[Any]) -> int:
        searches.append(len(items))
        return found(items)

    monkeypatch.setattr(read_items, "current_turn", counted)
    request, _ = read(*["x"] * 50, ASSISTANT, *[USER] * 50)
    assert len(request.turns) == 101
    assert len(searches) == 1
