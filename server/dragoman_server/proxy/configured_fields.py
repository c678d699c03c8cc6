"""Top-level fields of a request's body that the configuration of its provider adds or leaves out (`config.door`)."""

from __future__ import annotations

from collections.abc import Callable

from dragoman import LossCode, Translation
from dragoman.gateway import edit_members
from dragoman.wire import json_dumps
from dragoman_server.config.provider import Provider

_MODEL = "model"


def with_fields(translate: Callable[[], Translation], provider: Provider) -> Translation:
    """Return the translation that `translate` makes, with the provider's fields in its body.

    Each field that is left out or replaced is a loss. The model is no loss if it is in the URL. Raises
    what `translate` raises, and Unsupported if losses are rejected.
    """
    translation, door = translate(), provider.door
    edited = edit_members(translation.body, door.values, door.omit)
    losses = translation.losses
    losses.strict = translation.knobs.on_loss == "reject"
    try:
        for name in edited.omitted:
            if name != _MODEL or not door.has_model(door.path):
                losses.add(LossCode.FIELD_CONFIGURED, (name,), f"not sent to {provider.name} (omit)")
        for name in edited.replaced:
            losses.add(LossCode.FIELD_CONFIGURED, (name,), f"the value for {provider.name} was sent (body)")
    finally:
        losses.stop_rejecting()
    translation.body = edited.data
    return translation


def count_body(body: bytes, provider: Provider, model: str) -> bytes:
    """Return the body of a request that counts tokens, with the provider's fields.

    The model is in it unless the URL has it.
    """
    door = provider.door
    values = dict(door.values)
    if _MODEL in door.omit and not door.has_model(door.count_path):
        values[_MODEL] = json_dumps(model)
    return edit_members(body, values, [name for name in door.omit if name not in values]).data
