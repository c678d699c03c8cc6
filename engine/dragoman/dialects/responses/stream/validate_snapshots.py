"""The snapshots of a Responses stream that was written, as its client knows them, with the rules for snapshots.

A snapshot repeats the request with all its tools, twice at the start and once at the end. Where its bytes equal those
of a snapshot that was checked before, only a hash is compared; any other snapshot is parsed and checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.responses.stream.validate_items import ValidatedItem
from dragoman.stages.output_validator import GrammarError, counted, member, payload_of
from dragoman.wire.json_codec import dump_str, dumps

# fmt: off
_REQUIRED: Final = frozenset((
    "error", "incomplete_details", "instructions", "metadata", "output", "tools", "usage", "completed_at", "text",
    "previous_response_id", "truncation", "reasoning", "user", "max_output_tokens", "max_tool_calls", "service_tier",
    "safety_identifier", "prompt_cache_key",
))
_NUMBERS: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs")
_BOOLEANS: Final = ("parallel_tool_calls", "store", "background")
# fmt: on
_SNAPSHOT: Final = re.compile(
    rb'("response":\{"id":"[^"\\]+","object":"response","created_at":\d{1,18},"model":"[^"\\]*"),'
    rb'"status":"(\w+)","output":\['
)
"""A snapshot in the format of the writer, from the end of the sequence number to the first item."""
_USAGE: Final = re.compile(
    rb'"usage":\{"input_tokens":(%(n)b),"input_tokens_details":\{"cached_tokens":%(n)b,"cache_write_tokens":%(n)b\},'
    rb'"output_tokens":(%(n)b),"output_tokens_details":\{"reasoning_tokens":%(n)b\},"total_tokens":(%(n)b)\},'
    rb'"completed_at":(?:null|%(n)b),"service_tier":"[a-z]+"\}\}' % {b"n": rb"(?:0|[1-9][0-9]{0,17})"}
)
"""The end of the last snapshot in the format of the writer."""
_CREATED: Final = b'event: response.created\ndata: {"type":"response.created","sequence_number":0,'
_IN_PROGRESS: Final = b'event: response.in_progress\ndata: {"type":"response.in_progress","sequence_number":1,'
"""The first two frames up to their snapshots."""
_LONG: Final = 4096
"""Bytes. A longer echo of the request is compared by its length, its first and its last 256 bytes."""
_COMPLETED: Final = b',"status":"completed","output":['
_KNOWN_ECHOES: Final[dict[int, int]] = {}
"""First snapshots that were checked and are valid: hash of all after their output → hash of their echo."""
_KNOWN_ECHOES_MAX: Final = 512
_COMMA, _BRACKET = b",]"


class ValidatedSnapshots:
    """Snapshots of one stream. `identity` is a hash of id, time and model, None before the first snapshot."""

    __slots__ = ("_echo", "_identity_size", "identity")

    def __init__(self) -> None:
        self.identity: int | None = None
        self._identity_size = 0
        """The length of id, time and model in the writer's format."""
        self._echo = 0
        """Hash of what the first snapshot repeats of the request; 0 if it is not in the writer's format."""

    def usual_start(self, data: bytes) -> int:
        """Take the first two frames, if their snapshots are equal and have a known echo.

        Returns the position in `data` after them, else 0.
        """
        if not data.startswith(_CREATED):
            return 0
        # One byte is found in a tenth of the time that two take.
        end = data.find(b"\n", len(_CREATED))
        second = _IN_PROGRESS + data[len(_CREATED) : end] + b"\n\n"
        at = end + 2
        if not data.startswith(b"\n\n", end) or not data.startswith(second, at):
            return 0
        return at + len(second) if self.is_known_start(data, len(_CREATED), end) else 0

    def is_known_start(self, data: bytes, at: int, end: int) -> bool:
        """True if the snapshot between these positions is in progress and has a known echo.

        The first one is kept. Any other must have the same identity and echo.
        """
        match = _SNAPSHOT.match(data, at, end)
        if match is None or match[2] != b"in_progress":
            return False
        echo, identity = _KNOWN_ECHOES.get(_digest(data[match.end() : end])), match[1]
        if echo is None:
            return False
        if self.identity is not None:
            return echo == self._echo and hash(identity) == self.identity
        self._echo, self.identity, self._identity_size = echo, hash(identity), len(identity)
        return True

    def is_expected_end(self, data: bytes, at: int, end: int, items: Sequence[ValidatedItem]) -> bool:
        """True if the snapshot between these positions is completed, repeats the finished items and else equals the
        first one.

        Raises `GrammarError` for invalid token counts, and for items that were cut.
        """
        status = at + self._identity_size
        if not self._echo or not data.startswith(_COMPLETED, status) or hash(data[at:status]) != self.identity:
            return False
        at = output = status + len(_COMPLETED)
        for item in items:
            if at != output:
                if data[at] != _COMMA:
                    return False
                at += 1
            following = at + item.size
            if item.done is None or hash(data[at:following]) != item.done:
                return False
            at = following
            if item.cut:
                item.check_status("completed")
        usage = data.rfind(b'"usage":', at, end)
        if data[at] != _BRACKET or _digest(data[at:usage]) != self._echo:
            return False
        counts = _USAGE.fullmatch(data, usage, end)
        if counts is None or int(counts[1]) + int(counts[2]) != int(counts[3]):
            _check_usage(payload_of(b"{" + data[usage : end - 1]).get("usage"))
        return True

    def read(self, event: Json, payload: bytes, at: int) -> Json:
        """Check an event's snapshot and return it. `at` is its position in the payload, 0 if it is not known.

        Raises `GrammarError`.
        """
        response: Json = member(event, "response", dict)
        if not response.keys() >= _REQUIRED or response.get("object") != "response":
            raise GrammarError("a response without one of its keys")
        response_id, time, model = response.get("id"), response.get("created_at"), response.get("model")
        if not response_id or type(response_id) is not str or type(time) is not int or type(model) is not str:
            raise GrammarError("a response without an id, a time or a model")
        if response.get("tool_choice") is None:
            raise GrammarError("a response without tool_choice")
        if any(type(response.get(key)) not in (int, float) for key in _NUMBERS):
            raise GrammarError("a response without one of its numbers")
        if any(type(response.get(key)) is not bool for key in _BOOLEANS):
            raise GrammarError("a response without one of its booleans")
        identity = hash(
            b'"response":{"id":%b,"object":"response","created_at":%d,"model":%b'
            % (dump_str(response_id), time, dump_str(model))
        )
        match = _SNAPSHOT.match(payload, at) if at else None
        if self.identity is None:
            self._check_start(response)
            self.identity = identity
            if match is not None and match[2] == b"in_progress":
                echo = payload[match.end() : payload.rfind(b'"usage":')]
                self._echo, self._identity_size = _digest(echo), len(match[1])
                if len(_KNOWN_ECHOES) >= _KNOWN_ECHOES_MAX:
                    _KNOWN_ECHOES.clear()
                _KNOWN_ECHOES[_digest(payload[match.end() :])] = self._echo
            return response
        if event["type"] == "response.created":
            raise GrammarError("response.created twice")
        if identity != self.identity:
            raise GrammarError("id, created_at or model changed within the stream")
        if match is not None and self._echo and not self._repeats(payload, match, response):
            raise GrammarError("the snapshot repeats the request in another way than the first one")
        if response["status"] in ("in_progress", "queued"):
            self._check_start(response)
        return response

    def _check_start(self, response: Json) -> None:
        if response["output"] != []:
            raise GrammarError("a beginning with output")
        if response.get("status") not in ("in_progress", "queued"):
            raise GrammarError("a beginning with another status")
        if response["error"] is not None or response["incomplete_details"] is not None or response["usage"] is not None:
            raise GrammarError("a beginning with what only an end has")

    def _repeats(self, payload: bytes, match: re.Match[bytes], response: Json) -> bool:
        """True if a snapshot has the identity and echo of the first one. Its items and its error are ignored."""
        output, end = dumps(response["output"]), payload.rfind(b'"usage":')
        at = match.end() + len(output) - 2
        if payload[match.end() - 1 : at + 1] != output:
            return True  # not in the writer's format: cannot be compared
        rest = payload[at:end]
        for key in ("error", "incomplete_details"):
            rest = rest.replace(b'"%b":%b' % (key.encode(), dumps(response[key])), b'"%b":null' % key.encode(), 1)
        if _digest(rest) == self._echo:
            return True
        # A response that has failed is not stored, whatever the first snapshot announced.
        failed = response["status"] == "failed" and response.get("store") is False
        return failed and _digest(rest.replace(b'"store":false', b'"store":true', 1)) == self._echo


