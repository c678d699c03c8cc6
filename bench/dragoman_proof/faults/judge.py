"""The verdict on one reply."""

from __future__ import annotations

import json

from dragoman import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.stages.grammar.checker import GrammarChecker
from dragoman.stages.violation import Violation
from dragoman_proof.faults.client import Received
from dragoman_proof.faults.kinds import CLIENTS, COMPLETE, FAILS, LEGAL, UPSTREAM, Case
from dragoman_proof.faults.matrix import FOLLOWED, SOCKET, Part
from dragoman_proof.faults.reading import Reply, Unreadable, read
from dragoman_proof.faults.websocket import NORMAL, PROTOCOL_ERROR

_PATIENT = ("reads late", "holds half a frame", "floods")
_CODES = {
    "closes": (NORMAL, 1001, 1011, 3000, 4999),
    "closes wrongly": (PROTOCOL_ERROR, 1007),
    "breaks a frame": (PROTOCOL_ERROR,),
}
"""The codes with which the gateway closes a WebSocket after a fault."""
_ENDS_OF_CHAT = ("stop", "length", "tool_calls", "content_filter", "function_call")


def violation(part: Part, case: Case, received: Received, sound: Reply | None) -> str | None:
    """Return what is wrong with a reply, or None. `sound` is the reply without the fault."""
    client = part.client
    if case.kind in CLIENTS:
        return _of_leaver(client, case, received, sound)
    kind = UPSTREAM[case.kind]
    if not received.ended:
        return "the reply does not end as its transport has it"
    if part.way == SOCKET and received.code != NORMAL:
        return f"a close with {NORMAL} is answered with {received.code}"
    if received.status != 200:
        return _of_error(received) if kind.verdict != COMPLETE else f"status {received.status}"
    if kind.verdict == LEGAL and client is part.upstream:
        return None  # what is forwarded has the events of its upstream, also where they are wrong
    if client is not part.upstream and (breach := _breach(client, received.body)) is not None:
        return f"the grammar: {breach}"
    try:
        reply = read(client, received.body)
    except (Unreadable, KeyError, TypeError) as error:
        return f"cannot be read: {error!r}"
    complete = reply.error is None and is_complete(client, reply)
    if part.way == FOLLOWED and received.stored != (reply.finish if complete else "failed"):
        return f"the stored response is {received.stored}, after a stream that ended with {reply.finish or reply.error}"
    if (
        part.way == SOCKET
        and kind.verdict == FAILS
        and not complete
        and b"\nevent: response.failed\n" not in received.body
    ):
        return "a stream that has begun fails without `response.failed`"
    if not complete and reply.error is None and not (kind.verdict == LEGAL and reply.ended):
        return "the stream ends without its last event and without an error"
    if kind.verdict == COMPLETE or sound is None:
        return _differences(reply, sound) if complete else f"an error: {reply.error}"
    if kind.verdict == LEGAL:
        return None
    whole = case.recording.noted if kind.body_ends else case.recording.whole
    # Readers accept a last event without its blank line, as the gateway does (it writes what is missing).
    if complete and case.at < len(case.recording.data[:whole].rstrip()):
        return "a broken stream looks complete"
    if not sound.text.startswith(reply.text):
        return f"a text that the upstream did not send: {reply.text[-60:]!r}"
    if any(call not in sound.calls for call in reply.calls) and not _only_failed(client, reply):
        return f"a call was closed that is not whole: {reply.calls}"
    return None


def _breach(client: Dialect, body: bytes) -> Violation | None:
    """Return where a translated stream breaks the grammar of its dialect."""
    losses = Losses()
    losses.add(LossCode.USAGE_ESTIMATED, "usage")
    checker = GrammarChecker(CODECS[client].grammar(ReplyContext("m", losses=losses)))
    checker.feed(body)
    checker.finish()
    return checker.violation


def is_complete(client: Dialect, reply: Reply) -> bool:
    """True if a client takes the reply for a whole one."""
    if client is Dialect.CHAT:  # servers that leave `[DONE]` out are forwarded as they are, and SDKs take them so
        return reply.finish in _ENDS_OF_CHAT
    return reply.ended and reply.finish is not None


def _only_failed(client: Dialect, reply: Reply) -> bool:
    """True if a Chat stream that ended with an error has no stop reason: no client runs its calls."""
    return client is Dialect.CHAT and reply.error is not None and reply.finish is None


def _of_error(received: Received) -> str | None:
    """Return what is wrong with an error before the stream."""
    if received.status < 500:
        return f"status {received.status} for a fault of the upstream"
    try:
        error = json.loads(received.body)["error"]
        return None if error["message"] and error["type"] else "an error without words"
    except (ValueError, LookupError, TypeError):
        return f"no error of the dialect: {received.body[:100]!r}"


def _differences(reply: Reply, sound: Reply | None) -> str | None:
    if sound is None or (reply.text, reply.calls, reply.finish) == (sound.text, sound.calls, sound.finish):
        return None
    return f"another reply than that of the sound stream: {reply}"


def _of_leaver(client: Dialect, case: Case, received: Received, sound: Reply | None) -> str | None:
    """Return what is wrong with the reply to a client that left: nothing but what has a whole body is judged."""
    if case.kind in _PATIENT and not received.ended:
        return "a client that only waits, or pings, got no whole reply"
    if case.kind in _CODES and not received.ended and received.code not in _CODES[case.kind]:
        return f"the WebSocket was closed with the code {received.code}"
    if not received.ended or received.status != 200:
        return None
    try:
        reply = read(client, received.body)
    except (Unreadable, KeyError, TypeError) as error:
        return f"cannot be read: {error!r}"
    if reply.error is not None or not is_complete(client, reply):
        # A client that has ended its side may be taken for one that left.
        return None if case.kind == "half closes" else f"an error of a sound stream: {reply.error}"
    return _differences(reply, sound)
