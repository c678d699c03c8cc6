"""The chunks of a forwarded stream in the form that clients read, where a member is missing or has another form.

Their other members stay as they are: servers add some of their own. Frames of which more is odd are translated.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import Usage
from dragoman.canonical.request import Json
from dragoman.dialects.chat.stop_and_usage import write_usage
from dragoman.wire.json_codec import dumps, loads_exact

OTHER_FORM: Final = "a chunk lacked a member that clients read, or had it in another form"


def has_counts(usage: Any) -> bool:
    """True for token counts as clients read them, and for none."""
    if type(usage) is not dict:
        return usage is None
    given, made = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return type(given) is type(made) is int and given >= 0 <= made


def usual_chunk(data: bytes, usage: Usage | None, word: str | None, *, first: bool) -> bytes:
    """Return the JSON of a chunk with all that clients read.

    `usage` are the counts that it states, `word` is its `finish_reason`; None if it has none. `first` is True if the
    message begins with it.
    """
    chunk: Json = loads_exact(data)
    choices = chunk.get("choices")
    chunk["choices"] = choices = [each for each in choices if type(each) is dict] if type(choices) is list else []
    for choice in choices:
        delta = choice.get("delta")
        delta = delta if type(delta) is dict else {}
        choice["delta"] = _usual_delta({**delta, "role": "assistant"} if first else delta)
        if word is not None:
            choice["finish_reason"] = word
    if usage is not None and not has_counts(stated := chunk.get("usage")):
        chunk["usage"] = (stated if type(stated) is dict else {}) | write_usage(usage)
    return dumps(chunk)


def _usual_delta(delta: Json) -> Json:
    """Return a delta without a former `function_call`, and with calls that have types."""
    calls = delta.get("tool_calls")
    if type(calls) is list and calls:
        usual = [_typed(call) for call in calls if type(call) is dict and call]
        delta = {**delta, "tool_calls": usual}
    return {key: value for key, value in delta.items() if key != "function_call"}


def _typed(call: Json) -> Json:
    """Return a fragment of a call, with its type if it starts one."""
    kind = "custom" if call.get("custom") else "function"
    return call if call.get("type") or not call.get("id") else {**call, "type": kind}