def check_end(status: str, response: Json, items: Sequence[ValidatedItem]) -> None:
    """Check the last snapshot, whose event means this status. Raises `GrammarError`."""
    if response.get("status") != status:
        raise GrammarError("a terminal event whose response has another status")
    if (response["error"] is None) is (status == "failed"):
        raise GrammarError("an error without failure, or failure without an error")
    if (response["incomplete_details"] is None) is (status == "incomplete"):
        raise GrammarError("a reason for being incomplete, or incomplete without one")
    _check_usage(response["usage"])
    output = member(response, "output", list)
    if len(output) != len(items):
        raise GrammarError("a last snapshot with another number of items than the stream")
    for raw, item in zip(output, items, strict=True):
        item.check_final(raw, status)


def _check_usage(usage: Any) -> None:
    if usage is None:
        return
    counted(usage, "input_tokens", "output_tokens", "total_tokens")
    counted(usage.get("input_tokens_details"), "cached_tokens")
    counted(usage.get("output_tokens_details"), "reasoning_tokens")
    if usage["total_tokens"] != usage["input_tokens"] + usage["output_tokens"]:
        raise GrammarError("token counts that do not add up")


def _digest(data: bytes) -> int:
    return hash(data if len(data) <= _LONG else (len(data), data[:256], data[-256:]))
