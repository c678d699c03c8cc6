"""Fields of a request's body that the configuration of its provider adds or leaves out (`config.door`, `betas`)."""

from __future__ import annotations

from collections.abc import Callable

from dragoman import LossCode, Translation
from dragoman.gateway import edit_members
from dragoman.wire import json_dumps
from dragoman_server.config.provider import Provider
from dragoman_server.proxy.betas import HEADER, NONE, Betas, fields_of

_MODEL = "model"


def with_fields(translate: Callable[[], Translation], provider: Provider, betas: Betas = NONE) -> Translation:
    """Return the translation that `translate` makes, with the provider's fields in its body.

    Each field that is left out or replaced is a loss, and so is each of the client's betas that the provider does not
    take. The model is no loss if it is in the URL. Raises what `translate` raises, and Unsupported if losses are
    rejected.
    """
    translation, door = translate(), provider.door
    if not translation.same_body:
        betas = NONE  # they belong to the client's body
    edited = edit_members(translation.body, {**door.values, **fields_of(provider, betas)}, door.omit)
    losses = translation.losses
    losses.strict = translation.knobs.on_loss == "reject"
    try:
        for name in edited.omitted:
            if name != _MODEL or not door.has_model(door.path):
                losses.add(LossCode.FIELD_CONFIGURED, (name,), f"not sent to {provider.name} (omit)")
        for name in edited.replaced:
            losses.add(LossCode.FIELD_CONFIGURED, (name,), f"the value for {provider.name} was sent (body)")
        for name in betas.refused:
            losses.add(LossCode.VENDOR_OPTION, (HEADER,), f"{provider.name} does not take {name}")
    finally:
        losses.stop_rejecting()
    translation.body = edited.data
    return translation


def count_body(body: bytes, provider: Provider, model: str, betas: Betas = NONE) -> bytes:
    """Return the body of a request that counts tokens, with the provider's fields and the client's betas.

    The model is in it unless the URL has it.
    """
    door = provider.door
    values = {**door.values, **fields_of(provider, betas)}
    if _MODEL in door.omit and not door.has_model(door.count_path):
        values[_MODEL] = json_dumps(model)
    return edit_members(body, values, [name for name in door.omit if name not in values]).data
