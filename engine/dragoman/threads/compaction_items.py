"""The items of a conversation as compaction sees them: their kinds and tokens, and what may go of each.

Items are those of the Responses API, in the form in which clients send them. They are never changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dragoman.canonical.parts import Image, Inline, Json, Url
from dragoman.dialects import DEFAULT_DIALECT
from dragoman.dialects.responses.built_in_items import BUILT_IN_CALLS, BUILT_IN_OUTPUTS
from dragoman.policies.evict_images import PLACEHOLDER
from dragoman.policies.token_budget import HEAD, TAIL, VERBOSE
from dragoman.tokens.by_characters import by_characters
from dragoman.tokens.counter import PROOF, Counter
from dragoman.tokens.media import image_tokens
from dragoman.wire.json_codec import dumps

_ITEM: Final = 4
"""Tokens around an item."""
_INSTRUCTIONS: Final = frozenset({"additional_tools", "configuration_update"})
"""Items that are no messages, and are for the whole conversation."""
_OUTPUTS: Final = frozenset(
    {"function_call_output", "custom_tool_call_output", "tool_search_output", *BUILT_IN_OUTPUTS}
)
_TASKS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "tool_search_call", *BUILT_IN_CALLS})
_COUNTER: Final = Counter(by_characters)
"""Shared by all conversations, so that an item is counted once and not with each request."""


def kind(item: Any) -> str:
    """Return the type of an item."""
    return str(item.get("type") or "message") if type(item) is dict else ""


def is_instruction(item: Any) -> bool:
    """True for what is neither summarised nor shortened: instructions, tools and settings."""
    return kind(item) in _INSTRUCTIONS or (kind(item) == "message" and item.get("role") in ("system", "developer"))


def is_users(item: Any) -> bool:
    """True for a message of the user, and for what stands for one: the task of a sub-agent or a scheduled one."""
    what = kind(item)
    return (what == "message" and item.get("role") == "user") or what == "agent_message" or _is_task(item)


def is_output(item: Any) -> bool:
    """True for the output of a call."""
    return kind(item) in _OUTPUTS and not _is_task(item)


def _is_task(item: Any) -> bool:
    """True for an output without a call, with which Codex's app server starts a turn."""
    return kind(item) in _TASKS and not item.get("call_id")


def is_call(item: Any) -> bool:
    """True for a call whose output the client sends."""
    return kind(item) in _CALLS


def tokens_of(item: Any) -> int:
    """Return the estimated tokens of an item."""
    texts: list[str] = []
    size = _ITEM + _collect(item, texts)
    return size + sum(_COUNTER.texts(texts))


def text_tokens(text: str) -> int:
    """Return the estimated tokens of a text."""
    return _COUNTER.texts([text])[0]


def _collect(value: Any, texts: list[str]) -> int:
    """Append the texts of an item, or of a part of it. Return the tokens of what is no text."""
    if type(value) is str:
        texts.append(value)
        return 0
    if type(value) is list:
        return sum(_collect(each, texts) for each in value)
    if type(value) is not dict:
        return 0
    if is_image(value):
        return image_tokens(_image(value), DEFAULT_DIALECT)
    size = 0
    for key, each in value.items():
        if key == "encrypted_content":
            size += len(each) // PROOF if type(each) is str else 0
        elif key not in ("id", "type", "role", "status", "call_id", "annotations", "logprobs"):
            size += _collect(each, texts)
    return size


def is_image(part: Any) -> bool:
    """True for an image in a message or in an output."""
    return type(part) is dict and part.get("type") == "input_image"


def _image(part: Json) -> Image:
    url = part.get("image_url")
    if type(url) is str and url.startswith("data:"):
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        return Image(Inline(media_type, data))
    return Image(Url(url if type(url) is str else ""))


def content_key(item: Any) -> str:
    """Return the field with the parts of an item."""
    return "output" if kind(item) in _OUTPUTS else "content"


def without_images(item: Any) -> tuple[Any, int]:
    """Return the item with placeholders for its images, and their number."""
    key = content_key(item)
    parts: Any = item.get(key) if type(item) is dict else None
    images = sum(map(is_image, parts)) if type(parts) is list else 0
    if not images:
        return item, 0
    placeholder = {"type": "input_text", "text": PLACEHOLDER}
    return {**item, key: [placeholder if is_image(part) else part for part in parts]}, images


def shortened(text: str) -> tuple[str, int]:
    """Return a text with its middle left out, if it is long, and the number of characters that were left out."""
    left_out = len(text) - HEAD - TAIL
    if left_out <= 0 or text_tokens(text) < VERBOSE:
        return text, 0
    return f"{text[:HEAD]}\n[... {left_out} characters removed to save context ...]\n{text[-TAIL:]}", left_out


def shortened_output(item: Any) -> tuple[Any, int]:
    """Return the output of a call with its long texts shortened, and the number of characters that were left out."""
    if not is_output(item):
        return item, 0
    output: Any = item.get("output")
    if type(output) is str:
        text, left_out = shortened(output)
        return ({**item, "output": text}, left_out) if left_out else (item, 0)
    if type(output) is not list:
        return item, 0
    parts, total = [], 0
    for part in output:
        if type(part) is dict and type(part.get("text")) is str:
            text, left_out = shortened(part["text"])
            part, total = {**part, "text": text}, total + left_out
        parts.append(part)
    return ({**item, "output": parts}, total) if total else (item, 0)


def texts_of(item: Any) -> str:
    """Return the texts of a message or of an output, without other parts."""
    return "\n".join(_texts(item.get(content_key(item))))


def _texts(value: Any) -> Iterator[str]:
    if type(value) is str:
        yield value
    elif type(value) is list:
        for part in value:
            if type(part) is dict:
                text = part.get("text") or part.get("refusal") or part.get("encrypted_content")
                yield text if type(text) is str else PLACEHOLDER if is_image(part) else f"[{part.get('type')}]"


def as_json(item: Any) -> str:
    """Return an item as JSON."""
    return dumps(item).decode()
