"""Judges one recorded exchange in each direction. Every judgement is a `Verdict`.

A reply is translated for clients of all dialects, whole or as a stream that is cut in three ways. The vendors' SDKs put
the result, and it must have the content of the recorded reply, once. The reply then goes back as history. A recorded
request is translated for the other dialects and checked by the rules of the real APIs. An error must keep its message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from openai._models import construct_type
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from pydantic import TypeAdapter

from dragoman import ClientRequestError, Knobs, UpstreamError, builtin_profile, direction, translate
from dragoman.gateway import ReplyOptions
from dragoman_server.simulator.error_replies import RequestRejected
from oracles.requests import check
from recorded import content
from recorded.extract import Exchange
from recorded.keys import silent_keys
from support.directions import ask, stream_through

Json = dict[str, Any]
DIALECTS = ("chat", "messages", "responses")
_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
_VENDORS_OF_DIALECTS = ("OpenAI", "Azure OpenAI", "Anthropic")
_HEADERS = {"anthropic-version": "2023-06-01"}


class Verdict(NamedTuple):
    """`kind` is what was judged: stream, whole, request, error. `wrong` is empty if it is right, or was refused.

    `refused` is the reason of an error that the client gets in place of a translation. `silent` are keys of a reply
    that were neither carried nor recorded.
    """

    kind: str
    client: str
    upstream: str
    wrong: str = ""
    refused: str = ""
    silent: tuple[str, ...] = ()


def judge(exchange: Exchange) -> Iterator[Verdict]:
    """All verdicts on an exchange."""
    if exchange.request and exchange.status < 400 and exchange.dialect in DIALECTS:
        for upstream in (*DIALECTS, "generate"):
            if upstream != exchange.dialect:
                yield _guarded(_request, "request", exchange, exchange.dialect, upstream)
    if exchange.reply:
        kind = "error" if exchange.status >= 400 else "stream" if exchange.streamed else "whole"
        way = {"error": _error, "stream": _stream, "whole": _whole}[kind]
        for client in DIALECTS:
            yield _guarded(way, kind, exchange, client, exchange.dialect)


def _guarded(way: Any, kind: str, exchange: Exchange, client: str, upstream: str) -> Verdict:
    try:
        verdict: Verdict = way(exchange, Verdict(kind, client, upstream))
        return verdict
    except Exception as error:
        return Verdict(kind, client, upstream, f"{type(error).__name__}: {error}")


def _translation(verdict: Verdict, body: Json, vendor: str) -> Any:
    profile = None if vendor in _VENDORS_OF_DIALECTS or verdict.upstream == "generate" else "compatible"
    return translate(
        direction(verdict.client, verdict.upstream),
        json.dumps(body).encode(),
        profile=builtin_profile(verdict.upstream, profile),
        # Gemini refuses a conversation that begins with the assistant.
        knobs=Knobs(pad_first_user="on" if verdict.upstream == "generate" else "off"),
        options=ReplyOptions(created=1_790_000_000, request_id="req_1"),
    )


def _request(exchange: Exchange, verdict: Verdict) -> Verdict:
    # Azure has the model in the URL.
    body = {"model": "m", **json.loads(exchange.request)}
    try:
        sent = json.loads(_translation(verdict, body, "OpenAI").body)
    except ClientRequestError as error:
        return verdict._replace(refused=str(error))
    if (why := _rejected(verdict.upstream, sent)) and not _rejected(exchange.dialect, body):
        return verdict._replace(wrong=f"the upstream would reject the request: {why}")
    return verdict._replace(refused=f"as its own vendor would: {why}") if why else verdict


def _rejected(dialect: str, body: Json) -> str:
    try:
        check(dialect, body, _HEADERS)
    except RequestRejected as error:
        return f"{error} ({error.param})"
    return ""


def _whole(exchange: Exchange, verdict: Verdict) -> Verdict:
    try:
        original = json.loads(exchange.reply)
    except ValueError:
        return verdict._replace(refused="no JSON with status 200")
    if not isinstance(original, dict) or (original.get("error") and not original.get("output")):
        return verdict._replace(refused="an error with status 200")
    expected = content.of_reply(verdict.upstream, exchange.reply)
    translation = _translation(verdict, ask(verdict.client, stream=False), exchange.vendor)
    try:
        final = json.loads(translation.reply(exchange.reply))
    except UpstreamError as error:
        return verdict._replace(refused=str(error))
    if verdict.client != verdict.upstream:
        final = _validated(verdict.client, final)
        verdict = verdict._replace(silent=silent_keys(verdict.upstream, [original], final, translation.losses))
    return _compared(exchange, verdict, expected, final)


def _stream(exchange: Exchange, verdict: Verdict) -> Verdict:
    expected = content.of_stream(verdict.upstream, exchange.reply)
    seen: list[tuple[content.Content, Json]] = []
    translation, data = None, b""
    for pieces in _splits(exchange.reply):
        translation = _translation(verdict, ask(verdict.client), exchange.vendor)
        data = stream_through(translation, pieces)
        if verdict.client == verdict.upstream:
            noted = content.of_stream(verdict.client, data)
            seen.append((noted, {}))
            continue
        events = _events(data)
        noted = content.of_stream(verdict.client, data)
        if noted.error:
            seen.append((noted, {}))
            continue
        if verdict.client == "chat" and b'"custom":' in data:  # The SDK's snapshot has no free-text calls.
            seen.append((noted, {}))
            continue
        final = _accumulated(verdict.client, events)
        if content.of_reply(verdict.client, json.dumps(final).encode())[:2] != noted[:2]:
            return verdict._replace(wrong="the SDK's snapshot is not what the events add up to")
        seen.append((noted, final))
    noted, final = seen[0]
    if any(other != noted for other, _ in seen[1:]):
        return verdict._replace(wrong="the splits of the stream differ")
    if noted.error and not expected.error:
        return verdict._replace(refused=noted.error)
    if expected.error:
        return verdict if noted.error else verdict._replace(wrong=f"the error is lost: {expected.error}")
    if not final:
        same = noted.calls == expected.calls and same_text(noted.text, expected.text)
        return verdict if same else verdict._replace(wrong=_difference(expected, noted))
    losses = translation.losses if translation else ()
    silent = silent_keys(verdict.upstream, _events(exchange.reply), final, losses, data)
    verdict = verdict._replace(silent=silent)
    return _compared(exchange, verdict, expected, final)


def _splits(data: bytes) -> Iterator[list[bytes]]:
    yield [data]
    yield [frame + b"\n\n" for frame in data.split(b"\n\n")[:-1]] + [data.split(b"\n\n")[-1]]
    yield [data[at : at + 97] for at in range(0, len(data), 97)]


def _events(data: bytes) -> list[Json]:
    lines = [line[5:].strip() for line in data.split(b"\n") if line.startswith(b"data:")]
    return [json.loads(line) for line in lines if line not in (b"[DONE]", b"")]


def _accumulated(client: str, events: list[Json]) -> Json:
    """The final object of the vendor's SDK."""
    if client == "chat":
        state: Any = ChatCompletionStreamState()
        for event in events:
            state.handle_chunk(construct_type(type_=ChatCompletionChunk, value=event))
        return _validated("chat", json.loads(state.current_completion_snapshot.to_json()))
    if client == "messages":
        snapshot: Any = None
        buffers: dict[int, Any] = {}
        for event in events:
            if event["type"] != "ping":
                parsed = _EVENT.validate_python(event)
                snapshot = accumulate_event(event=parsed, current_snapshot=snapshot, json_bufs=buffers)
        return _validated("messages", json.loads(snapshot.to_json()))
    return _validated("responses", events[-1]["response"])


