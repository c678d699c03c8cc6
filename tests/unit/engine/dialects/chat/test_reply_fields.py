"""Vendors' own keys of Chat replies, whole and streamed: counts, sources, pictures, moderation, tier, price."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Dialect, Direction, Knobs, LossCode, StreamMachine, Translation, builtin_profile, direction
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects.chat.reply_fields import read_sources, usage_elsewhere
from dragoman.losses import Losses

Json = dict[str, Any]
ROWS = [direction(client, "chat") for client in ("messages", "responses")]
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
URL = "https://a.test"
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}


def made(row: Direction, *, requested: bool = True) -> Translation:
    translation = Translation.for_reply(row, "up", profile=builtin_profile("chat"), knobs=Knobs())
    translation.context.moderation_requested = requested
    return translation


def chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more.pop("choice", {})}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [choice], **more}


def whole(translation: Translation, message: Json, choice: Json, **more: Any) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop", **choice}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "up", "choices": [choice], **more}
    written: Json = json.loads(translation.reply(json.dumps(body).encode()))
    return written


def streamed(translation: Translation, *chunks: Json) -> bytes:
    machine: StreamMachine = translation.stream_machine()
    data = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks) + b"data: [DONE]\n\n"
    out = machine.feed(data) + machine.finish()
    assert (translation.failure, translation.violation) == (None, None)
    return out


def last_response(out: bytes) -> Json:
    response: Json = json.loads(out.rstrip().rpartition(b"data: ")[2])["response"]
    return response


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("place", ["choice", "x_groq"])
def test_counts_in_another_place_are_read(row: Direction, place: str) -> None:
    choice: Json = {"usage": USAGE} if place == "choice" else {}
    more: Json = {"x_groq": {"id": "r", "usage": USAGE}} if place == "x_groq" else {}
    one, two = made(row), made(row)
    whole(one, {"content": "Hi"}, choice, **more)
    streamed(two, chunk({"role": "assistant", "content": "Hi"}), chunk({}, "stop", choice=choice, **more))
    for translation in (one, two):
        assert translation.usage is not None
        assert (translation.usage.input_total, translation.usage.output_total) == (5, 3)
        assert LossCode.USAGE_ESTIMATED not in translation.losses.counts


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_sources_beside_the_choices_are_cited_once(row: Direction) -> None:
    extra: Json = {"citations": [URL], "search_results": [{"url": URL, "title": "A"}, {"url": "https://b.test"}]}
    one, two = made(row), made(row)
    body = json.dumps(whole(one, {"content": "Hi"}, {}, **extra))
    frames = [chunk({"role": "assistant", "content": "Hi"}, **extra), chunk({}, "stop", **extra)]
    stream = streamed(two, *frames, {**chunk({}), "choices": [], "usage": USAGE, **extra}).decode()
    for text in (body, stream):
        assert URL in text
        assert "https://b.test" in text
    assert stream.count("citations_delta") in (0, 2)
    assert LossCode.CITATIONS not in {**one.losses.counts, **two.losses.counts}


def test_a_source_that_the_text_cites_already_is_not_added() -> None:
    note = {"type": "url_citation", "url_citation": {"url": URL, "title": "A", "start_index": 0, "end_index": 2}}
    written = whole(made(ROWS[1]), {"content": "Hi", "annotations": [note]}, {}, citations=[URL])
    assert len(written["output"][0]["content"][0]["annotations"]) == 1


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_sources_without_a_text_are_a_row(row: Direction) -> None:
    one, two = made(row), made(row)
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    whole(one, {"content": None, "tool_calls": [call]}, {"finish_reason": "tool_calls"}, citations=[URL])
    streamed(two, chunk({"tool_calls": [{"index": 0, **call}]}), chunk({}, "tool_calls", citations=[URL]))
    assert one.losses.counts[LossCode.CITATIONS] == two.losses.counts[LossCode.CITATIONS] == 1


def test_a_picture_is_an_image_generation_call_for_responses_clients() -> None:
    call = whole(made(ROWS[1]), {"content": None, "images": [PICTURE]}, {})["output"][0]
    assert (call["type"], call["status"], call["result"]) == ("image_generation_call", "completed", "QUJD")
    translation = made(ROWS[1])
    out = streamed(translation, chunk({"role": "assistant", "content": "", "images": [PICTURE]}), chunk({}, "stop"))
    (item,) = last_response(out)["output"]
    assert (item["type"], item["result"]) == ("image_generation_call", "QUJD")
    assert out.count(b"event: response.output_item.done") == 1
    assert LossCode.VENDOR_BLOCK not in translation.losses.counts


@pytest.mark.parametrize(
    ("row", "picture"),
    [(ROWS[0], PICTURE), (ROWS[1], {"type": "image_url", "image_url": {"url": "https://a.test/x.png"}})],
    ids=str,
)
def test_a_picture_without_a_place_is_a_row(row: Direction, picture: Json) -> None:
    one, two = made(row), made(row)
    whole(one, {"content": "Hi", "images": [picture]}, {})
    streamed(two, chunk({"role": "assistant", "content": "Hi"}), chunk({"images": [picture]}), chunk({}, "stop"))
    assert one.losses.counts[LossCode.VENDOR_BLOCK] == two.losses.counts[LossCode.VENDOR_BLOCK] == 1


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_tier_that_served_is_written_and_noted(row: Direction) -> None:
    one, two = made(row), made(row)
    for translation in (one, two):
        translation.context.echo = {"service_tier": "priority"}
    body = whole(one, {"content": "Hi"}, {}, service_tier="default", usage=USAGE)
    out = streamed(
        two, chunk({"role": "assistant", "content": "Hi"}, service_tier="default"), chunk({}, "stop", usage=USAGE)
    )
    assert b"priority" not in out
    if row.client.dialect == "responses":
        assert body["service_tier"] == last_response(out)["service_tier"] == "default"
    else:
        assert body["usage"]["service_tier"] == "standard"
        assert b'"service_tier":"standard"' in out
    assert one.context.service == two.context.service == ServiceReport("default")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_tier_that_comes_with_the_last_chunk_is_at_the_end_alone_whatever_the_reads(row: Direction) -> None:
    """A frame that has been written before the tier was stated does not have it, also if both were read at once."""
    chunks = chunk({"role": "assistant", "content": "Hi"}), chunk({}, "stop", service_tier="priority")
    out = streamed(made(row), *chunks)
    apart, pieces = made(row).stream_machine(), b""
    for each in chunks:
        pieces += apart.feed(b"data: " + json.dumps(each).encode() + b"\n\n")
    assert out == pieces + apart.feed(b"data: [DONE]\n\n") + apart.finish()
    # Messages has a place for it in `message_start` only.
    assert out.count(b'"priority"') == (row.client.dialect is Dialect.RESPONSES)


HIDDEN = (LossCode.UNKNOWN_FIELD, "service_tier", "only in the receipt")


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("tier", ["default", "flex", "batch"])
@pytest.mark.parametrize("late", [False, True])
def test_a_tier_that_the_client_does_not_get_is_a_row(row: Direction, tier: str, late: bool) -> None:
    one, two = made(row), made(row)
    whole(one, {"content": "Hi"}, {}, service_tier=tier)
    stated = {"service_tier": tier}
    streamed(
        two, chunk({"role": "assistant", "content": "Hi"}, **({} if late else stated)), chunk({}, "stop", **stated)
    )
    lacked = tier == ("flex" if row.client.dialect is Dialect.MESSAGES else "batch")
    assert (HIDDEN in one.losses.rows) is lacked
    assert (HIDDEN in two.losses.rows) is (lacked or (late and row.client.dialect is Dialect.MESSAGES))


@pytest.mark.parametrize("row", [*ROWS, direction("chat", "chat")], ids=str)
def test_price_and_searches_are_noted(row: Direction) -> None:
    usage = {**USAGE, "cost": 0.5, "num_search_queries": 2}
    one, two = made(row), made(row)
    whole(one, {"content": "Hi"}, {}, usage=usage)
    streamed(two, chunk({"content": "Hi"}), chunk({}, "stop"), {**chunk({}), "choices": [], "usage": usage})
    assert one.context.service is not None
    assert (one.context.service.cost, one.context.service.searches) == (0.5, 2)
    machine = two.stream_machine()
    data = [chunk({"content": "Hi"}), chunk({}, "stop"), {**chunk({}), "choices": [], "usage": usage}]
    machine.feed(b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in data) + b"data: [DONE]\n\n")
    machine.finish()
    assert two.context.service == one.context.service


def test_the_moderation_that_was_requested_reaches_the_client() -> None:
    result = {"type": "moderation_result", "model": "omni", "flagged": False}
    given = {key: {"type": "moderation_results", "model": "omni", "results": [result]} for key in ("input", "output")}
    assert whole(made(ROWS[1]), {"content": "Hi"}, {}, moderation=given)["moderation"] == {
        "input": result,
        "output": result,
    }
    translation = made(ROWS[1])
    last = {**chunk({}), "choices": [], "moderation": given}
    out = streamed(translation, chunk({"content": "Hi"}), chunk({}, "stop"), last)
    assert last_response(out)["moderation"]["output"] == result
    unasked = made(ROWS[1], requested=False)
    assert "moderation" not in whole(unasked, {"content": "Hi"}, {}, moderation=given)
    assert [row.path for row in unasked.losses.rows if row.code is LossCode.UNKNOWN_FIELD] == ["moderation"]


def test_odd_extras_are_not_read() -> None:
    assert usage_elsewhere({"x_groq": None}, {}) is None
    assert read_sources({"citations": [None, 3, {"url": URL}], "search_results": "x"}, (), Losses())[0].url == URL


def rows_of(translation: Translation) -> list[str]:
    return [row.path for row in translation.losses.rows if row.code is LossCode.UNKNOWN_FIELD]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdicts_of_filters_the_request_id_of_groq_and_a_second_delta_are_rows(row: Direction) -> None:
    verdict = {"hate": {"filtered": False, "severity": "safe"}}
    more: Json = {"prompt_filter_results": [{"prompt_index": 0}], "x_groq": {"id": "req_1"}}
    one, two = made(row), made(row)
    choice: Json = {"content_filter_results": verdict}
    whole(one, {"content": "Hi"}, {**choice, "delta": {"role": "assistant"}}, **more, usage=USAGE)
    first = {**chunk({}), "choices": [], **more}
    streamed(two, first, *(chunk({"content": text}, choice=choice) for text in "abc"), chunk({}, "stop", usage=USAGE))
    both = ["choices[0].content_filter_results", "prompt_filter_results", "x_groq.id"]
    assert sorted(rows_of(two)) == both
    assert sorted(rows_of(one)) == sorted([*both, "choices[0].delta"])


@pytest.mark.parametrize("key", ["stop_reason", "matched_stop"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_matched_stop_that_no_client_sent_is_a_row(row: Direction, key: str) -> None:
    for value, sent, rows in ((154_827, (), 1), ("###", (), 1), ("###", ("###",), 0), (None, (), 0)):
        one, two = made(row), made(row)
        one.context.sent_stops = two.context.sent_stops = sent
        whole(one, {"content": "Hi"}, {key: value}, usage=USAGE)
        streamed(two, chunk({"content": "Hi"}), chunk({}, "stop", choice={key: value}, usage=USAGE))
        for translation in (one, two):
            assert rows_of(translation) == [f"choices[0].{key}"] * rows


def test_the_title_of_a_citation_is_read_and_its_other_keys_are_rows() -> None:
    losses = Losses()
    [source] = read_sources({"citations": [{"url": URL, "title": "A", "zz": 1}]}, (), losses)
    assert (source.url, source.title) == (URL, "A")
    assert [row.path for row in losses.rows] == ["citations.zz"]
