"""A Responses upstream's reply for a Messages client: the same in a stream and whole (mapping §5.2, §5.3)."""

from __future__ import annotations

import json
from typing import Any

from dragoman.canonical.events import Citation, RefusalInfo, Stop, StopReason, Usage
from dragoman.canonical.parts import Json, Native, Part, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import events_of
from dragoman.dialects.messages.reply.write import write_reply
from dragoman.dialects.messages.request.read import read_request
from dragoman.dialects.messages.stream.writer import MessagesWriter as Writer
from dragoman.losses import LossCode
from dragoman.reasoning.envelope import Envelope, OpenedEnvelope, unwrap, unwrap_citation
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame
from support.frames import frames_of
from support.messages_frames import written_text

ENVELOPE = Envelope("openai", "gpt")
ITEM: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
URL: dict[str, Any] = {"type": "url_citation", "url": "https://x", "title": "t", "start_index": 0, "end_index": 1}


def hidden(item: Json = ITEM) -> Reasoning:
    return Reasoning("", ("output", 0), "responses", item["encrypted_content"], native=item)


def reply(*parts: Part, reason: StopReason = StopReason.END) -> Reply:
    return Reply("resp_1", "gpt", list(parts), Stop(reason, "completed"), Usage(5, 2, None, 3, 1))


def whole(given: Reply, context: ReplyContext) -> Json:
    body: Json = json.loads(dumps(write_reply(given, context)))
    return body


def accumulated(frames: list[Frame]) -> Json:
    """A stream as the official SDK accumulates it: deltas added up, the last word on the stop and the counts."""
    message: Json = {}
    pieces: dict[int, str] = {}
    for frame in frames:
        event = json.loads(frame.data or b"{}")
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                match delta["type"]:
                    case "input_json_delta":
                        pieces[event["index"]] = pieces.get(event["index"], "") + delta["partial_json"]
                        block["input"] = json.loads(pieces[event["index"]])
                    case "citations_delta":
                        block["citations"] = [*(block["citations"] or ()), delta["citation"]]
                    case form:
                        key = form.removesuffix("_delta")
                        block[key] += delta[key]
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
            case "error":
                raise AssertionError(event)
    return message


def both(given: Reply) -> tuple[Json, ReplyContext]:
    """The reply as the client has it, which must not depend on how it came."""
    contexts = [ReplyContext("m", 1, "req_1", envelope=ENVELOPE) for _ in range(2)]
    streamed = accumulated(frames_of(Writer(contexts[0]).feed(events_of(given))))
    body = whole(given, contexts[1])
    assert streamed == body
    assert contexts[0].losses.counts == contexts[1].losses.counts
    return body, contexts[1]


def test_reasoning_without_text_is_an_empty_block_with_an_envelope() -> None:
    body, context = both(reply(hidden(), Text("Yes")))
    thinking, text = body["content"]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "")
    assert unwrap(thinking["signature"]) == OpenedEnvelope("responses", "openai", "gpt", ITEM)
    assert text == written_text("Yes")
    assert not context.losses.counts


def test_reasoning_with_a_summary_is_shown_and_wrapped() -> None:
    item = {**ITEM, "summary": [{"type": "summary_text", "text": "Hm"}]}
    body, _ = both(reply(Reasoning("Hm", (), "responses", "gAAA", native=item)))
    (thinking,) = body["content"]
    assert thinking == {"type": "thinking", "thinking": "Hm", "signature": ENVELOPE.wrap("responses", item)}


def test_plain_items_of_a_server_without_encryption_are_wrapped_as_well() -> None:
    item: Json = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm"}],
    }
    body, _ = both(reply(Reasoning("Hm", (), "responses", None, native=item)))
    envelope = unwrap(body["content"][0]["signature"])
    assert envelope is not None
    assert envelope.block == item


