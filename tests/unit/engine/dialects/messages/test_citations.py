"""Citations between Messages and the OpenAI dialects: in replies, streamed and whole, and in histories."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import direction, translate
from dragoman.canonical.events import Citation
from dragoman.dialects.messages.citations import read_citation, write_citations
from dragoman.losses import LossCode
from dragoman.reasoning.envelope import TAG, Envelope, unwrap, unwrap_citation
from support.directions import stream_through, translated

Json = dict[str, Any]
URL: Json = {"url": "https://a.example/x", "title": "A", "start_index": 0, "end_index": 5}
NOTES: dict[str, Json] = {
    "chat": {"type": "url_citation", "url_citation": URL},
    "responses": {"type": "url_citation", **URL},
}
FILE: Json = {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0}
FOUND: Json = {
    "type": "web_search_result_location",
    "cited_text": "It is cold.",
    "url": "https://b.example/",
    "title": "B",
    "encrypted_index": "EqQB",
}
RESULT: Json = {
    "type": "search_result_location",
    "cited_text": "x",
    "source": "https://c.example/",
    "title": "C",
    "search_result_index": 0,
    "start_block_index": 0,
    "end_block_index": 1,
}
CHAR: Json = {
    "type": "char_location",
    "cited_text": "x",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 1,
}


def reply_of(upstream: str, *notes: Json) -> bytes:
    """A whole reply whose text cites."""
    usage: Json = {"input_tokens": 1, "output_tokens": 2}
    if upstream == "messages":
        content = [{"type": "text", "text": "Hello", "citations": list(notes)}]
        body: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content}
        body |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
    elif upstream == "chat":
        message = {"role": "assistant", "content": "Hello", "refusal": None, "annotations": list(notes)}
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
        body["choices"] = [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}]
        body["usage"] = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    else:
        part = {"type": "output_text", "text": "Hello", "annotations": list(notes), "logprobs": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
        body = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
        body |= {"output": [item], "usage": usage | {"total_tokens": 3}}
    return json.dumps(body).encode()


def stream_of(upstream: str, *notes: Json) -> bytes:
    """Return the same as a stream."""
    if upstream == "messages":
        named: list[Json] = [
            {
                "type": "message_start",
                "message": json.loads(reply_of("messages")) | {"content": [], "stop_reason": None},
            },
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "citations": []}},
            *(
                {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": note}}
                for note in notes
            ),
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 2},
            },
            {"type": "message_stop"},
        ]
        return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in named)
    if upstream == "chat":
        head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        deltas: list[tuple[Json, str | None]] = [({"content": "Hello"}, None), ({"annotations": list(notes)}, None)]
        deltas.append(({}, "stop"))
        chunks: list[Json] = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} for delta, finish in deltas
        ]
        return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    events: list[Json] = [
        {"type": "response.created", "response": {"id": "resp_1", "model": "m", "created_at": 1}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "m", "delta": "Hello"},
        *(
            {
                "type": "response.output_text.annotation.added",
                "output_index": 0,
                "content_index": 0,
                "item_id": "m",
                "annotation_index": number,
                "annotation": note,
            }
            for number, note in enumerate(notes)
        ),
        {"type": "response.completed", "response": json.loads(reply_of("responses", *notes))},
    ]
    return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)


def cited(client: str, upstream: str, *notes: Json) -> list[tuple[list[Json], list[LossCode]]]:
    """The citations that the client gets of a stream and of a whole reply, each with its rows."""
    row = direction(client, upstream)
    streamed = translated(row)
    out = stream_through(streamed, [stream_of(upstream, *notes)])
    payloads = [json.loads(line[6:]) for line in out.decode().splitlines() if line.startswith("data: {")]
    found: list[Json] = []
    for payload in payloads:
        if client == "messages" and payload["type"] == "content_block_delta":
            found += [payload["delta"]["citation"]] if "citation" in payload["delta"] else []
        elif client == "responses" and payload["type"] == "response.output_text.annotation.added":
            found.append(payload["annotation"])
        elif client == "chat" and payload["choices"]:
            found += payload["choices"][0]["delta"].get("annotations", [])
    one = translated(row, stream=False, **({"stream_options": None} if client == "chat" else {}))
    body = json.loads(one.reply(reply_of(upstream, *notes)))
    if client == "messages":
        whole = body["content"][0].get("citations", [])
    elif client == "chat":
        whole = body["choices"][0]["message"].get("annotations", [])
    else:
        whole = body["output"][0]["content"][0]["annotations"]
    return [(found, codes(streamed)), (whole, codes(one))]


def codes(translation: Any) -> list[LossCode]:
    return [row.code for row in translation.losses.rows if row.code is LossCode.CITATIONS]


@pytest.mark.parametrize("upstream", ["chat", "responses"])
def test_a_web_page_is_cited_to_a_messages_client_without_a_row(upstream: str) -> None:
    for citations, rows in cited("messages", upstream, NOTES[upstream]):
        (citation,) = citations
        envelope = unwrap_citation(citation["encrypted_index"])
        assert envelope is not None
        assert (envelope.dialect, envelope.block) == (upstream, NOTES[upstream])
        assert (citation["type"], citation["url"], citation["title"], citation["cited_text"]) == (
            "web_search_result_location",
            "https://a.example/x",
            "A",
            "",
        )
        assert rows == []


def test_what_names_no_web_page_is_a_row() -> None:
    for citations, rows in cited("messages", "responses", FILE, NOTES["responses"]):
        assert [citation["url"] for citation in citations] == ["https://a.example/x"]
        assert rows == [LossCode.CITATIONS]


@pytest.mark.parametrize("client", ["chat", "responses"])
def test_citations_of_messages_reach_openai_clients_as_annotations(client: str) -> None:
    for citations, rows in cited(client, "messages", FOUND, RESULT):
        flat = [citation.get("url_citation", citation) for citation in citations]
        assert [(note["url"], note["title"], note["start_index"], note["end_index"]) for note in flat] == [
            ("https://b.example/", "B", 0, 5),
            ("https://c.example/", "C", 0, 5),
        ]
        assert {citation["type"] for citation in citations} == {"url_citation"}
        assert rows == []
    for citations, rows in cited(client, "messages", CHAR):
        assert (citations, rows) == ([], [LossCode.CITATIONS])


def replayed(upstream: str, *citations: Json) -> Any:
    stated = {"type": "text", "text": "Hello", "citations": list(citations)}
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [stated]},
        {"role": "user", "content": "?"},
    ]
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": turns}).encode()
    return translate(direction("messages", upstream), body)


@pytest.mark.parametrize("origin", ["chat", "responses"])
def test_a_replayed_citation_is_restored_or_dropped(origin: str) -> None:
    (citation,) = cited("messages", origin, NOTES[origin])[0][0]
    home = replayed(origin, citation)
    sent = json.loads(home.body)
    if origin == "chat":
        assert sent["messages"][1]["annotations"] == [NOTES["chat"]]
    else:
        assert sent["input"][1]["content"][0]["annotations"] == [NOTES["responses"]]
    assert codes(home) == []
    anthropic = replayed("messages", citation, FOUND)
    assert json.loads(anthropic.body)["messages"][1]["content"][0]["citations"] == [FOUND]
    assert codes(anthropic) == [LossCode.CITATIONS]
    alone = replayed("messages", citation)
    assert json.loads(alone.body)["messages"][1]["content"] == [{"type": "text", "text": "Hello"}]
    assert codes(alone) == [LossCode.CITATIONS]
    for other in {"chat", "responses"} - {origin}:
        elsewhere = replayed(other, citation)
        assert TAG.encode() not in elsewhere.body
        assert (b"https://a.example/x" in elsewhere.body) is (codes(elsewhere) == [])


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_a_damaged_or_forged_envelope_is_dropped_everywhere(upstream: str) -> None:
    reasoned = Envelope("f", "m").wrap("messages", {"type": "thinking", "thinking": "x", "signature": "s"})
    forged = Envelope("f", "m").wrap("responses", {"type": "url_citation", "url": 5})
    for index in (TAG + "???", reasoned, forged):
        sent = replayed(upstream, {**FOUND, "encrypted_index": index})
        assert b"b.example" not in sent.body
        assert TAG.encode() not in sent.body
        assert codes(sent) == [LossCode.CITATIONS]


def test_a_citation_is_no_reasoning() -> None:
    """An envelope that is put in another place restores nothing there."""
    wrapped = Envelope("f", "m").wrap("responses", NOTES["responses"])
    envelope = unwrap(wrapped)
    assert envelope is not None
    assert envelope.block is None


def test_a_web_search_citation_has_a_url() -> None:
    native = {"type": "web_search_result_location", "url": "https://a.test", "title": "A", "encrypted_index": "x"}
    citation = read_citation(native)
    assert (citation.url, citation.title, citation.native) == ("https://a.test", "A", native)


def test_foreign_citations_are_never_written() -> None:
    own = read_citation({"type": "char_location", "cited_text": "x"})
    foreign = Citation("chat", {"type": "url_citation"}, "https://a.test", "A", 0, 3)
    assert write_citations([own, foreign]) == [own.native]
