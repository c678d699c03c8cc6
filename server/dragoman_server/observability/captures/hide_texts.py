"""Replaces the texts of requests and replies in all dialects, and leaves their structure.

Every string is a text, unless it is the value of a member that is known to hold a word of the protocol: unknown fields
are hidden. Tool arguments, which are JSON within a string and come in fragments, are read as a whole: the names of
members that a tool of the request declares stay, and all values but true, false and null are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from dragoman.wire import json_loads
from dragoman_server.observability.captures.overwrite import (
    DIGITS,
    STOP_SEQUENCE,
    TEXT,
    View,
    overwrite,
    overwrite_digits,
    overwrite_view,
    view,
)

_PROTOCOL: Final = frozenset(
    b"anthropic_beta betas call_id category code container_id created_at detail display effort encoding environment"
    b" event_id file_id finish_reason format id include inference_geo item_id media_type mode modalities model"
    b" native_finish_reason object param phase previous_response_id prompt_cache_retention reason request_id required"
    b" response_id role service_tier status stop_reason syntax system_fingerprint tool_call_id tool_choice tool_use_id"
    b" truncation ttl type verbosity version voice $ref $schema"
    b" blockReason createTime finishReason language mimeType modality modelVersion outcome responseId responseMimeType"
    b" serviceTier thinkingLevel trafficType".split()
)
"""Members whose values are words of the protocol, ids, or names of models."""
_WORDS: Final = {b"summary": frozenset((b"auto", b"concise", b"detailed", b"none"))}
"""Members that hold a word of the protocol, or a text."""
_WORD: Final = re.compile(rb"[A-Za-z0-9_.:/@+#$\[\]-]{0,200}\Z")
_CODE: Final = re.compile(rb"[a-z0-9_]{0,100}\Z")
"""The code of an error; other members `code` hold a program's text."""
_NAME: Final = re.compile(rb"[A-Za-z_$][A-Za-z0-9_$.-]{0,99}\Z")
"""A member's name that can be one of the protocol."""
_OPAQUE: Final = frozenset(
    b"arguments metadata logit_bias variables bytes token_ids prompt_token_ids tokens env headers embedding documents"
    b" document".split()
)
"""Members whose values are texts as a whole, with their numbers and the names of their members."""
_TOKEN_LISTS: Final = frozenset((b"input", b"prompt"))
"""Members that may have a text as the numbers of its tokens, in an array."""
_LOGPROB: Final = frozenset((b"token", b"logprob", b"bytes"))
"""The members of an object in `top_logprobs`. Those of any other name there are tokens."""
_ARGUMENTS: Final = frozenset((b"arguments", b"partial_json"))
_STOPS: Final = frozenset((b"stop", b"stop_sequence", b"stop_sequences"))
_LINKED: Final = re.compile(rb"data:[\w.+/-]{0,100};base64,|https?://")
"""The start of a URL, which stays, as requests without it are invalid."""
_TOKEN: Final = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\],:]|-?[0-9][0-9.eE+-]*|true\b|false\b|null\b', re.DOTALL
)
_COMMENTS: Final = frozenset((b"", b"keep-alive", b"keepalive", b"ping", b"heartbeat", b"OPENROUTER PROCESSING"))
"""Comments of streams that have no text."""
_LINE: Final = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|\Z)")
_BARE: Final = (b"{", b"[")
_STREAM: Final = re.compile(rb"(?:data|event|id|retry)?:")
_START: Final = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*")


class Declared(NamedTuple):
    """The names of a request's tools, and those of the members of their inputs. They stay."""

    tools: frozenset[bytes] = frozenset()
    members: frozenset[bytes] = frozenset()

    def __or__(self, other: Any) -> Declared:
        return Declared(self.tools | other.tools, self.members | other.members)


def declared(request: bytes) -> Declared:
    """Return the names that the tools of a request body declare; none if it is not JSON."""
    try:
        payload = json_loads(request)
    except ValueError:
        return Declared()
    tools: set[bytes] = set()
    members: set[bytes] = set()
    pending: list[Any] = [payload.get("tools"), payload.get("functions")] if type(payload) is dict else []
    while pending:
        value = pending.pop()
        if type(value) is list:
            pending += value
        elif type(value) is dict:
            if type(name := value.get("name")) is str:
                tools.add(name.encode())
            if type(properties := value.get("properties")) is dict:
                members.update(each.encode() for each in properties)
            pending += value.values()
    return Declared(frozenset(tools), frozenset(members))


