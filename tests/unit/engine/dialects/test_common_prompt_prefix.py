"""The length of the common part of two prompts: digests of the sent bytes, judged as a model server's cache would."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.dialects.common_prompt_prefix import PromptAgreement, PromptDigest, conversation_digest
from dragoman.dialects.directions import direction
from dragoman.translate_request import translate
from support.paths import FIXTURES

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
OURS = {"anthropic": "messages", "chat": "chat", "responses": "responses"}


def turn(words: str, role: str = "user", mark: str = "") -> dict[str, Any]:
    marked = {mark: {"type": "ephemeral"}} if mark else {}
    return {"role": role, "content": [{"type": "text", "text": words, **marked}]}


def body(*turns: Any, **fields: Any) -> bytes:
    return json.dumps({"model": "m", "tools": [{"name": "f"}], "messages": list(turns), **fields}).encode()


def compared(earlier: bytes, later: bytes) -> PromptAgreement:
    return PromptDigest.of(MESSAGES, earlier).agreement(PromptDigest.of(MESSAGES, later))


def test_the_model_of_a_body_that_does_not_name_it() -> None:
    sent = json.dumps({"contents": [{"role": "user", "parts": [{"text": "a"}]}]}).encode()
    digests = [PromptDigest.of(Dialect("generate"), sent, model) for model in ("m", "m", "n")]
    assert digests[0].agreement(digests[1]) == (1, 1.0, None)
    assert digests[0].agreement(digests[2]).broken_by == "model"


A, B, C = turn("a"), turn("b", "assistant"), turn("c")


def test_a_longer_conversation_repeats_the_shorter_one() -> None:
    assert compared(body(A), body(A, B, C)) == (1, 1.0, None)
    assert compared(body(A, B, C), body(A, B, C)) == (3, 1.0, None)


@pytest.mark.parametrize(
    ("later", "turns", "broken_by"),
    [
        (body(A, turn("x"), C), 1, "messages[1]"),
        (body(A), 1, "messages[1]"),
        (body(A, B, C, tools=[{"name": "g"}]), 0, "tools"),
        (body(A, B, C, tools=[]), 0, "tools"),
        (body(A, B, C, system="It is Monday."), 0, "system"),
        (body(A, B, C, model="n"), 0, "model"),
    ],
)
def test_the_first_part_that_differs_is_named(later: bytes, turns: int, broken_by: str) -> None:
    found = compared(body(A, B, C), later)
    assert (found.turns, found.broken_by) == (turns, broken_by)
    assert 0 <= found.share < 1


def test_the_share_is_of_bytes() -> None:
    long = turn("x" * 10_000)
    assert compared(body(long, A), body(long, B)).share > 0.98
    assert compared(body(A, long), body(A, B)).share < 0.02


@pytest.mark.parametrize("key", ["cache_control", "prompt_cache_breakpoint"])
def test_marks_that_move_on_and_lone_texts_are_no_difference(key: str) -> None:
    """T-81: an agent's mark is on the newest message, which is a plain string in the next request."""
    earlier = body(turn("a", mark=key))
    assert compared(earlier, body(A, B)).broken_by is None
    assert compared(earlier, body({"role": "user", "content": "a"}, B)).broken_by is None
    stated = turn(f'a "{key}": {{}},', mark=key)
    assert compared(body(stated), body(turn("a"))).broken_by == "messages[0]"


def test_text_that_looks_like_a_mark_is_text() -> None:
    quoted = '\\"cache_control\\":{}'
    assert compared(body(turn(f"a{quoted}")), body(turn("a"))).broken_by == "messages[0]"


@pytest.mark.parametrize("stated", [{}, {"messages": None}, {"messages": "a"}, {"messages": []}])
def test_odd_bodies_have_a_prompt_too(stated: dict[str, Any]) -> None:
    odd = json.dumps({"model": "m", **stated}).encode()
    assert compared(odd, odd).broken_by is None


