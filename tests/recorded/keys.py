"""Keys of a reply that its vendor's SDK does not know: each must be carried, or recorded as a loss."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from anthropic._models import construct_type as construct_anthropic
from anthropic.types import Message, RawMessageStreamEvent
from openai._models import construct_type as construct_openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel

Json = dict[str, Any]
_READ: dict[str, frozenset[str]] = {
    "chat": frozenset(
        {"reasoning", "reasoning_content", "reasoning_details", "event_id", "index", "cached_tokens"}
        | {"prompt_cache_hit_tokens", "prompt_cache_miss_tokens"}
    ),
    "messages": frozenset(),
    "responses": frozenset(
        {"frequency_penalty", "output_text", "presence_penalty", "store", "status", "obfuscation", "bytes"}
    ),
}
"""Keys outside the SDKs' types that the readers know, or that repeat the request or the output.

`bytes` is in log probabilities, which no request here asks for.
"""
_REPEATED = frozenset({"tools", "text"})
"""Settings of the request, which a Response object repeats."""
_HOLDERS = frozenset({"content", "content_block", "item", "output"})
_TYPES = frozenset({"message", "reasoning", "function_call", "custom_tool_call", "output_text", "refusal"})
_TYPES |= {"reasoning_text", "text", "thinking", "tool_use"}
"""The types of items, parts and blocks in these that are read. Others are carried or recorded as a whole."""
_EMPTY: tuple[Any, ...] = (None, "", [], {}, False, 0)


def silent_keys(
    dialect: str, events: list[Json], final: Json, losses: Iterable[Any], data: bytes = b""
) -> tuple[str, ...]:
    """The names of unknown keys with a value that are neither in the client's reply nor in a loss row.

    A key is in the reply if its name is, or each text of its value.
    """
    if dialect == "generate":
        return ()
    unknown = [found for event in events for found in _unknown(_typed(dialect, event)) if found[1] not in _EMPTY]
    if not unknown:
        return ()
    noted = json.dumps(final) + data.decode("utf-8", "replace") + "\n".join(map(str, losses))
    return tuple(
        sorted({key for key, value in unknown if key not in _READ[dialect] and not carried(key, value, noted)})
    )


def carried(key: str, value: Any, noted: str) -> bool:
    """Return whether a text of JSON has a key, or each text of its value."""
    texts = [json.dumps(text)[1:-1] for text in _texts(value)]
    return key in noted or (bool(texts) and all(text in noted for text in texts))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _typed(dialect: str, event: Json) -> Any:
    """The object of the vendor's SDK for a whole reply or an event."""
    if dialect == "chat":
        streamed = str(event.get("object") or "").endswith("chunk")
        return construct_openai(type_=ChatCompletionChunk if streamed else ChatCompletion, value=event)
    if dialect == "messages":
        whole = event.get("type") == "message"
        return construct_anthropic(type_=Message if whole else RawMessageStreamEvent, value=event)
    streamed = str(event.get("type") or "").startswith("response.")
    return construct_openai(type_=ResponseStreamEvent if streamed else Response, value=event)


def _unknown(made: Any, holder: str = "") -> Iterator[tuple[str, Any]]:
    """The keys that are in no type, with their values, at every level. `holder` is the key of the value itself."""
    if isinstance(made, BaseModel):
        if holder in _HOLDERS and getattr(made, "type", None) not in _TYPES:
            return
        yield from (made.model_extra or {}).items()
        for name in made.model_fields_set & type(made).model_fields.keys() - _REPEATED:
            yield from _unknown(getattr(made, name), name)
    elif isinstance(made, list):
        for inner in made:
            yield from _unknown(inner, holder)