def _validated(client: str, final: Json) -> Json:
    types: dict[str, Any] = {"chat": ChatCompletion, "messages": Message, "responses": Response}
    types[client].model_validate(final)
    return final


def _compared(exchange: Exchange, verdict: Verdict, expected: content.Content, final: Json) -> Verdict:
    noted = content.of_reply(verdict.client, json.dumps(final).encode())
    if noted.calls != expected.calls or not same_text(noted.text, expected.text):
        return verdict._replace(wrong=_difference(expected, noted))
    return verdict if verdict.client == verdict.upstream else _turn_after(exchange, verdict, final)


def same_text(noted: str, expected: str) -> bool:
    """Return whether two texts are equal but for white space: texts of several blocks are joined with empty lines.

    The placeholder for a refusal without a text is no text.
    """
    return _bare(noted) == _bare(expected)


def _bare(text: str) -> str:
    declined = text == content.DECLINED or text.startswith(content.WITHHELD)
    return "" if declined else "".join(text.split())


def _difference(expected: content.Content, noted: content.Content) -> str:
    if not same_text(noted.text, expected.text):
        twice = " (twice)" if same_text(noted.text, expected.text * 2) else ""
        return f"the text differs{twice}: {noted.text[:200]!r} for {expected.text[:200]!r}"
    return f"the calls differ: {noted.calls} for {expected.calls}"[:400]


