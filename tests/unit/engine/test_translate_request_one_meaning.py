"""Requests that break their dialect's rules but have one meaning are sent with that meaning, in every direction."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from dragoman.losses import LossCode
from support.canonical_turns import PNG, translated

Json = dict[str, Any]
DIALECTS = ("chat", "messages", "responses")
DIRECTIONS = list(product(DIALECTS, DIALECTS))
REWRITTEN = {"rewrite": True}
SCHEMA: Json = {"type": "object", "properties": {}}
TOOLS: dict[str, Json] = {
    "chat": {"type": "function", "function": {"name": "f", "parameters": SCHEMA}},
    "messages": {"name": "f", "input_schema": SCHEMA},
    "responses": {"type": "function", "name": "f", "parameters": SCHEMA},
}


CAPS = {"chat": "max_tokens", "messages": "max_tokens", "responses": "max_output_tokens"}


def asked(dialect: str, content: Any = "go", **fields: Any) -> Json:
    """A request of one user turn."""
    body: Json = {"model": "m", CAPS[dialect]: 9000, **fields}
    body["input" if dialect == "responses" else "messages"] = [{"role": "user", "content": content}]
    return body


def choice(upstream: str, body: Json) -> Any:
    """The choice that is sent: `required`, `auto`, `none`, or the name of a tool."""
    sent = body["tool_choice"]
    if upstream == "messages":
        return sent["name"] if sent["type"] == "tool" else {"any": "required"}.get(sent["type"], sent["type"])
    return sent if isinstance(sent, str) else (sent.get("function") or sent)["name"]


FORMS: list[tuple[Any, str]] = [
    ("any", "required"),
    ("required", "required"),
    ("auto", "auto"),
    ({"type": "any"}, "required"),
    ({"type": "required"}, "required"),
    ({"type": "auto"}, "auto"),
    ({"type": "tool", "name": "f"}, "f"),
    ({"type": "function", "name": "f"}, "f"),
    ({"type": "function", "function": {"name": "f"}}, "f"),
]


@pytest.mark.parametrize(("given", "meant"), FORMS, ids=[json.dumps(given) for given, _ in FORMS])
@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
def test_a_tool_choice_in_the_words_of_another_dialect(client: str, upstream: str, given: Any, meant: str) -> None:
    body = asked(client, tools=[TOOLS[client]], tool_choice=given)
    sent, _ = translated(client, upstream, body, flags=REWRITTEN)
    assert choice(upstream, sent) == meant


IMAGES: list[tuple[str, Json]] = [
    ("chat", {"type": "image_url", "image_url": f"data:image/png;base64,{PNG}"}),
    ("chat", {"type": "image_url", "image_url": {"url": PNG}}),
    ("chat", {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}),
    ("responses", {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}),
    ("responses", {"type": "input_image", "image_url": {"url": f"data:image/png;base64,{PNG}"}}),
    ("responses", {"type": "input_image", "image_url": PNG}),
]


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize(("client", "part"), IMAGES)
def test_an_image_in_another_form(client: str, part: Json, upstream: str) -> None:
    sent, made = translated(client, upstream, asked(client, [part]), flags=REWRITTEN)
    text = json.dumps(sent)
    assert PNG in text
    assert "image/png" in text
    assert not made.losses


PDF = "JVBERi0xLjcK"
FILES: list[tuple[str, Json]] = [
    ("chat", {"type": "document_url", "document_url": f"data:application/pdf;base64,{PDF}", "document_name": "a.pdf"}),
    ("chat", {"type": "document_url", "document_url": {"url": f"data:application/pdf;base64,{PDF}"}}),
    ("chat", {"type": "file_url", "file_url": {"url": f"data:application/pdf;base64,{PDF}"}}),
    ("chat", {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}),
    ("chat", {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}),
    ("responses", {"type": "input_file", "filename": "a.pdf", "file_data": PDF}),
    ("responses", {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}),
]


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize(("client", "part"), FILES)
def test_a_file_in_another_form(client: str, part: Json, upstream: str) -> None:
    sent, made = translated(client, upstream, asked(client, [part]), flags=REWRITTEN)
    text = json.dumps(sent)
    assert PDF in text
    assert "application/pdf" in text
    assert not made.losses


LINKS: list[tuple[str, Json]] = [
    ("chat", {"type": "document_url", "document_url": "https://a.example/a.pdf"}),
    ("chat", {"type": "file_url", "file_url": {"url": "https://a.example/a.pdf"}}),
    ("chat", {"type": "file", "file": {"file_url": "https://a.example/a.pdf"}}),
    ("responses", {"type": "input_file", "file_data": "https://a.example/a.pdf"}),
]


@pytest.mark.parametrize("upstream", ["messages", "responses"])
@pytest.mark.parametrize(("client", "part"), LINKS)
def test_a_documents_address_in_another_form(client: str, part: Json, upstream: str) -> None:
    sent, _ = translated(client, upstream, asked(client, [part]), flags=REWRITTEN)
    assert "https://a.example/a.pdf" in json.dumps(sent)


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize(("client", "kind"), [("chat", "input_text"), ("chat", "output_text"), ("responses", "text")])
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_a_text_of_another_dialect(client: str, kind: str, role: str, upstream: str) -> None:
    body = asked(client)
    turns = body.get("messages") or body["input"]
    turns.insert(0, {"role": role, "content": [{"type": kind, "text": "hello"}]})
    sent, made = translated(client, upstream, body, flags=REWRITTEN)
    assert "hello" in json.dumps(sent)
    assert not made.losses


@pytest.mark.parametrize("blank", [None, "", " \n", [], [{"type": "text", "text": ""}]])
@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
def test_instructions_without_a_word_of_the_users(client: str, upstream: str, blank: Any) -> None:
    if client == "messages":
        body = asked(client, blank or "", system="Say hi.")
    elif client == "chat":
        body = asked(client, blank or "")
        body["messages"].insert(0, {"role": "system", "content": "Say hi."})
        if blank is None:
            del body["messages"][1]
    else:
        body = asked(client, "" if blank is None else blank, instructions="Say hi.")
        if blank is None:
            del body["input"]
        elif blank == []:
            body["input"] = []
    sent, made = translated(client, upstream, body, flags=REWRITTEN)
    if upstream == "messages":
        assert sent["messages"] == [{"role": "user", "content": "Say hi."}]
        assert "system" not in sent
        assert made.losses.counts[LossCode.SYSTEM_DEMOTED] == 1
    elif upstream == "chat":
        assert sent["messages"][0]["content"] == "Say hi."
    else:
        assert "Say hi." in json.dumps(sent)
        assert sent["input"]


@pytest.mark.parametrize("arguments", ["[]", " [] ", "", " "])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_empty_arguments_as_php_writes_them(client: str, arguments: str) -> None:
    body = asked(client)
    if client == "chat":
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
        body["messages"] += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
        ]
    else:
        body["input"] += [
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments},
            {"type": "function_call_output", "call_id": "c", "output": "ok"},
        ]
    sent, _ = translated(client, "messages", body)
    assert sent["messages"][1]["content"][0]["input"] == {}


@pytest.mark.parametrize("upstream", DIALECTS)
def test_arguments_that_are_an_object(upstream: str) -> None:
    body = asked("chat")
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    body["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]
    sent, _ = translated("chat", upstream, body, flags=REWRITTEN)
    if upstream == "messages":
        assert sent["messages"][1]["content"][0]["input"] == {"a": 1}
    elif upstream == "chat":
        assert json.loads(sent["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"a": 1}
    else:
        assert json.loads(sent["input"][1]["arguments"]) == {"a": 1}


@pytest.mark.parametrize("thinking", ["so it is", [{"type": "text", "text": "so "}, {"type": "text", "text": "it is"}]])
@pytest.mark.parametrize("upstream", DIALECTS)
def test_thinking_of_mistrals_replies_is_reasoning(upstream: str, thinking: Any) -> None:
    body = asked("chat")
    parts = [{"type": "thinking", "thinking": thinking, "closed": True}, {"type": "text", "text": "done"}]
    body["messages"] += [{"role": "assistant", "content": parts}, {"role": "user", "content": "on"}]
    sent, made = translated("chat", upstream, body, flags=REWRITTEN)
    assert "done" in json.dumps(sent)
    if upstream == "chat":
        assert sent["messages"][1]["reasoning_content"] == "so it is"
    else:
        assert "so it is" not in json.dumps(sent)
        assert made.losses.counts == {"reasoning_unsigned": 1}
