"""Log probabilities of tokens, in the form that Chat and Responses share."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode, Losses


def read_logprobs(given: Any, losses: Losses) -> list[Json]:
    """Returns the tokens of a choice's `logprobs`. Those of a refusal are dropped: only Chat has a field for them.

    Raises `UpstreamProtocolError` if the entries are not tokens with their probabilities.
    """
    at = ("choices", 0, "logprobs")
    tokens = check_tokens(given.get("content") if type(given) is dict else given)
    if type(given) is dict and given.get("refusal"):
        losses.add(LossCode.UNKNOWN_FIELD, (*at, "refusal"))
    return tokens


def check_tokens(tokens: Any) -> list[Json]:
    """Returns the list of tokens with their probabilities, empty for None.

    Raises `UpstreamProtocolError` for any other value.
    """
    if tokens is None:
        return []
    if type(tokens) is not list or not all(map(_is_token, tokens)):
        raise UpstreamProtocolError("upstream sent logprobs that are not tokens with their probabilities")
    return tokens


def _is_token(token: Any) -> bool:
    return _is_candidate(token) and (
        (others := token.get("top_logprobs")) is None or (type(others) is list and all(map(_is_candidate, others)))
    )


def _is_candidate(token: Any) -> bool:
    return type(token) is dict and type(token.get("token")) is str and type(token.get("logprob")) in (float, int)


def write_logprobs(tokens: list[Json]) -> Json:
    """Returns the `logprobs` of a choice, with every key that the API requires."""
    return {"content": [_write_token(token) for token in tokens], "refusal": None}


def _write_token(token: Json) -> Json:
    return {**_write_candidate(token), "top_logprobs": [*map(_write_candidate, token.get("top_logprobs") or ())]}


def _write_candidate(token: Json) -> Json:
    return {"token": token.get("token"), "logprob": token.get("logprob"), "bytes": token.get("bytes")}
