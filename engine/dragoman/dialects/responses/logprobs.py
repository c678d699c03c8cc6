"""Log probabilities of output tokens, as Responses has them."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json


def write_logprobs(tokens: list[Json]) -> list[Json]:
    """Return log probabilities with every required key. Chat allows null for `bytes`, this dialect does not."""
    return [
        _logprob(token) | {"top_logprobs": [_logprob(other) for other in _objects(token.get("top_logprobs"))]}
        for token in _objects(tokens)
    ]


def _objects(value: Any) -> list[Json]:
    return [entry for entry in value if type(entry) is dict] if type(value) is list else []


def _logprob(token: Json) -> Json:
    return {"token": token.get("token"), "bytes": token.get("bytes") or [], "logprob": token.get("logprob")}
