"""The differences between an answer and what the profile of its provider states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from dragoman import Profile
from dragoman.gateway import quote
from dragoman.wire import Json, json_loads
from dragoman_server.cli.tool_calls.ask import Answer
from dragoman_server.cli.tool_calls.question import ARGUMENTS, OUTPUT_MAX, TOOL
from dragoman_server.cli.tool_calls.read_reply import SeenReply
from dragoman_server.cli.tool_calls.repairs import Repair, flag, of_error
from dragoman_server.config.config_error import join

_CUT: Final = ("length", "max_tokens", "incomplete")
"""The stop reasons of a reply that reached its output limit."""
_OWN_CODE: Final = {"call_id": "call_id", "stop_unknown": "stop", "finish_fixed": "stop"}
"""Losses that are differences of another kind."""
_CLIENTS: Final = ("reasoning_signature", "refusal_category", "refusal_explanation")
"""Losses of any host's reply: the client's dialect has no place for what was lost."""
_SHORT_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
_MARKUP: Final = re.compile(r"<\|?tool_calls?\b|<function[=_]|\[TOOL_CALLS\]")
"""The beginning of a call as models write it, which a host should have parsed."""
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: its code, a sentence, and the setting that repairs it, where there is one."""

    code: str
    message: str
    repair: Repair | None = None


def differences(answer: Answer) -> list[Difference]:
    """Return the differences, each once."""
    return list(dict.fromkeys(_found(answer)))


def _found(answer: Answer) -> Iterator[Difference]:
    if answer.problem:
        yield Difference("no_reply", answer.problem)
        return
    if answer.reply is None:
        yield _refused(answer)
        return
    yield from _form(answer, answer.reply)
    yield from _call(answer, answer.reply)
    yield from _usage(answer, answer.reply)
    yield from _habits(answer)
    for row in answer.losses:
        if not _is_expected(row, answer.model.provider.profile):
            place = f" at {row['path']}" if row["path"] else ""
            yield Difference(_OWN_CODE.get(row["code"], "loss"), _short(f"{row['code']}{place}: {row['done']}"))
    for row in answer.violations:
        yield Difference("grammar", _short(f"{row['rule']} (frame {row['position']}, {row['event'] or 'no type'})"))


def _is_expected(row: Json, profile: Profile) -> bool:
    """True for a loss that follows from the profile or from the client's dialect, or that `_usage` judges."""
    code = row["code"]
    repaired = code == "reply_repaired" and (
        (row["path"] == "usage" and profile.usage_fallback == "last_seen")
        or (row["path"] == "message_stop" and not profile.message_stop)
    )
    return repaired or code == "usage_estimated" or code in _CLIENTS


def _refused(answer: Answer) -> Difference:
    """Return the difference of an error response."""
    provider = answer.model.provider
    status, message = answer.upstream_status, _short(answer.error)
    text = f"{status or answer.status} {message}"
    if answer.upstream_failed:
        return Difference("no_reply", message)
    if status is None:
        return Difference("gateway", f"the gateway rejects the request: {text}")
    if status in (401, 403, 407):
        return Difference("key", f"the host rejects the key: {status}; see {join('providers', provider.name)}.api_key")
    if status == 404:
        return Difference("model", f"the host does not have the model or the endpoint: {text}")
    if status == 429:
        return Difference("rate", f"the host limits requests, so nothing was found out: {text}")
    if status >= 500 or status < 400:
        return Difference("status", f"the host answers {text}")
    repair = of_error(provider, answer.error, answer.upstream_sent)
    return Difference("refused", f"the host refuses the request: {text}", repair)


def _form(answer: Answer, reply: SeenReply) -> Iterator[Difference]:
    """Yield the differences of the stream as such: its form, its errors and its end."""
    provider = answer.model.provider
    if not answer.upstream_streamed:
        yield Difference("not_streamed", "the host answers with a whole reply in place of a stream")
        return
    if not answer.streamed:
        yield Difference("not_streamed", "the client gets a whole reply in place of a stream")
        return
    if reply.unreadable:
        yield Difference("unreadable", f"a frame is not a JSON object: {quote(reply.unreadable[:60])}")
    upstream = answer.upstream_reply
    own = answer.client is provider.dialect  # in the other ones the upstream's last frame may not be read
    if own and upstream is not None and upstream.stop and not (upstream.ended or upstream.error):
        last = provider.dialect.facts.last_events
        if "message_stop" not in last:
            shown = "data: [DONE]" if last == ("[DONE]",) else "its last event"
            yield Difference("no_end", f"the stream ends without {shown}")
        elif provider.profile.message_stop:
            yield Difference("no_end", "the stream ends without message_stop", flag(provider, "message_stop", False))
    elif reply.error:
        yield Difference("error", f"the stream has an error: {_short(reply.error)}")


