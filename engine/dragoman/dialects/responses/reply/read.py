"""A whole Responses reply to the canonical reply (mapping §9.1 to §9.4)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import CUTS
from dragoman.canonical.parts import Json, Native, Part, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import read_error_payload
from dragoman.dialects.responses.reply.read_items import (
    ARGUMENTS,
    NATIVE_ITEMS,
    ItemKind,
    call_name,
    call_text,
    check_role,
    is_cut,
    item_kind,
    join_paragraphs,
    namespace_of,
    part_kind,
    read_citations,
    read_encrypted_content,
    read_logprobs,
    reasoning_texts,
    record_call_losses,
)
from dragoman.dialects.responses.reply_fields import read_response, record_unknown_item
from dragoman.dialects.responses.stop_and_usage import DIALECT, ENDED, read_usage, resolve_stop_reason
from dragoman.dialects.shared.json_fields import kind_of, read_timestamp
from dragoman.dialects.shared.odd_arguments import form_of, read_odd
from dragoman.dialects.shared.stop_words import is_shown
from dragoman.dialects.shared.streamed_arguments import Arguments, ReplyBudget
from dragoman.errors import Failure, FailureKind, Path, UpstreamProtocolError, UpstreamStatusError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.duplicate_call_ids import mint_call_id
from dragoman.wire.json_codec import dumps, loads


def read_reply(body: Any, context: ReplyContext) -> Reply:
    """Return the canonical reply. Items of unknown type are dropped, with a loss.

    Raises `UpstreamStatusError` for a response that failed or was cancelled, `UpstreamProtocolError` for an unfinished
    or invalid one.
    """
    if type(body) is not dict:
        raise UpstreamProtocolError(f"expected a response (an object), got {kind_of(body)}")
    read_response(body, (), context)
    status = read_status(body)
    output = read_output(body, context)
    if output is None and status is not None and "output" in body:
        output = []
    if type(output) is not list:
        raise UpstreamProtocolError(f"output: expected an array, got {kind_of(output)}")
    identity = _string(body.get("id"))
    parts: list[Part] = []
    cut: list[int] = []
    for position, item in enumerate(output):
        if item is None:
            continue
        if type(item) is not dict:
            raise UpstreamProtocolError(f"output[{position}]: expected an item (an object), got {kind_of(item)}")
        kind = item_kind(item, context)
        _read_item(item, kind, position, identity, parts, context)
        if kind == "call" and is_cut(item, cut=status == "incomplete"):
            cut.append(len(parts) - 1)
    kinds = set(map(type, parts))
    calls, refusal = ToolCall in kinds, Refusal in kinds
    shown, losses = is_shown(parts), context.losses
    stop = resolve_stop_reason(body, status, calls=calls, refusal=refusal, shown=shown, losses=losses)
    if calls and stop.reason not in CUTS:
        _check_calls(parts, cut, context)
    model, created = _string(body.get("model")), read_timestamp(body.get("created_at"))
    return Reply(identity, model, parts, stop, read_usage(body.get("usage")), created, None, frozenset(cut))


def read_output(response: Json, context: ReplyContext) -> Any:
    """Return the `output` of a response, or one message with its `output_text` if there are no items.

    `output_text` is a property of the SDKs' objects. Servers that encode such an object send it, some of them alone.
    """
    output, text = response.get("output"), response.get("output_text")
    if output or type(text) is not str or not text:
        return output
    context.losses.add(LossCode.REPLY_REPAIRED, "output_text", "the text was in output_text only")
    part = {"type": "output_text", "text": text, "annotations": []}
    return [{"type": "message", "role": "assistant", "status": "completed", "content": [part]}]


def read_snapshot(data: bytes) -> bytes | None:
    """Return the response in a stream's last event as JSON, or None if it has no output: some servers leave it out."""
    event = loads(data)
    response = event.get("response") if type(event) is dict else None
    if type(response) is not dict or not response.get("output"):
        return None
    return dumps(response)


def read_status(response: Json, terminal: str | None = None) -> str | None:
    """Return the status of a finished response, or None if neither it nor `terminal` has a known one.

    `terminal` is the status that a stream's terminal event means. Raises `UpstreamStatusError` if the response failed
    or was cancelled, `UpstreamProtocolError` if it is not finished.
    """
    status, error = response.get("status"), response.get("error")
    if type(status) is str and status not in ENDED:
        status = status.lower()
    if terminal == "failed" or terminal == "cancelled":
        status = terminal
    elif type(status) is not str or status not in ENDED:
        if terminal is None and status in ("queued", "in_progress") and not error:
            raise UpstreamProtocolError(f"upstream answered with a response that is not finished: {status}")
        status = terminal
    elif terminal == "incomplete" and status == "completed":
        status = terminal
    if error or status == "failed":
        raise UpstreamStatusError(read_error_payload({"error": error} if error else {}, Dialect.RESPONSES))
    if status == "cancelled":
        raise UpstreamStatusError(
            Failure(FailureKind.API, "the response was cancelled at the upstream", 502, code="cancelled")
        )
    details = response.get("incomplete_details")
    if type(details) is dict and details.get("reason"):  # some servers call this completed
        return "incomplete"
    return status