def test_several_items_keep_an_envelope_each_and_their_places() -> None:
    second = {**ITEM, "id": "rs_2", "encrypted_content": "gBBB"}
    parts: list[Part] = [hidden(), ToolCall("c1", "f", '{"a":1}'), hidden(second), ToolCall("c2", "f", "{}")]
    body, _ = both(reply(*parts, reason=StopReason.TOOL_CALLS))
    assert [block["type"] for block in body["content"]] == ["thinking", "tool_use", "thinking", "tool_use"]
    envelopes = [unwrap(block["signature"]) for block in body["content"][::2]]
    assert [envelope.block if envelope else None for envelope in envelopes] == [ITEM, second]


def test_without_an_envelope_encrypted_reasoning_is_left_out_with_a_row() -> None:
    given = reply(Reasoning("Hm", ("output", 0), "responses", "gAAA"))
    streamed, one = ReplyContext("m"), ReplyContext("m")
    assert accumulated(frames_of(Writer(streamed).feed(events_of(given))))["content"] == whole(given, one)["content"]
    assert streamed.losses.counts == one.losses.counts == {LossCode.REASONING_ENCRYPTED: 1}


def test_a_web_page_is_cited_with_the_annotation_in_an_envelope() -> None:
    body, context = both(reply(Text("Yes", citations=[Citation("responses", URL, URL["url"], URL["title"], 0, 1)])))
    (citation,) = body["content"][0]["citations"]
    envelope = unwrap_citation(citation.pop("encrypted_index"))
    assert envelope is not None
    assert (envelope.dialect, envelope.block) == ("responses", URL)
    assert citation == {"type": "web_search_result_location", "cited_text": "", "url": "https://x", "title": "t"}
    assert not context.losses.counts


def test_citations_of_what_is_no_web_page_are_left_out_with_a_row() -> None:
    citation = Citation("responses", {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0})
    body, context = both(reply(Text("Yes", citations=[citation])))
    assert body["content"] == [written_text("Yes")]
    assert context.losses.counts == {LossCode.CITATIONS: 1}


def test_items_that_only_responses_has_are_left_out_with_a_row() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    body, context = both(reply(Native("responses", "web_search_call", item, LossCode.HOSTED_HISTORY), Text("Yes")))
    assert body["content"] == [written_text("Yes")]
    assert context.losses.counts == {LossCode.HOSTED_HISTORY: 1}


def test_a_refusal_is_text_and_a_reason() -> None:
    given = reply(Refusal("I can't."), reason=StopReason.REFUSAL)
    given.refusal = RefusalInfo()
    body, _ = both(given)
    assert body["content"] == [written_text("I can't.")]
    assert (body["stop_reason"], body["stop_details"]["explanation"]) == ("refusal", "I can't.")


def test_what_is_empty_is_no_block() -> None:
    silent: list[Part] = [Text(""), Reasoning("", (), "responses"), Refusal("")]
    body, context = both(reply(*silent, Text("Yes"), *silent, reason=StopReason.REFUSAL))
    assert body["content"] == [written_text("Yes")]
    assert not context.losses.counts


def test_the_sources_of_an_empty_text_are_left_out_with_a_row() -> None:
    for origin in ("messages", "responses"):
        body, context = both(reply(Text("", citations=[Citation(origin, URL, "https://x")])))
        assert body["content"] == []
        assert context.losses.counts == {LossCode.CITATIONS: 1}


def test_the_client_brings_all_of_it_back() -> None:
    body, context = both(reply(hidden(), ToolCall("c", "f", "{}"), reason=StopReason.TOOL_CALLS))
    asked = {"role": "user", "content": "x"}
    history = {"model": "m", "max_tokens": 5, "messages": [asked, {"role": "assistant", "content": body["content"]}]}
    request = read_request(history, context.losses, context.knobs)
    reasoning, call = request.turns[1].parts
    assert isinstance(reasoning, Reasoning)
    assert (reasoning.origin, reasoning.family, reasoning.native) == ("responses", "openai", ITEM)
    assert isinstance(call, ToolCall)
