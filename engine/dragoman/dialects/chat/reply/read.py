"""Reads a complete Chat reply into a canonical `Reply` (mapping §9.1 to §9.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.events import CUTS, IMAGE, Citation
from dragoman.canonical.parts import Json, Native, Part, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.dialects import Dialect
from dragoman.dialects.chat.call_body import call_body
from dragoman.dialects.chat.citations import read_citation
from dragoman.dialects.chat.content_parts import read_content_parts
from dragoman.dialects.chat.extra_content import EXTRA_KEY, OF_MESSAGE, read_signed, signature_of
from dragoman.dialects.chat.images import read_images
from dragoman.dialects.chat.odd_forms import usual_reply
from dragoman.dialects.chat.reasoning_details import DETAILS_KEY, read_details
from dragoman.dialects.chat.reasoning_fields import reasoning_text, record_dropped_proofs, record_unread
from dragoman.dialects.chat.reply_fields import (
    BODY,
    CHOICE_USED,
    MESSAGE,
    completion_text,
    note_usage,
    read_extras,
    read_matched_stop,
    read_sources,
    record_unknown_annotation,
    record_unknown_call,
    record_unsigned,
    usage_elsewhere,
)
from dragoman.dialects.chat.stop_and_usage import DIALECT, read_finish_reason, read_usage, resolve_stop_reason
from dragoman.dialects.errors.read import read_error_payload
from dragoman.dialects.openai.logprobs import read_logprobs
from dragoman.dialects.shared.json_fields import (
    is_empty,
    is_others_role,
    kind_of,
    parse_object,
    read_timestamp,
    record_unknown,
)
from dragoman.dialects.shared.odd_arguments import read_odd
from dragoman.dialects.shared.service_report import note_tier
from dragoman.dialects.shared.stop_words import is_shown
from dragoman.errors import Path, UpstreamProtocolError, UpstreamStatusError
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.tools.duplicate_call_ids import mint_call_id
from dragoman.wire.json_codec import dumps, loads

_MESSAGE: Path = ("choices", 0, "message")
_FINISH: Path = ("choices", 0, "finish_reason")
_LOGPROBS: Path = ("choices", 0, "logprobs")
AUDIO = "no client of another dialect can be given audio"
_CHOICE = CHOICE_USED - {"delta"}
_WHOLE: frozenset[int] = frozenset()
"""Positions of cut parts, of which a complete reply has none."""
_STANDARD = frozenset(("role", "content", "refusal", "annotations", "audio", "function_call", "tool_calls"))
"""The members of a message that OpenAI defines. All reasoning is in others."""


def read_reply(body: Any, context: ReplyContext) -> Reply:
    """Read a reply body.

    A reply may be empty: reasoning models that reach the token limit send such. Raises `UpstreamStatusError` for an
    error in the choice, `UpstreamProtocolError` for a body that is not a Chat reply, for several choices, and for
    content that no client can receive.
    """
    losses, names = context.losses, context.names
    body = usual_reply(body, losses)
    choice, message = _only_choice(body, context)
    upstream_id, model, created = body.get("id"), body.get("model"), body.get("created")
    reply_id = upstream_id if type(upstream_id) is str else ""

    sources: list[Citation] = []
    usage = body.get("usage")
    if not BODY.issuperset(body):
        read_extras(body, context)
        sources = read_sources(body, (), losses)
    if not usage:
        usage = usage_elsewhere(body, choice)
    if usage:
        note_usage(usage, ("usage",), context)
    if tier := body.get("service_tier"):
        note_tier(context, tier)
    if not _CHOICE.issuperset(choice):
        record_unknown(choice, _CHOICE | {"text"} if "message" not in choice else _CHOICE, ("choices", 0), losses)

    parts: list[Part] = []
    if not MESSAGE.issuperset(message):
        record_unknown(message, MESSAGE, _MESSAGE, losses)
    if not _STANDARD.issuperset(message):
        _read_reasoning(parts, message, context)
        record_unsigned(message, _MESSAGE, losses)
    _read_content(parts, message.get("content"), context)
    if logprobs := choice.get("logprobs"):
        _read_logprobs(parts, read_logprobs(logprobs, context), losses)
    _read_annotations(parts, message.get("annotations"), sources, losses)
    if refusal := message.get("refusal"):
        if type(refusal) is not str:
            raise UpstreamProtocolError(f"upstream reply has a refusal that is {kind_of(refusal)}")
        parts.append(Refusal(refusal, (*_MESSAGE, "refusal")))
    finish = choice.get("finish_reason")
    if finish and type(finish) is not str:
        raise UpstreamProtocolError("upstream reply has a finish_reason that is not a string")
    cut = type(finish) is str and read_finish_reason(finish) in CUTS
    raw_calls = _calls_of(message, losses)
    if images := message.get("images"):
        at = (*_MESSAGE, "images")
        parts += [
            Native(DIALECT, IMAGE, image, LossCode.VENDOR_BLOCK, at) for image in read_images(images, _MESSAGE, context)
        ]
    calls = _read_calls(raw_calls, reply_id, len(parts), names, losses, complete=not cut)
    parts += calls
    unfinished = _WHOLE
    if cut:
        unfinished = frozenset(range(len(parts) - (len(calls) or min(1, len(parts))), len(parts)))
    if (calls or EXTRA_KEY in message) and (signatures := _read_signatures(message, raw_calls, calls)):
        parts, unfinished = _insert_signatures(parts, signatures, unfinished)
    kinds = [type(part) for part in parts]
    if (audio := message.get("audio")) and not is_empty(audio):
        if not parts:
            raise UpstreamProtocolError("upstream reply holds audio only")
        losses.add(LossCode.UNKNOWN_EVENT, (*_MESSAGE, "audio"), AUDIO)

    stop = resolve_stop_reason(
        finish or None,
        calls=bool(calls),
        refusal=Refusal in kinds,
        shown=is_shown(parts),
        losses=losses,
        at=_FINISH,
        matched=read_matched_stop(choice, context),
    )
    return Reply(
        reply_id,
        model if type(model) is str else "",
        parts,
        stop,
        read_usage(usage),
        read_timestamp(created),
        cut=unfinished,
    )


def _only_choice(body: Any, context: ReplyContext) -> tuple[Json, Json]:
    """Return the choice of a reply body, and its message. Raises UpstreamProtocolError and UpstreamStatusError."""
    choices = body.get("choices") if type(body) is dict else None
    if type(choices) is not list:
        raise UpstreamProtocolError("upstream reply has no choices")
    if len(choices) > 1:
        choices = _joined(choices, context.losses)
    if len(choices) != 1:
        # Choices are alternatives, not parts of one turn: using the first would lose the others (mapping §9.1).
        raise UpstreamProtocolError(f"upstream reply has {len(choices)} choices, expected exactly 1")
    choice = choices[0] if type(choices[0]) is dict else {}
    if error := choice.get("error"):  # OpenRouter
        raise UpstreamStatusError(read_error_payload({"error": error}, Dialect.CHAT))
    message = choice.get("message")
    if message is None and ("text" in choice or choice.get("finish_reason")):
        message = completion_text(choice, context)  # Azure leaves it out where a filter stopped the reply
    if type(message) is not dict:
        raise UpstreamProtocolError("upstream reply has a choice without a message")
    role = message.get("role")
    if role != "assistant" and is_others_role(role):
        raise UpstreamProtocolError(f"upstream reply has the role {role!r}, expected assistant")
    return choice, message


def _joined(choices: list[Any], losses: Losses) -> list[Any]:
    """Return one choice for the parts of one turn: some servers put its text and its calls into choices of their own
    (GitHub Copilot; HKUDS/nanobot#1555). Alternatives are returned as they are.
    """
    messages = [choice.get("message") if type(choice) is dict else None for choice in choices]
    whole: Json = {}
    calls: list[Any] = []
    for message in messages:
        if type(message) is not dict:
            return choices
        fields = {key: value for key, value in message.items() if key != "role" and not is_empty(value)}
        more = fields.pop("tool_calls", [])
        if whole.keys() & fields.keys() or type(more) is not list:
            return choices
        whole |= fields
        calls += more
    if not calls:
        return choices
    losses.add(LossCode.REPLY_REPAIRED, "choices", "the parts of one turn came as several choices")
    return [{**choices[0], "index": 0, "message": {**whole, "role": "assistant", "tool_calls": calls}}]


def _calls_of(message: Json, losses: Losses) -> Any:
    """Return the value of `tool_calls`, or one of its form for a legacy `function_call`."""
    calls, legacy = message.get("tool_calls"), message.get("function_call")
    if not legacy or is_empty(legacy) or not is_empty(calls):
        return calls
    losses.add(LossCode.REPLY_REPAIRED, (*_MESSAGE, "function_call"), "a legacy function_call was read as a tool call")
    return [{"type": "function", "function": legacy}]


def _read_reasoning(parts: list[Part], message: Json, context: ReplyContext) -> None:
    reasoning = reasoning_text(message)
    if not reasoning:
        record_unread(message, _MESSAGE, context.losses)
    details = read_details(message, context)
    if reasoning or details:
        # Clients may shorten the visible text, which this server requires unchanged (mapping §5.2).
        keep = context.envelope is not None and context.profile.reasoning_replay
        native: Json | None = {"reasoning_content": reasoning} if keep else None
        if details:
            native = {DETAILS_KEY: details}
        parts.append(Reasoning(reasoning, (*_MESSAGE, "reasoning_content"), DIALECT, native=native))
    if not details:
        record_dropped_proofs(message, _MESSAGE, context.losses)


def _read_signatures(message: Json, raw_calls: Any, calls: list[Part]) -> Json:
    """Return the signed `extra_content` of a message and of its calls, by id."""
    signatures: Json = {}
    if EXTRA_KEY in message and (extra := read_signed(message)) is not None:
        signatures[OF_MESSAGE] = extra
    for call in calls:
        assert type(call) is ToolCall
        raw = raw_calls[call.at[-1]]
        if EXTRA_KEY in raw and (extra := read_signed(raw)) is not None:
            signatures[call.id] = extra
    return signatures


def _insert_signatures(parts: list[Part], signatures: Json, cut: frozenset[int]) -> tuple[list[Part], frozenset[int]]:
    """Insert reasoning without text, which carries the signatures, before the text and before the signed calls.

    Return the parts and the positions of those that are cut.
    """
    placed: list[Part] = []
    moved: set[int] = set()
    waiting = {OF_MESSAGE: signatures[OF_MESSAGE]} if OF_MESSAGE in signatures else {}
    for position, part in enumerate([*parts, None]):
        if type(part) is ToolCall and part.id in signatures:
            waiting[part.id] = signatures[part.id]
        if waiting and type(part) is not Reasoning:
            last = placed[-1] if placed else None
            if type(last) is not Reasoning:
                proof = signature_of(next(iter(waiting.values())))
                last = Reasoning("", (*_MESSAGE, EXTRA_KEY), DIALECT, proof)
                placed.append(last)
            last.native = {**(last.native or {}), EXTRA_KEY: waiting}
            waiting = {}
        if part is not None:
            if position in cut:
                moved.add(len(placed))
            placed.append(part)
    return placed, frozenset(moved)


def _read_content(parts: list[Part], content: Any, context: ReplyContext) -> None:
    at = (*_MESSAGE, "content")
    if type(content) is str:
        if content:
            parts.append(Text(content, at))
    elif type(content) is list or type(content) is dict:
        if context.profile.reasoning_key != "thinking":
            context.losses.add(LossCode.REPLY_REPAIRED, at, "content was an array of parts")
        for kind, text in read_content_parts(content, _MESSAGE, context.losses):
            if not text:
                continue
            if kind == "refusal":
                parts.append(Refusal(text, at))
            else:
                parts.append(Text(text, at) if kind == "text" else Reasoning(text, at, DIALECT))
    elif not is_empty(content):
        raise UpstreamProtocolError(f"upstream reply has content that is {kind_of(content)}")


def _read_logprobs(parts: list[Part], tokens: list[Json], losses: Losses) -> None:
    """Add the tokens to the first text. All but a few servers send a single one."""
    texts = [part for part in parts if type(part) is Text]
    if texts:
        texts[0].logprobs = tokens or None
    elif tokens:
        losses.add(LossCode.UNKNOWN_FIELD, (*_LOGPROBS, "content"), "sent for something other than text")


def _read_annotations(parts: list[Part], annotations: Any, sources: list[Citation], losses: Losses) -> None:
    """Add the citations, and the sources next to the choices that are not among them, to the last text."""
    if not annotations and not sources:
        return
    texts = [part for part in parts if type(part) is Text]
    notes = [note for note in annotations if type(note) is dict] if type(annotations) is list else []
    for note in notes:
        record_unknown_annotation(note, (*_MESSAGE, "annotations"), losses)
    if texts:
        cited = [read_citation(note) for note in notes]
        urls = {citation.url for citation in cited}
        texts[-1].citations = [*cited, *(source for source in sources if source.url not in urls)]
    elif sources:
        losses.add(LossCode.CITATIONS, "citations", "there was no text to cite them")
    if not annotations:
        return
    if not texts or type(annotations) is not list or len(notes) < len(annotations):
        losses.add(LossCode.CITATIONS, (*_MESSAGE, "annotations"))


def _read_calls(
    calls: Any, reply_id: str, blocks: int, names: Mapping[str, str], losses: Losses, *, complete: bool
) -> list[Part]:
    """Return the calls. `blocks` is the number of parts before them, `complete` is False for a cut reply."""
    if is_empty(calls):
        return []
    if type(calls) is not list:
        raise UpstreamProtocolError("upstream reply has tool_calls that are not an array")
    parts: list[Part] = []
    ids: set[str] = set()
    for k, call in enumerate(calls):
        at = (*_MESSAGE, "tool_calls", k)
        if not call:
            continue
        if type(call) is not dict:
            raise UpstreamProtocolError(f"upstream reply has a tool call that is {kind_of(call)}")
        record_unknown_call(call, at, losses)
        custom, body = call_body(call)
        name = body.get("name")
        if type(name) is not str or not name:
            if not call.get("id") and is_empty(body):
                continue
            raise UpstreamProtocolError("upstream reply has a tool call without a name")
        call_id = call.get("id")
        if type(call_id) is not str or not call_id or call_id in ids:  # a result refers to its call by id
            call_id = mint_call_id(call_id, reply_id, blocks + k, at, losses.add)
        ids.add(call_id)
        if custom:
            text = body.get("input")
            arguments = text if type(text) is str else ""
        else:
            if type(body.get("arguments")) is dict:
                losses.add_once(LossCode.REPLY_REPAIRED, at, "arguments were an object instead of text")
            arguments = _read_arguments(body.get("arguments"), name, at, losses, complete=complete)
        parts.append(ToolCall(call_id, names.get(name, name), arguments, at, custom=custom))
    return parts


def _read_arguments(arguments: Any, name: str, at: Path, losses: Losses, *, complete: bool) -> str:
    """Return the arguments unchanged, which must be a JSON object: a guessed repair would run a tool (mapping §6.3).
    Those that have another form with one meaning (`odd_arguments`) are returned in this form, and recorded.

    If the upstream reports truncation, partial arguments are returned as well.
    """
    if arguments is None:
        return "{}"
    if type(arguments) is dict:  # some compatible servers forget to encode them
        return dumps(arguments).decode()
    if type(arguments) is str:
        if not arguments.strip():
            return "{}" if complete else arguments
        if parse_object(arguments) is not None:
            return arguments
        if (odd := read_odd(arguments)) is not None:
            losses.add_once(LossCode.REPLY_REPAIRED, at, odd[1])
            return odd[0]
        try:
            loads(arguments)
        except ValueError:
            if not complete:
                return arguments
            raise UpstreamProtocolError(f"upstream reply calls {name!r} with arguments that are not JSON") from None
    raise UpstreamProtocolError(f"upstream reply calls {name!r} with arguments that are not a JSON object")