def _call(answer: Answer, reply: SeenReply) -> Iterator[Difference]:
    """Yield the differences of the call and of the stop reason."""
    if reply.error or not answer.streamed:
        return
    if reply.stop in _CUT:
        yield Difference("length", f"the reply has reached the output limit of {OUTPUT_MAX} tokens ({reply.stop})")
    elif not reply.calls:
        yield Difference("no_call", _no_call(reply))
    elif reply.stop != (stop := import_module(f"dragoman_server.cli.tool_calls.{answer.client}").STOP):
        found = quote(reply.stop) or "none"
        yield Difference("stop", f"the stop reason of a reply with a call is {found}, not {stop}")
    ids = [call.id for call in reply.calls.values()]
    if not all(ids):
        yield Difference("call_id", "a call has no id")
    if len(set(ids)) < len(ids):
        yield Difference("call_id", "two calls have the same id")
    for call in reply.calls.values():
        if call.name != TOOL:
            yield Difference("name", f"the call is of {quote(call.name) or 'a tool without a name'}, not of {TOOL}")
        elif reply.stop not in _CUT and (wrong := _wrong_arguments(call.arguments)):
            yield Difference("arguments", wrong)


def _no_call(reply: SeenReply) -> str:
    if _MARKUP.search(reply.text):
        return "the call is in the text: the host does not parse the calls of this model (see its options for tools)"
    shown = f'"{quote(reply.text[:60])}"' if reply.text else "nothing"
    return f"the model does not call the tool, and writes {shown}"


def _wrong_arguments(text: str) -> str:
    """Return what is wrong with arguments, judged by the tool's schema; empty if nothing is."""
    try:
        value = json_loads(text.encode())
    except ValueError:
        return f"the arguments are not JSON: {quote(text[:80])}"
    if not isinstance(value, dict):
        return f"the arguments are not a JSON object: {quote(text[:80])}"
    for name, kind in ARGUMENTS.items():
        if name not in value:
            return f"the arguments lack {name}, which is required"
        if type(value[name]) is not kind:
            return f"the argument {name} is not of type {kind.__name__}: {quote(str(value[name])[:60])}"
    if more := sorted(value.keys() - ARGUMENTS):
        return f"the arguments have {quote(more[0])}, which the schema does not allow"
    return ""


def _usage(answer: Answer, reply: SeenReply) -> Iterator[Difference]:
    provider, upstream = answer.model.provider, answer.upstream_reply
    if reply.error or not answer.streamed:
        return
    if reply.usage and not any(row["code"] == "usage_estimated" for row in answer.losses):
        return
    if not provider.profile.stream_usage:
        return
    repair = None
    if upstream is not None and upstream.usage_with_choices and provider.profile.usage_fallback == "none":
        repair = flag(provider, "usage_fallback", "last_seen")
    where = "are in a chunk with choices only" if repair else "are missing"
    yield Difference("usage", f"the token counts {where}", repair)


def _habits(answer: Answer) -> Iterator[Difference]:
    """Yield what the stream of an upstream whose reasoning is in fields shows about flags for later turns."""
    provider, upstream = answer.model.provider, answer.upstream_reply
    if upstream is None or not provider.dialect.facts.reasoning_fields:
        return
    profile = provider.profile
    if "reasoning_details" in upstream.reasoning and not profile.reasoning_details:
        if profile.reasoning_key != "reasoning_details":
            text = "reasoning comes as reasoning_details, which the host may need back"
            yield Difference("reasoning", text, flag(provider, "reasoning_details", True))
    elif upstream.reasoning and profile.reasoning_replay and profile.reasoning_key not in upstream.reasoning:
        key = next(iter(upstream.reasoning))
        text = f"reasoning comes as {key}, and goes back as {profile.reasoning_key}"
        yield Difference("reasoning", text, flag(provider, "reasoning_key", key))
    if upstream.signed and not profile.signed_calls:
        yield Difference("signature", "calls are signed, as Gemini's are", flag(provider, "signed_calls", True))
    ids = [call.id for call in upstream.calls.values()]
    if ids and all(map(_SHORT_ID.fullmatch, ids)) and profile.call_id_max != len(ids[0]):
        text = "call ids have nine letters and digits, as Mistral's: the host may reject others"
        yield Difference("call_id", text, flag(provider, "call_id_max", len(ids[0])))


def _short(text: str) -> str:
    return quote(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")