def _turn_after(exchange: Exchange, verdict: Verdict, final: Json) -> Verdict:
    """The verdict with the reason why the reply cannot go back as history, with a result for each call.

    A key that is no longer in the client's reply, but back in this request, is not silent: it was in an envelope.
    """
    body = _with_history(verdict.client, final)
    try:
        sent = json.loads(_translation(verdict, body, exchange.vendor).body)
        text = json.dumps(sent)
        verdict = verdict._replace(silent=tuple(key for key in verdict.silent if f'"{key}":' not in text))
        check(verdict.upstream, _without_own(sent, exchange), _HEADERS)
    except (ClientRequestError, RequestRejected) as error:
        # OpenAI's rules for ids and items do not hold for what another vendor made and takes back.
        own = exchange.vendor not in _VENDORS_OF_DIALECTS and str(error).startswith(
            ("Invalid 'input[", "Invalid 'mess")
        )
        return verdict if own else verdict._replace(wrong=f"the turn after: {error}")
    return verdict


def _without_own(sent: Json, exchange: Exchange) -> Json:
    """The request without Google's signatures that are in the reply: OpenAI's types have no place for them."""
    original = json.dumps(_events(exchange.reply) if exchange.streamed else json.loads(exchange.reply))
    for message in sent.get("messages") or ():
        for holder in (message, *(message.get("tool_calls") or ())):
            if "extra_content" in holder and json.dumps(holder["extra_content"]) in original:
                del holder["extra_content"]
    return sent


def _with_history(client: str, final: Json) -> Json:
    more: list[Any]
    if client == "responses":
        calls = [item for item in final["output"] if item["type"] in ("function_call", "custom_tool_call")]
        results = [{"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "42"} for item in calls]
        more = [*final["output"], *results, {"role": "user", "content": "And now?"}]
        body = ask(client, tools=[*{item["name"]: _responses_tool(item) for item in calls}.values()])
        return {**body, "input": [*body["input"], *more]}
    if client == "messages":
        uses = [block for block in final["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": block["id"], "content": "42"} for block in uses]
        turn = {"role": "user", "content": [*results, {"type": "text", "text": "And now?"}]}
        more = [{"role": "assistant", "content": final["content"]}, turn] if final["content"] else []
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in {block["name"] for block in uses}]
    else:
        message = {key: value for key, value in final["choices"][0]["message"].items() if key != "parsed"}
        calls = message.get("tool_calls") or []
        for call in calls:
            call.pop("index", None)
            call.get("function", {}).pop("parsed_arguments", None)
        more = [message, *({"role": "tool", "tool_call_id": call["id"], "content": "42"} for call in calls)]
        more.append({"role": "user", "content": "And now?"})
        names = {call["function"]["name"] for call in calls if "function" in call}
        tools = [{"type": "function", "function": {"name": name}} for name in names]
    body = ask(client, **({"tools": tools} if tools else {}))
    return {**body, "messages": [*body["messages"], *more]}


def _responses_tool(item: Json) -> Json:
    if item["type"] == "custom_tool_call":
        return {"type": "custom", "name": item["name"]}
    return {"type": "function", "name": item["name"], "parameters": {"type": "object"}, "strict": False}


def _error(exchange: Exchange, verdict: Verdict) -> Verdict:
    translation = _translation(verdict, ask(verdict.client), exchange.vendor)
    response = translation.error(exchange.status, exchange.reply, {})
    if response.status < 400:
        return verdict._replace(wrong=f"status {response.status} for {exchange.status}")
    message = _error_message(exchange.reply)
    noted = json.loads(response.body) if isinstance(response.body, bytes) else response.body
    if message and message[:25] not in json.dumps(noted, ensure_ascii=False).replace('\\"', '"').replace("\\n", "\n"):
        return verdict._replace(wrong=f"the message is lost: {message[:200]!r} became {noted!r:.200}")
    return verdict


def _error_message(body: bytes) -> str:
    try:
        error = json.loads(body)
    except ValueError:
        return ""
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, dict):
        error = error.get("error") or error.get("message") or error.get("detail") or ""
    if isinstance(error, dict):
        # OpenRouter's own message states only that its provider has one.
        error = "" if error.get("metadata") else error.get("message") or ""
    return error if isinstance(error, str) else ""
