"""Items of a history that no other dialect has, as text and parts (mapping §8.4).

Clients send their whole history with each request, so a 400 for one old item would end the session. A message between
agents is text already; other items become their JSON, without ids and opaque data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dragoman.canonical.parts import Image, Json, Part, Text, ToolCall, ToolResult
from dragoman.dialects.openai.content_parts import PartReader
from dragoman.dialects.openai.data_urls import read_image_url
from dragoman.dialects.responses.request.read_content import USER
from dragoman.dialects.shared.odd_history import LEFT_OUT, short
from dragoman.dialects.shared.placeholders import words_of
from dragoman.errors import ClientRequestError, Path
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import dumps

ENCRYPTED: Final = "[encrypted for another provider]"
"""Stands for encrypted content of a message between agents."""
COMPACTED: Final = "[Earlier turns of the conversation were compacted by another provider and cannot be read here.]"
"""Stands for another provider's compacted history."""
_CIPHERTEXT: Final = re.compile(r"[A-Za-z0-9+/_-]{64,}={0,2}\Z")


def is_encrypted(content: str) -> bool:
    """True if `content` is ciphertext.

    Codex puts the text that a model of another provider wrote for a sub-agent into `encrypted_content` too.
    """
    return _CIPHERTEXT.match(content) is not None


def agent_message(item: Json, at: Path, losses: Losses) -> list[Part]:
    """Return a message that one agent sent to another (Codex's `agent_message`) as parts of a user turn."""
    content = item.get("content")
    entries = content if type(content) is list else [content]
    parts: list[Part] = []
    texts: list[str] = []
    headed = False
    for index, entry in enumerate(entries):
        where = (*at, "content", index)
        if type(entry) is str:
            texts.append(entry)
        elif type(entry) is dict and type(text := entry.get("text")) is str:
            headed = True
            texts.append(text)
        elif type(entry) is dict and type(secret := entry.get("encrypted_content")) is str:
            if is_encrypted(secret):
                losses.add(LossCode.ITEM_SHAPE, where, "its encrypted content can be read by its provider only")
                secret = ENCRYPTED
            texts.append(secret)
        elif entry is not None:
            parts += lenient_parts([entry], USER, where[:-1], losses, first=index)
    if not headed:
        texts.insert(0, f"Message from {item.get('author') or 'an agent'} to {item.get('recipient') or 'an agent'}:\n")
    return [Text("".join(texts), at), *parts]


def loose_output(item: Json, content: str | list[Part], at: Path) -> list[Part]:
    """Return an output without a call as parts of a user turn.

    Codex's app server starts a turn with one: it is the prompt of a scheduled task.
    """
    name = ".".join(word for key in ("namespace", "name") if type(word := item.get(key)) is str and word)
    body = [Text(content, (*at, "output"))] if isinstance(content, str) else content
    return [Text(f"[Output of {name}]" if name else "[Output of a tool]", at), *body]


def computer_call(item: Json, call_id: str, at: Path) -> ToolCall:
    """Return the call of the computer tool as a function call."""
    arguments = item.get("action")
    if type(arguments) is not dict:
        arguments = {key: value for key, value in item.items() if key not in LEFT_OUT}
    return ToolCall(call_id, "computer", dumps(short(arguments)).decode(), at)


def computer_output(item: Json, call_id: str, at: Path) -> ToolResult:
    """Return the output of the computer tool as a function's result."""
    output = item.get("output")
    content: str | list[Part] = output if type(output) is str else dumps(short(output)).decode()
    if type(output) is dict and type(url := output.get("image_url")) is str:
        content = [Image(read_image_url(url, (*at, "output", "image_url")), (*at, "output"))]
    return ToolResult(call_id, content, at, is_error=item.get("status") == "failed")


def lenient_parts(
    content: list[Any], table: Mapping[str, PartReader], at: Path, losses: Losses, *, first: int = 0
) -> list[Part]:
    """Return the parts of `content`, with a placeholder for each that no other dialect has or that is malformed.

    Args:
        content: the parts.
        table: the known types.
        at: the path of the content.
        losses: where each placeholder is recorded.
        first: the index of the first part in the client's body.
    """
    parts: list[Part] = []
    for index, entry in enumerate(content, first):
        path = (*at, index)
        kind = entry.get("type") if type(entry) is dict else None
        reader = table.get(kind) if type(kind) is str else None
        try:
            if reader is not None:
                parts.append(reader(entry, path, losses))
                continue
            why = "no other dialect has such a part"
        except ClientRequestError as error:
            if losses.strict:
                raise
            why = str(error)
        losses.add(LossCode.ITEM_SHAPE, path, f"a placeholder was sent: {why}")
        parts.append(Text(words_of(entry) or f"[{kind if type(kind) is str else 'part'}]", path))
    return parts
