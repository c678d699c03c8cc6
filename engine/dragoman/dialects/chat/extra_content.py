"""Gemini's signatures, in the `extra_content` of messages and tool calls.

Gemini signs the text of a reply and the first of its parallel calls. Gemini 3 rejects a history in which the first call
of a step has no signature (`ai.google.dev/gemini-api/docs/thought-signatures`). It is in `extra_content.google`, behind
some gateways in `extra_content.vertex`. The object is sent back unchanged, with the call or message that it came with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.losses import LossCode, Losses
from dragoman.tools.names import sanitize_call_id

EXTRA_KEY: Final = "extra_content"
OF_MESSAGE: Final = ""
"""Key of the message's own `extra_content` among those of its calls, whose keys are their ids."""
_SIGNATURE: Final = "thought_signature"
_UNSIGNED: Final = "the value was sent that makes Google skip the check of a missing signature"


def read_signed(holder: Json) -> Json | None:
    """Return the `extra_content` of a message, a delta or a call. None if it has no signature."""
    extra = holder.get(EXTRA_KEY)
    return extra if type(extra) is dict and signature_of(extra) else None


def signature_of(extra: Json) -> str:
    """Return the `thought_signature` in an `extra_content`, or an empty text."""
    for vendor in extra.values():
        if type(vendor) is dict and type(signature := vendor.get(_SIGNATURE)) is str and signature:
            return signature
    return ""


def add_signatures(message: Json, call_ids: Iterable[str], signatures: Json) -> None:
    """Add signed `extra_content` to a message with calls of these ids.

    The ids are those of the client, which may have been given a hash in place of an id that it does not take.
    """
    if OF_MESSAGE in signatures:
        message[EXTRA_KEY] = signatures[OF_MESSAGE]
    hashed = {sanitize_call_id(call_id, 0): extra for call_id, extra in signatures.items()}
    for call_id, call in zip(call_ids, message.get("tool_calls", ()), strict=False):
        extra = signatures.get(call_id) or hashed.get(call_id)
        if extra is not None:
            call[EXTRA_KEY] = extra


def skip_validation(calls: list[Json], losses: Losses, at: tuple[str | int, ...]) -> bool:
    """Give the first call of a message, if it is unsigned, the value that Google documents for calls of other models.

    Return True if it was unsigned. All messages are treated alike, though Google checks those of the current turn
    only, so that a longer history begins with the bytes of a shorter one.
    """
    if read_signed(calls[0]) is not None:
        return False
    calls[0] = {**calls[0], EXTRA_KEY: {"google": {_SIGNATURE: "skip_thought_signature_validator"}}}
    losses.add(LossCode.REASONING_FILLED, at, _UNSIGNED)
    return True


def sign_history(body: Json, losses: Losses) -> bool:
    """Add that value to the unsigned calls of a request that passes through, in place at the top level.

    Return True if there were any. The body may be malformed: the upstream rejects it then.
    """
    messages = body.get("messages")
    if type(messages) is not list:
        return False
    found = False
    signed: list[Any] = []
    for number, message in enumerate(messages):
        calls = message.get("tool_calls") if type(message) is dict else None
        if type(calls) is list and calls and type(calls[0]) is dict:
            calls = calls.copy()
            if skip_validation(calls, losses, ("messages", number, "tool_calls", 0)):
                found = True
                message = {**message, "tool_calls": calls}
        signed.append(message)
    if found:
        body["messages"] = signed
    return found
