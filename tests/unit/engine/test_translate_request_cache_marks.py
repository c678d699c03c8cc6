"""Cache marks that Claude rejects: one of an hour behind a shorter one. And marks that state no lifetime themselves."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.losses import LossCode
from support.canonical_turns import translated

Json = dict[str, Any]
PLACES = ("tools", "system", "first", "last")
ROUTERS = ("openrouter", "litellm", "qwen")


def mark(ttl: str | None) -> Json:
    return {"cache_control": {"type": "ephemeral"} | ({"ttl": ttl} if ttl else {})}


def text(words: str, ttl: str | None, on: bool) -> Json:
    return {"type": "text", "text": words} | (mark(ttl) if on else {})


def request(client: str, ttls: dict[str, str | None]) -> Json:
    """A conversation with a mark in each of these places."""

    def at(place: str) -> Json:
        return text(place, ttls.get(place), place in ttls)

    system, first, last = at("system"), at("first"), at("last")
    tool_mark = mark(ttls["tools"]) if "tools" in ttls else {}
    schema: Json = {"type": "object", "properties": {}}
    turns = [
        {"role": "user", "content": [first]},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": [last]},
    ]
    if client == "messages":
        tools = [{"name": "f", "input_schema": schema} | tool_mark]
        return {"model": "m", "max_tokens": 9, "tools": tools, "system": [system], "messages": turns}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}} | tool_mark]
    return {"model": "m", "tools": tools, "messages": [{"role": "system", "content": [system]}, *turns]}


def marks(body: Any) -> list[str]:
    """The lifetimes of the marks that are sent, in the order of the prompt: tools, instructions, messages."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key != "cache_control":
                    walk(inner)
            if "cache_control" in value:
                found.append(value["cache_control"].get("ttl", "5m"))
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk([body.get("tools"), body.get("system"), body["messages"]])
    return [*found, *([body["cache_control"].get("ttl", "5m")] if "cache_control" in body else [])]


def allowed(ttls: list[str]) -> bool:
    """Anthropic's rule: marks of an hour come before all others."""
    return sorted(ttls) == ttls  # "1h" < "5m"


@pytest.mark.parametrize("ttls", list(product([None, "5m", "1h"], repeat=4)))
@pytest.mark.parametrize("client", ["chat", "messages"])
def test_no_mark_of_an_hour_stands_behind_a_shorter_one(client: str, ttls: tuple[str | None, ...]) -> None:
    """T-45: Claude answers 400."""
    body = request(client, dict(zip(PLACES, ttls, strict=True)))
    sent, made = translated(client, "messages", body, flags={"rewrite": True})
    given = [ttl or "5m" for ttl in ttls]
    short = given.index("5m") if "5m" in given else len(given)
    assert marks(sent) == [*given[:short], *["5m"] * (len(given) - short)]
    assert made.losses.counts.get(LossCode.CACHE_HINT, 0) == given[short:].count("1h")


@given(
    ttls=st.dictionaries(st.sampled_from(PLACES), st.sampled_from([None, "5m", "1h"])),
    own=st.sampled_from([None, "5m", "1h", "absent"]),
    profile=st.sampled_from(["anthropic", "bedrock-invoke", "copilot"]),
)
def test_the_mark_of_the_request_itself_counts_as_the_last(
    ttls: dict[str, str | None], own: str | None, profile: str
) -> None:
    body = request("messages", ttls) | ({} if own == "absent" else mark(own))
    sent, made = translated("messages", "messages", body, profile=profile, flags={"rewrite": True})
    found = marks(sent)
    assert allowed(found)
    assert len(found) == min(len(ttls) + (own != "absent"), 4)
    changed = [row for row in made.losses.rows if row.code == "cache_hint"]
    given = [*(ttls[place] or "5m" for place in PLACES if place in ttls), *([] if own == "absent" else [own or "5m"])]
    assert len(changed) >= sum(a != b for a, b in zip(given[-4:], found, strict=True))


@pytest.mark.parametrize("profile", ["kimi", "vllm", "llama.cpp"])
def test_the_mark_of_the_request_has_a_row_where_marks_are_not_taken(profile: str) -> None:
    sent, made = translated("messages", "messages", request("messages", {}) | mark("1h"), profile=profile)
    assert "cache_control" not in sent
    assert [(row.code, row.path) for row in made.losses.rows] == [("cache_hint", "cache_control")]


@pytest.mark.parametrize("profile", ROUTERS)
def test_routers_to_claude_get_no_mark_of_an_hour_behind_a_shorter_one(profile: str) -> None:
    for ttls in product([None, "1h"], repeat=3):
        body = request("messages", dict(zip(PLACES[1:], ttls, strict=True)))
        sent, _ = translated("messages", "chat", body, profile=profile)
        assert allowed(marks(sent))
        assert len(marks(sent)) == 3