def _string(value: Any) -> str:
    return value if type(value) is str else ""


def _read_item(
    item: Json, kind: ItemKind, position: int, identity: str, parts: list[Part], context: ReplyContext
) -> None:
    at: Path = ("output", position)
    record_unknown_item(item, at, context)
    if kind == "message":
        _read_message(item, at, parts, context)
    elif kind == "reasoning":
        parts.append(_read_reasoning(item, at, context))
    elif kind == "call":
        parts.append(_read_call(item, position, identity, at, parts, context))
    elif kind == "native":
        name = item["type"]
        parts.append(Native(DIALECT, name, item, NATIVE_ITEMS[name], at))
    else:
        context.losses.add(LossCode.UNKNOWN_EVENT, at, f"an item of type {item.get('type')!r} was left out")


def _read_message(item: Json, at: Path, parts: list[Part], context: ReplyContext) -> None:
    losses = context.losses
    check_role(item)
    if item.get("phase") is not None:
        losses.add(LossCode.PHASE, (*at, "phase"))
    content = item.get("content") or []
    if type(content) is str:
        losses.add_once(LossCode.REPLY_REPAIRED, "output", "content was a string instead of an array")
        content = [{"type": "output_text", "text": content}]
    if type(content) is not list:
        raise UpstreamProtocolError(f"upstream sent a message whose content is {kind_of(content)}, not an array")
    for number, raw in enumerate(content):
        if not raw:
            continue
        where = (*at, "content", number)
        known = part_kind(raw)
        if known is None:
            losses.add(LossCode.UNKNOWN_EVENT, where, "a part of unknown type was left out")
            continue
        kind, key = known
        text = raw.get(key) or ""
        if type(text) is not str:
            raise UpstreamProtocolError(f"upstream sent a {raw['type']} part whose {key} is {kind_of(text)}")
        if kind == "refusal":
            parts.append(Refusal(text, where))
        else:
            citations = read_citations(raw, (*where, "annotations"), losses) if raw.get("annotations") else []
            apart = number == 0 and len(parts) > 0
            parts.append(Text(text, where, None, citations, read_logprobs(raw, context) or None, apart))


def _read_reasoning(item: Json, at: Path, context: ReplyContext) -> Reasoning:
    content, summary = reasoning_texts(item)
    if any(content):
        text = join_paragraphs(content)
        if any(summary):
            context.losses.add(
                LossCode.UNKNOWN_EVENT, (*at, "summary"), "the reasoning itself is shown, not its summary"
            )
    else:
        text = join_paragraphs(summary)
    encrypted, native = read_encrypted_content(item, context)
    return Reasoning(text, at, DIALECT, encrypted, native=native)


def _read_call(
    item: Json, position: int, identity: str, at: Path, parts: list[Part], context: ReplyContext
) -> ToolCall:
    name = call_name(item)
    if not name:
        raise UpstreamProtocolError("upstream called a tool without a name")
    record_call_losses(item, at, context.losses)
    kind = item["type"]
    call_id = item.get("call_id")
    if type(call_id) is not str or not call_id or any(type(part) is ToolCall and part.id == call_id for part in parts):
        given = call_id if type(call_id) is str else ""
        call_id = mint_call_id(given, identity, position, at, context.losses.add)
    if type(item.get("arguments")) is dict and kind == "function_call":
        context.losses.add_once(LossCode.REPLY_REPAIRED, at, "arguments were an object instead of text")
    text = call_text(item, ARGUMENTS[kind])
    if kind == "function_call" and form_of(text) and (odd := read_odd(text)) is not None:
        text, repair = odd
        context.losses.add_once(LossCode.REPLY_REPAIRED, at, repair)
    return ToolCall(
        call_id,
        context.names.get(name, name),
        text,
        at,
        custom=kind == "custom_tool_call",
        namespace=namespace_of(item),
        search=kind == "tool_search_call",
    )


def _check_calls(parts: list[Part], cut: list[int], context: ReplyContext) -> None:
    """Raise UpstreamProtocolError for an incomplete call. Only called for complete replies."""
    budget = ReplyBudget(context.limits)
    for position, part in enumerate(parts):
        if type(part) is ToolCall:
            if position in cut:
                raise cut_call_error(part.name)
            arguments = Arguments(budget, part.name)
            arguments.add(part.arguments)
            if not part.custom:
                arguments.check()


def cut_call_error(name: str) -> UpstreamProtocolError:
    """Return the error of a call that was cut off in a complete reply."""
    return UpstreamProtocolError(f"upstream completed the reply although its call of {name!r} is incomplete")