def hide_texts(body: bytes, names: Declared) -> bytearray:
    """Return a body, of the same length, whose texts are replaced. It may be JSON, a stream, cut, or anything else."""
    buffer = bytearray(body)
    start = _START.match(body)
    first = start.end() if start is not None else 0
    if body[first : first + 1] in (b"{", b"["):
        scan = _Scan(buffer, names)
        scan.document(first, len(body))
        scan.finish()
    elif _STREAM.match(body, first):
        _hide_in_stream(buffer, first, names)
    else:
        overwrite(buffer, 0, len(buffer), TEXT)
    return buffer


def _hide_in_stream(buffer: bytearray, first: int, names: Declared) -> None:
    scan = _Scan(buffer, names)
    bare = False
    """True within JSON without a field name, as which Google sends an error in a stream."""
    for line in _LINE.finditer(bytes(buffer), first):
        start, end = line.span(1)
        if start == end:
            scan.end_document()
            bare = False
            continue
        if bare or line[1][:1] in _BARE:
            bare = scan.bare(start, end)
            continue
        field, colon, _ = line[1].partition(b":")
        at = start + len(field) + len(colon)
        if buffer[at : at + 1] == b" ":
            at += 1
        if field == b"data" and colon:
            if buffer[at:end] != b"[DONE]":
                scan.data(at, end)
        elif field or line[1][at - start :] not in _COMMENTS:
            if field in (b"event", b"id", b"retry") and _WORD.match(buffer, at, end):
                continue
            overwrite(buffer, start if not colon else start + len(field) + 1, end, TEXT)
    scan.finish()


class _Frame:
    """An open object or array. `name` is the member that holds it, `key` the member whose value is next."""

    __slots__ = ("expects_name", "index", "is_object", "items", "key", "name", "opaque")

    def __init__(self, name: bytes, is_object: bool, opaque: bool) -> None:
        self.name = name
        self.is_object = self.expects_name = is_object
        self.opaque = opaque
        self.key = b""
        self.index: bytes | None = None
        """The value of its member `index` or `output_index`."""
        self.items = 0
        """The number of items so far."""


class _Fragment(NamedTuple):
    """A string with a part of a tool's arguments, and the frames that it is in, with their numbers of items."""

    name: bytes
    span: tuple[int, int]
    frames: tuple[tuple[_Frame, int], ...]

    def call(self, kind: bytes) -> tuple[object, ...]:
        """Return what identifies the call that it belongs to, in a document of this type."""
        places: list[object] = []
        ordinal = 0
        for frame, items in self.frames:
            if not frame.is_object:
                ordinal = items
            else:
                # The place in an array counts only where the item has no index of its own.
                places.append(ordinal if frame.index is None else frame.index)
                ordinal = 0
        return kind, self.name, *places