def test_late_instructions_move_in_front_of_marks() -> None:
    body = request("messages", {"first": "1h", "last": "1h"})
    body["messages"].insert(1, {"role": "system", "content": [text("late", "5m", True)]})
    sent, _ = translated("messages", "messages", body, profile="bedrock-invoke", mid_system="hoist")
    assert marks(sent) == ["5m", "5m", "5m"]


def test_marks_inside_results_and_documents_have_their_place() -> None:
    document = {"type": "document", "source": {"type": "content", "content": [text("in", "5m", True)]}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [text("found", "1h", True)], **mark("1h")}
    body: Json = {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": [document]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
            {"role": "user", "content": [result]},
        ],
    }
    sent, _ = translated("messages", "messages", body, profile="bedrock-invoke")
    assert marks(sent) == ["5m", "5m", "5m"]


@pytest.mark.parametrize(("ttl", "sent_ttl"), [("30m", "5m"), ("12h", "1h"), (None, None), ("9d", None)])
@pytest.mark.parametrize("client", ["chat", "responses"])
@pytest.mark.parametrize(("upstream", "profile"), [("messages", None), ("chat", "openrouter")])
def test_marks_inherit_the_lifetime_of_the_options(
    client: str, upstream: str, profile: str | None, ttl: str | None, sent_ttl: str | None
) -> None:
    kind = "text" if client == "chat" else "input_text"
    part = {"type": kind, "text": "go", "prompt_cache_breakpoint": {"mode": "explicit"}}
    options = {"mode": "explicit"} | ({"ttl": ttl} if ttl else {})
    body: Json = {"model": "m", "prompt_cache_options": options}
    body["messages" if client == "chat" else "input"] = [{"role": "user", "content": [part]}]
    sent, _ = translated(client, upstream, body, profile=profile, flags={"rewrite": True})
    (mark_sent,) = (part["cache_control"] for part in sent["messages"][0]["content"])
    if upstream == "chat" and ttl == "9d":
        sent_ttl = "9d"
    assert mark_sent.get("ttl") == sent_ttl


def test_marks_of_chat_requests_reach_claude_on_parts_and_tools() -> None:
    body = request("chat", dict.fromkeys(PLACES, "1h"))
    sent, made = translated("chat", "messages", body)
    assert marks(sent) == ["1h"] * 4
    assert not made.losses
    body["tools"][0] = {"type": "function", "function": {"name": "f", **mark("1h")}}
    assert translated("chat", "messages", body)[0]["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


CITED = {
    "type": "char_location",
    "cited_text": "x",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 1,
}


def cited(place: str) -> tuple[Json, str]:
    """A request with a citation on one text outside the assistant's turns, and the path of that text."""
    block = {"type": "text", "text": "x", "citations": [CITED]}
    plain = {"type": "text", "text": "y"}
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    result: Json = {"type": "tool_result", "tool_use_id": "c", "content": [block if place == "result" else plain]}
    found = {"type": "search_result", "source": "s", "title": "t", "content": [block]}
    body: Json = {
        "model": "m",
        "max_tokens": 9,
        "system": [block if place == "system" else plain],
        "messages": [
            {"role": "user", "content": [{"search": found, "user": block}.get(place, plain)]},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "system", "content": [block if place == "late system" else plain]},
        ],
    }
    path = {
        "system": "system[0]",
        "user": "messages[0].content[0]",
        "search": "messages[0].content[0].content[0]",
        "result": "messages[2].content[0].content[0]",
        "late system": "messages[3].content[0]",
    }[place]
    return body, path


@pytest.mark.parametrize("place", ["system", "user", "result", "search", "late system"])
@pytest.mark.parametrize("upstream", ["chat", "responses"])
def test_a_citation_outside_the_assistants_turns_has_a_row(upstream: str, place: str) -> None:
    body, path = cited(place)
    _, made = translated("messages", upstream, body)
    assert ("citations", path) in [(row.code, row.path) for row in made.losses.rows]


@pytest.mark.parametrize("place", ["system", "user", "result", "search", "late system"])
def test_a_rewritten_route_keeps_it(place: str) -> None:
    body, _ = cited(place)
    sent, made = translated("messages", "messages", body, flags={"rewrite": True})
    assert json.dumps(sent).count("char_location") == 1
    assert "citations" not in made.losses.counts


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_included_data_that_no_other_upstream_has_is_a_row(upstream: str) -> None:
    wanted = ["reasoning.encrypted_content", "web_search_call.action.sources", "code_interpreter_call.outputs"]
    body = {"model": "m", "input": "go", "include": wanted}
    _, made = translated("responses", upstream, body, flags={"rewrite": True})
    rows = [(row.code, row.path) for row in made.losses.rows]
    assert rows == [("vendor_option", "include[1]"), ("vendor_option", "include[2]")]


def test_the_binding_of_thinking_is_a_row() -> None:
    binding = {"prefix_mismatch_behavior": "drop_block"}
    body = request("messages", {}) | {"thinking": {"type": "adaptive", "block_binding": binding}}
    _, made = translated("messages", "chat", body)
    assert ("reasoning_mode", "thinking.block_binding") in [(row.code, row.path) for row in made.losses.rows]
