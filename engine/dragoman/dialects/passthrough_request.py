"""Requests that are sent on in the client's own bytes, because client and upstream use the same dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.canonical.request import Json
from dragoman.errors import ClientRequestError
from dragoman.losses import Losses
from dragoman.reasoning.envelope import TAG
from dragoman.wire.json_codec import dumps, has_long_number, parse_exactly
from dragoman.wire.json_edit import find_values, put, repeated_key

if TYPE_CHECKING:
    from dragoman.dialects.codec import Codec
    from dragoman.profiles.profile import Profile

_TAG = TAG.encode()


def check_keys(body: bytes, payload: Json) -> None:
    """Raise ClientRequestError if the body has a key twice at its top level.

    The upstream may read the other one of the two, and so another model than the request was routed by.
    """
    if (key := repeated_key(body, payload)) is not None:
        raise ClientRequestError((key,), "is given more than once; send it once")


def restore(codec: Codec, body: bytes, payload: Json, profile: Profile, losses: Losses, *, strip_noise: bool) -> bytes:
    """Return the body with enveloped reasoning restored or dropped, without unsigned reasoning that would be refused,
    and without the client's noise.

    `profile` is the upstream's: its `family` has the reasoning that is restored, and with `signed_calls` unsigned calls
    are signed. With `strip_noise`, fields are dropped that only the vendor of the dialect's best-known client reads.
    The body is returned unchanged if it has none of these.
    """
    restored = dict(payload)  # the caller may send the payload to another upstream next
    # From the end: CPython takes a third of the time that the search from the front takes (16 µs to 45 µs for 58 kB).
    enveloped = codec.restore_reasoning is not None and (body.rfind(_TAG) >= 0 or _has_unsigned(codec, body, profile))
    options = enveloped, strip_noise
    if not _change(codec, restored, profile, losses, *options):
        return body
    if has_long_number(body):
        restored = dict(parse_exactly(body, payload))
        _change(codec, restored, profile, Losses(), *options)
    try:
        return dumps(restored)
    except RecursionError:
        raise ClientRequestError("", "the body is nested too deeply") from None


def _has_unsigned(codec: Codec, body: bytes, profile: Profile) -> bool:
    """True if the body may hold reasoning with an empty proof, and the upstream verifies proofs."""
    facts = codec.dialect.facts
    if not facts.signed_history or profile.thinking_replay != "verify":
        return False
    return b'"%b":""' % facts.proof.encode() in body or b'"%b": ""' % facts.proof.encode() in body


def _change(codec: Codec, body: Json, profile: Profile, losses: Losses, enveloped: bool, strip_noise: bool) -> bool:
    """Make the changes of `restore` in place. Return True if there were any."""
    changed = enveloped and codec.restore_reasoning is not None and codec.restore_reasoning(body, profile, losses)
    if strip_noise and codec.strip_billing_line is not None:
        changed |= codec.strip_billing_line(body, losses)
    if profile.signed_calls and codec.sign_history is not None:
        changed |= codec.sign_history(body, losses)
    return changed


def rename_model(body: bytes, payload: Json, model: str) -> bytes:
    """Return the body with the name of the model replaced by `model`."""
    return body if payload["model"] == model else put(body, find_values(body, "model"), model)