class _Scan:
    """Hides the texts of one body, which is one JSON document, or a stream of them."""

    def __init__(self, buffer: bytearray, names: Declared) -> None:
        self._buffer = buffer
        self._names = names
        self._stack: list[_Frame] = []
        self._type = b""
        self._fragments: list[_Fragment] = []
        """The fragments of the current document."""
        self._calls: dict[tuple[object, ...], list[tuple[int, int]]] = {}

    def bare(self, start: int, end: int) -> bool:
        """Hide the texts of a line of JSON without a field name. Return True if it is to be continued."""
        self.document(start, end)
        return bool(self._stack)

    def data(self, start: int, end: int) -> None:
        """Hide the texts of one line of data; a document may have several."""
        if self._stack or bytes(self._buffer[start : start + 1]) in (b"{", b"["):
            self.document(start, end)
        else:
            overwrite(self._buffer, start, end, TEXT)

    def document(self, start: int, end: int) -> None:
        """Hide the texts of a document, or of a part of one."""
        buffer, last = self._buffer, start
        for token in _TOKEN.finditer(buffer, start, end):
            if token.start() != last:
                self._hide_rest(last, token.start())
            last = token.end()
            first = buffer[token.start()]
            if first == 0x22:
                self._string(token.start() + 1, last - (last - token.start() > 1 and buffer[last - 1] == 0x22))
            elif first in b"{[":
                self._open(first == 0x7B)
            elif first in b"}]":
                if self._stack:
                    self._stack.pop()
            elif first == 0x2C:
                if self._stack:
                    frame = self._stack[-1]
                    frame.items += 1
                    frame.expects_name = frame.is_object
            elif first in b"-0123456789":
                self._number(token.start(), last)
        self._hide_rest(last, end)

    def _hide_rest(self, start: int, end: int) -> None:
        """Hide what is not JSON."""
        if self._buffer[start:end].strip():
            overwrite(self._buffer, start, end, TEXT)

    def _open(self, is_object: bool) -> None:
        stack = self._stack
        name, opaque = b"", False
        if stack:
            frame = stack[-1]
            name = frame.key if frame.is_object else frame.name
            # The input of a tool call is an object; that of a request is an array of items.
            opaque = frame.opaque
            if frame.name != b"properties":  # a schema may have properties of any name
                opaque = opaque or name in _OPAQUE or (is_object and frame.is_object and name == b"input")
        stack.append(_Frame(name, is_object, opaque))

    def _number(self, start: int, end: int) -> None:
        if not self._stack:
            return
        frame = self._stack[-1]
        name = frame.key if frame.is_object else frame.name
        if frame.opaque or name in _OPAQUE or (name in _TOKEN_LISTS and not frame.is_object):
            self._buffer[start:end] = self._buffer[start:end].translate(DIGITS)
        elif name in (b"index", b"output_index"):
            frame.index = bytes(self._buffer[start:end])

    def _string(self, start: int, end: int) -> None:
        buffer = self._buffer
        if not self._stack:
            overwrite(buffer, start, end, TEXT)
            return
        frame, content = self._stack[-1], bytes(buffer[start:end])
        if frame.is_object and frame.expects_name:
            frame.expects_name = False
            frame.key = content
            token = frame.name == b"top_logprobs" and content not in _LOGPROB
            if token or (content not in self._names.members and (frame.opaque or not _NAME.match(content))):
                overwrite(buffer, start, end, TEXT)
            return
        name = frame.key if frame.is_object else frame.name
        if not frame.opaque:
            if name in _PROTOCOL:
                if (_CODE if name == b"code" else _WORD).match(content):
                    if name == b"type" and len(self._stack) == 1:
                        self._type = content
                    return
            elif (name == b"name" and content in self._names.tools) or content in _WORDS.get(name, ()):
                return
            elif name in _ARGUMENTS or name == b"delta":
                self._add_fragment(name, start, end)
                return
            elif name in _STOPS:
                overwrite(buffer, start, end, STOP_SEQUENCE)
                return
        elif name == b"arguments":
            self._add_fragment(name, start, end)
            return
        if not frame.opaque and (linked := _LINKED.match(content)):
            start += linked.end()
        overwrite(buffer, start, end, TEXT)

    def _add_fragment(self, name: bytes, start: int, end: int) -> None:
        frames = tuple((frame, frame.items) for frame in self._stack)
        self._fragments.append(_Fragment(name, (start, end), frames))

    def end_document(self) -> None:
        """End a document of a stream."""
        kind = self._type
        for fragment in self._fragments:
            if fragment.name != b"delta" or b"arguments" in kind:
                self._calls.setdefault(fragment.call(kind), []).append(fragment.span)
            else:
                overwrite(self._buffer, *fragment.span, TEXT)
        self._fragments.clear()
        self._stack.clear()
        self._type = b""

    def finish(self) -> None:
        """End the last document, and hide the arguments of all calls."""
        self.end_document()
        for spans in self._calls.values():
            _hide_arguments(self._buffer, view(self._buffer, spans), self._names.members)


def _hide_arguments(buffer: bytearray, seen: View, members: Iterable[bytes]) -> None:
    """Hide the values in JSON that may be cut, or no JSON at all."""
    text, last = seen.text, 0
    objects: list[bool] = []
    expects_name = False
    for token in _TOKEN.finditer(text):
        if text[last : token.start()].strip():
            overwrite_view(buffer, seen, last, token.start(), TEXT)
        start, last = token.start(), token.end()
        first = text[start]
        if first == 0x22:
            end = last - (last - start > 1 and text[last - 1] == 0x22)
            if not expects_name or text[start + 1 : end] not in members:
                overwrite_view(buffer, seen, start + 1, end, TEXT, json=True)
            expects_name = False
        elif first in b"{[":
            objects.append(first == 0x7B)
            expects_name = objects[-1]
        elif first in b"}]":
            if objects:
                objects.pop()
            expects_name = False
        elif first == 0x2C:
            expects_name = bool(objects) and objects[-1]
        elif first in b"-0123456789":
            overwrite_digits(buffer, seen, start, last)
    if text[last:].strip():
        overwrite_view(buffer, seen, last, len(text), TEXT)
