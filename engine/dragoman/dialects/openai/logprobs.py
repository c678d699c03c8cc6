"""Log probabilities of tokens, in the form that Chat and Responses share."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.shared.json_fields import is_empty, record_unknown
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext

_DROPPED = "only Chat has a field for it"
_NOT_REQUESTED = "log probabilities were not requested"

_LOGPROBS = frozenset(("content", "refusal"))


def read_logprobs(given: Any, context: ReplyContext) -> list[Json]:
    """Return the tokens of a choice's `logprobs`. Those of a refusal are dropped: only Chat has a field for them."""
    at = ("choices", 0, "logprobs")
    tokens = known_tokens(given.get("content") if type(given) is dict else given, at, context)
    if type(given) is dict and given.get("refusal"):
        context.losses.add_once(LossCode.UNKNOWN_FIELD, (*at, "refusal"), _DROPPED)
    if type(given) is dict and not _LOGPROBS.issuperset(given):
        record_unknown(given, _LOGPROBS, at, context.losses)
    record_unknown_tokens(tokens, (*at, "content"), context.losses)
    return tokens


def known_tokens(tokens: Any, at: Path | str, context: ReplyContext) -> list[Json]:
    """Return a list of tokens with their probabilities. It is dropped, with a loss, if it is anything else, or if the
    client did not request any."""
    if is_empty(tokens):
        return []
    if not context.logprobs:
        context.losses.add_once(LossCode.UNKNOWN_FIELD, at, _NOT_REQUESTED)
    elif type(tokens) is list and all(map(_is_token, tokens)):
        return tokens
    else:
        context.losses.add_once(LossCode.UNKNOWN_FIELD, at, "no tokens with their probabilities")
    return []


_TOKEN = frozenset(("token", "logprob", "bytes", "top_logprobs"))


def record_unknown_tokens(tokens: Any, at: Path, losses: Losses) -> None:
    """Record the keys of tokens, and of their alternatives, that have no place in a client's reply."""
    for token in tokens if type(tokens) is list else ():
        if type(token) is dict:
            if not _TOKEN.issuperset(token):
                record_unknown(token, _TOKEN, at, losses)
            if token.get("top_logprobs"):
                record_unknown_tokens(token["top_logprobs"], (*at, "top_logprobs"), losses)


def _is_token(token: Any) -> bool:
    return _is_candidate(token) and (
        (others := token.get("top_logprobs")) is None or (type(others) is list and all(map(_is_candidate, others)))
    )


def _is_candidate(token: Any) -> bool:
    return type(token) is dict and type(token.get("token")) is str and type(token.get("logprob")) in (float, int)


def write_logprobs(tokens: list[Json]) -> Json:
    """Return the `logprobs` of a choice, with every key that the API requires."""
    return {"content": [_write_token(token) for token in tokens], "refusal": None}


def _write_token(token: Json) -> Json:
    return {**_write_candidate(token), "top_logprobs": [*map(_write_candidate, token.get("top_logprobs") or ())]}


def _write_candidate(token: Json) -> Json:
    return {"token": token.get("token"), "logprob": token.get("logprob"), "bytes": token.get("bytes")}