def sessions() -> list[tuple[str, list[dict[str, Any]]]]:
    """Recorded requests in which the next one goes on where the one before ended."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(FIXTURES.glob("*.json")):
        recorded = json.loads(path.read_text())
        request = recorded["request"].get("body")
        if recorded["answered_with"] != "count_tokens" and isinstance(request, dict):
            found.setdefault(f"{OURS[recorded['dialect']]}:{recorded['session']}", []).append(request)
    return [(name, bodies) for name, bodies in found.items() if len(bodies) > 1]


def _goes_on(dialect: Dialect, earlier: Any, later: Any) -> bool:
    encoded = [json.dumps(each).encode() for each in (earlier, later)]
    one, two = (PromptDigest.of(dialect, each) for each in encoded)
    return one.agreement(two).broken_by is None


PAIRS = [
    pytest.param(name.partition(":")[0], *pair, id=f"{name}-{number}")
    for name, bodies in sessions()
    for number, pair in enumerate(pairwise(bodies))
    if _goes_on(Dialect(name.partition(":")[0]), *pair)
]


def test_there_are_recorded_sessions_of_each_dialect() -> None:
    assert {pair.values[0] for pair in PAIRS} == {"chat", "messages", "responses"}
    assert len(PAIRS) > 25


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
@pytest.mark.parametrize(("client", "earlier", "later"), PAIRS)
def test_what_agrees_in_the_clients_words_agrees_in_the_upstreams(
    client: str, earlier: Any, later: Any, upstream: str
) -> None:
    """T-81: whatever goes on as it began keeps its prefix through a translation."""
    row = direction(client, upstream)
    first, second = (translate(row, json.dumps(each).encode()).body for each in (earlier, later))
    dialect = row.upstream.dialect
    found = PromptDigest.of(dialect, first).agreement(PromptDigest.of(dialect, second))
    found_tools = [str(each).count("'tool_search_output'") for each in (earlier, later)]
    if upstream != client and found_tools[0] < found_tools[1]:
        # Tools that were found are definitions for an upstream without tool search, and those come first of all.
        assert found.broken_by == "tools"
        return
    assert found.broken_by is None
    assert found.share == 1.0


def conversation(dialect: Dialect = MESSAGES, salt: bytes = b"", **payload: Any) -> bytes:
    return conversation_digest(dialect, payload, salt)


def test_a_conversation_keeps_its_digest_as_it_grows() -> None:
    first = conversation(messages=[turn("a", mark="cache_control")])
    assert first == conversation(messages=[A, B, C]) == conversation(messages=[{"role": "user", "content": "a"}, B])
    assert first != conversation(messages=[C])


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_may_change_within_a_conversation(role: str) -> None:
    first = [{"role": role, "content": "It is noon."}, A]
    later = [{"role": role, "content": "It is one."}, A, B]
    assert conversation(CHAT, messages=first) == conversation(CHAT, messages=later) == conversation(CHAT, messages=[A])


@pytest.mark.parametrize(
    ("dialect", "named"),
    [
        (CHAT, {"prompt_cache_key": "k"}),
        (RESPONSES, {"prompt_cache_key": "k"}),
        (MESSAGES, {"metadata": {"user_id": "k"}}),
    ],
)
def test_the_id_of_a_conversation_comes_before_its_text(dialect: Dialect, named: dict[str, Any]) -> None:
    assert conversation(dialect, messages=[A], **named) == conversation(dialect, messages=[C], **named)
    assert conversation(dialect, messages=[A], **named) != conversation(dialect, messages=[A])


@pytest.mark.parametrize("entries", ["a", [A], [], None, 7, [7], [{"role": "user"}]])
def test_every_conversation_has_a_digest(entries: Any) -> None:
    assert len(conversation(RESPONSES, input=entries)) == 16


def test_clients_with_the_same_text_have_different_digests() -> None:
    assert conversation(messages=[A], salt=b"1") != conversation(messages=[A], salt=b"2")
