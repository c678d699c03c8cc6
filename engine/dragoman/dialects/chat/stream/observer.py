"""Watches a Chat stream that is passed through: its end, usage, in-band errors and grammar."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import Usage
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.chat.errors import is_error_frame, write_error_frame
from dragoman.dialects.chat.reply_fields import BODY, note_service
from dragoman.dialects.chat.stop_and_usage import READ_FINISH, read_finish_reason
from dragoman.dialects.chat.stream.reader import ChatReader
from dragoman.dialects.errors.read import read_error_payload
from dragoman.dialects.shared.json_fields import is_empty
from dragoman.errors import Failure
from dragoman.stages.observer import Observer
from dragoman.tokens.reply_text import text_length
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame


class ChatObserver(Observer):
    """Watches a Chat stream with any number of choices: `complete` is True while none of them is open."""

    __slots__ = ("_finished", "_open", "_totalled")

    dialect = Dialect.CHAT
    varying_keys = ChatReader.volatile

    def __init__(self) -> None:
        super().__init__()
        self._open: set[object] = set()
        """Indexes of the choices without a `finish_reason`."""
        self._finished: set[object] = set()
        """Indexes of the choices with a `finish_reason`."""
        self._totalled = False
        """True if the last chunk had token counts and no content, which shows that the reply is complete."""

    def observe(self, data: bytes, event: str) -> None:
        """Read one chunk, or `[DONE]`."""
        if data == b"[DONE]" and not self.closed:
            self.closed = True
            if not self.complete:
                self.complete = self._totalled and not self.tool_open
                self.violation("[DONE] before every choice had finished")
            return
        super().observe(data, event)

    def watch(self, payload: Json, event: str) -> None:
        """Read one chunk."""
        if is_error_frame(payload):
            return self.watch_error(payload, event)
        usage, choices = payload.get("usage"), payload.get("choices")
        if usage or not BODY.issuperset(payload) or (self.service is None and "service_tier" in payload):
            usage = self._count(payload) or usage
        if type(choices) is not list:
            if not (choices is None and usage):
                return self.violation("a chunk without choices")
            choices = []
        for choice in choices:
            if type(choice) is not dict:
                self.violation("a choice that is not an object")
                continue
            if "error" in choice and (error := choice["error"]):  # OpenRouter. SDKs read no error here.
                return self.refuse(read_error_payload({"error": error}, Dialect.CHAT))
            if "usage" in choice:  # Kimi
                usage = usage or self._count(payload)
            index = choice.get("index")
            if type(index) is not int:
                self.violation("a choice without an index")
                index = None
            delta = choice.get("delta")
            if not self._open and not self._finished and not delta and choice.get("message"):
                self.whole = b""
                return
            if type(delta) is dict and delta:
                self.progressed = True
                self.tool_open |= bool(delta.get("tool_calls"))
            if native := choice.get("finish_reason"):
                if type(native) is not str or native not in READ_FINISH:
                    self.check_stop(read_finish_reason, native)
                self.tool_open = False
                self._open.discard(index)
                self._finished.add(index)
            elif index not in self._finished:
                self._open.add(index)
            else:
                self.violation("a chunk of a choice that had finished")
        self._totalled = bool(usage) and all(
            type(choice) is dict and is_empty(choice.get("delta")) for choice in choices
        )
        self.complete = bool(self._finished) and not self._open
        self.counted |= self.complete and bool(usage)
        if len(choices) == 1 and not self.violations:
            self.sole_text = _sole_text(choices[0])
        if self.sole_text is not None:
            self.written += len(self.sole_text)
        else:
            self.written += sum([_length(choice.get("delta")) for choice in choices if type(choice) is dict])

    def _count(self, payload: Json) -> Usage | None:
        """Note what a chunk states about the service, and return its token counts, wherever they are."""
        counts = note_service(payload, self)
        if counts is not None:
            self.usage, self.counted = counts, False
        return counts

    def is_own_error(self, payload: Json, event: str) -> bool:
        """Return whether the SDKs read the message of this error."""
        error = payload.get("error")
        return type(error) is dict and type(error.get("message")) is str

    def error_frame(self, failure: Failure, request_id: str | None = None) -> Frame:
        """Return the frame `data: {"error": …}`."""
        return Frame("", dumps(write_error_frame(failure, request_id)))


def _sole_text(choice: Json) -> str | None:
    """Return the text of a choice whose delta has nothing else, or None."""
    delta = choice.get("delta")
    if choice.get("finish_reason") or type(delta) is not dict or len(delta) != 1:
        return None
    (value,) = delta.values()
    if type(value) is list and len(value) == 1 and type(value[0]) is dict:
        function = value[0].get("function")
        value = function.get("arguments") if type(function) is dict else None
    return value if type(value) is str else None


def _length(delta: Any) -> int:
    """Return the number of characters of a delta's texts and arguments. Some servers send reasoning under two names."""
    if not delta or type(delta) is not dict:
        return 0
    content, reasoning = delta.get("content"), delta.get("reasoning_content") or delta.get("reasoning")
    if type(content) is list or (not reasoning and "reasoning_details" in delta):
        return text_length(delta)
    texts = [content, delta.get("refusal"), reasoning]
    calls = delta.get("tool_calls")
    for call in calls if type(calls) is list else ():
        function = call.get("function") if type(call) is dict else None
        texts.append(function.get("arguments") if type(function) is dict else None)
    return sum([len(text) for text in texts if type(text) is str])
