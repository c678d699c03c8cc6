"""Log probabilities: `logprobsResult` in the common form of the OpenAI dialects."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.generate.reply_fields import CANDIDATE_AT
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext

_AT = (*CANDIDATE_AT, "logprobsResult")


def read_logprobs(result: Any, context: ReplyContext) -> list[Json]:
    """Return the tokens of a `logprobsResult`. It is dropped, with a loss, if none were requested."""
    if type(result) is not dict or type(chosen := result.get("chosenCandidates")) is not list or not chosen:
        return []
    if not context.logprobs:
        context.losses.add_once(LossCode.UNKNOWN_FIELD, _AT, "log probabilities were not requested")
        return []
    tops = result.get("topCandidates")
    tokens: list[Json] = []
    for number, candidate in enumerate(chosen):
        token = _token(candidate)
        if token is None:
            context.losses.add_once(LossCode.UNKNOWN_FIELD, _AT, "no tokens with their probabilities")
            return []
        top = tops[number] if type(tops) is list and number < len(tops) else None
        others = top.get("candidates") if type(top) is dict else None
        token["top_logprobs"] = [each for other in _listed(others) if (each := _token(other)) is not None]
        tokens.append(token)
    return tokens


def _listed(value: Any) -> list[Any]:
    return value if type(value) is list else []


def _token(candidate: Any) -> Json | None:
    if type(candidate) is not dict:
        return None
    text, probability = candidate.get("token"), candidate.get("logProbability", 0.0)
    if type(text) is not str or type(probability) not in (int, float):
        return None
    return {"token": text, "logprob": probability, "bytes": list(text.encode("utf-8", "surrogatepass"))}
