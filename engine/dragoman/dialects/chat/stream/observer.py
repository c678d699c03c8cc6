"""Watches a Chat stream that is passed through: its end, usage, in-band errors and grammar."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import CUTS, Usage
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.chat.call_body import CALL_TYPES, call_body
from dragoman.dialects.chat.errors import is_error_frame, write_error_frame
from dragoman.dialects.chat.reply_fields import BODY, note_service
from dragoman.dialects.chat.stop_and_usage import READ_FINISH, finish_word, read_finish_reason
from dragoman.dialects.chat.stream.reader import ChatReader
from dragoman.dialects.chat.stream.repairs import OTHER_FORM, has_counts, usual_chunk
from dragoman.dialects.errors.read import read_error_payload, unwrapped
from dragoman.dialects.shared.forwarded_calls import ForwardedCalls
from dragoman.dialects.shared.json_fields import is_empty, is_others_role
from dragoman.errors import Failure
from dragoman.stages.observer import Observer
from dragoman.tokens.reply_text import text_length
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame, encode

_HEAD: Final = ("id", "created", "model")


class ChatObserver(Observer):
    """Watches a Chat stream with any number of choices: `complete` is True while none of them is open."""

    __slots__ = (
        "_calls",
        "_finished",
        "_first",
        "_head",
        "_held",
        "_lacks",
        "_open",
        "_shown",
        "_totalled",
        "_touched",
        "_word",
    )

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
        self._head: Json | None = None
        """The first chunk."""
        self._shown = False
        """True if there was a text."""
        self._calls: ForwardedCalls | None = None
        """The calls of the only choice. None before the first."""
        self._touched: list[tuple[int, int]] = []
        """The calls of the last frame: the index of each, and the number of its fragments before; -1 for a new one."""
        self._held: list[tuple[int, int]] | None = None
        """Those of the frame that is held."""
        self._lacks = self._first = False
        """True if the last chunk lacks a member, or has it in another form; if the message began with it."""
        self._word: str | None = None
        """The `finish_reason` that the last chunk means, if it is another than its own."""

    def observe(self, data: bytes, event: str) -> None:
        """Read one chunk, or `[DONE]`."""
        if data == b"[DONE]" and not self.closed:
            self.closed = True
            if not self.complete:
                self.complete = self._totalled and not self.tool_open
                self.violation("[DONE] before every choice had finished")
            return
        super().observe(data, event)
        if self._lacks:
            self._repair(data, event)

    def _repair(self, data: bytes, event: str) -> None:
        """Put the usual form of a chunk in its place, unless it is not forwarded."""
        if not self.odd and self.fault is None and self.failure is None and self.whole is None:
            usual = usual_chunk(data, self.usage, self._word, first=self._first)
            self.instead, self.repair = encode(Frame(event, usual)), OTHER_FORM
        self._lacks = self._first = False
        self._word = None

    def watch(self, payload: Json, event: str) -> None:
        """Read one chunk."""
        usage, choices = payload.get("usage"), payload.get("choices")
        if (choices is None or "error" in payload) and is_error_frame(payload):
            return self.watch_error(payload, event)
        self.on_run = None
        if self._touched:
            self._touched = []
        if usage or not BODY.issuperset(payload) or (self.service is None and "service_tier" in payload):
            usage = self._count(payload) or usage
        if type(choices) is not list:
            if type(choices) is dict and choices:
                self.odd = True
                return None
            if choices is None and unwrapped(payload, Dialect.CHAT) is not payload:
                self.odd = True
                return None
            if not (choices is None and usage):
                return self.violation("a chunk without choices")
            choices, self._lacks = [], not self.several
        if usage and not has_counts(payload.get("usage")):
            self._lacks = not self.several
        for choice in choices:
            if type(choice) is not dict:
                self.violation("a choice that is not an object")
                self._lacks = self._lacks or (choice is None and not self.several)
                continue
            if "usage" in choice:  # Kimi
                usage = usage or self._count(payload)
            if not self._watch_choice(choice, payload):
                return None
        self._totalled = bool(usage) and all(
            type(choice) is dict and is_empty(choice.get("delta")) for choice in choices
        )
        self.complete = bool(self._finished) and not self._open
        self.counted |= self.complete and bool(usage)
        if self._held is not None and not self.holds:
            self.harmless = not self._touched and all([_has_nothing(choice) for choice in choices])
        if len(choices) == 1 and not self.violations:
            self.sole_text = _sole_text(choices[0])
        if self.sole_text is not None:
            self.written += len(self.sole_text)
            self._shown = self._shown or self.on_run is None
        else:
            self._shown = True
            for choice in choices:
                if type(choice) is dict and (delta := choice.get("delta")):
                    self.written += _length(delta)

    def _watch_choice(self, choice: Json, payload: Json) -> bool:
        """Read a choice of a chunk. Return False if the chunk is not to be forwarded as it is."""
        if "error" in choice and (error := choice["error"]):  # OpenRouter. SDKs read no error here.
            self.refuse(read_error_payload({"error": error}, Dialect.CHAT))
            return False
        index = choice.get("index")
        delta = choice.get("delta")
        if self._head is None:
            if not delta and choice.get("message"):
                self.whole = b""
                return False
            self._head = payload
            begins = type(delta) is dict and delta.get("role") == "assistant" and type(payload.get("created")) is int
            if not begins and not self.several and not self._starts_usual(payload, delta):
                return False
        if type(index) is not int:
            if not self.several:
                self.odd = True
                return False
            self.violation("a choice without an index")
            index = None
        if (
            (index or (not delta and ("message" in choice or "text" in choice)))
            and not self.several
            and self._is_odd(choice, index)
        ):
            self.odd = True
            return False
        if type(delta) is dict and delta:
            content = delta.get("content")
            if (
                ("function_call" in delta or "finish_reason" in delta)
                or (content is not None and type(content) is not str)
            ) and self._is_odd_delta(delta):
                self.odd = True
                return False
            self.progressed = True
            if calls := delta.get("tool_calls"):
                self.tool_open = True
                if not self.several and not self._read_calls(calls):
                    self.odd = True
                    return False
        elif type(delta) is not dict and not self.several:
            self._lacks, self.odd = True, bool(delta)
            if delta:
                return False
        native = choice.get("finish_reason")
        if not native:
            if index not in self._finished:
                self._open.add(index)
            else:
                self.violation("a chunk of a choice that had finished")
            return True
        if self._calls is not None and not self._may_end(native):
            self.odd = True
            return False
        if type(native) is not str or native not in READ_FINISH:
            self.check_stop(read_finish_reason, native)
        if (native != "stop" or self._calls is not None) and not self.several:
            self._check_word(native)
        self.tool_open = False
        self._open.discard(index)
        self._finished.add(index)
        return True

    # --- what clients would misread --------------------------------------------------------------------------------

    def _is_odd(self, choice: Json, index: object) -> bool:
        """True for a choice that was not requested, and for a message or a text in place of a delta."""
        message = choice.get("message")
        return (
            bool(index)
            or bool(choice.get("text"))
            or (type(message) is dict and not self._shown and bool(message.get("content")))
            or (type(message) is dict and self._calls is None and bool(message.get("tool_calls")))
        )

    def _is_odd_delta(self, delta: Json) -> bool:
        """True if the content of a delta is no text, it has a `finish_reason`, or a former `function_call`.

        Such a call is left out next to the same one in `tool_calls`.
        """
        if self.several:
            return False
        content = delta.get("content")
        if content is not None and type(content) is not str and not (type(content) is list and self.content_parts):
            return True
        if not is_empty(delta.get("function_call")):
            if not delta.get("tool_calls") and self._calls is None:
                return True
            self._lacks = True
        return bool(delta.get("finish_reason"))

    def _starts_usual(self, chunk: Json, delta: Any) -> bool:
        """Add a role to the first chunk of a message. Return False, and be `odd`, if it has another, or an odd time."""
        role, created = delta.get("role") if type(delta) is dict else None, chunk.get("created")
        self.odd = is_others_role(role) or (created is not None and type(created) is not int)
        self._lacks = self._first = role != "assistant"
        return not self.odd

    def _read_calls(self, fragments: Any) -> bool:
        """Record the fragments of calls. Return False if clients would misread them.

        They join the texts of all fragments by index, ids and names too, and parse the arguments as one JSON object.
        """
        if type(fragments) is not list:
            return False
        calls = self._calls
        if calls is None:
            calls = self._calls = ForwardedCalls()
        if calls.lost:
            return True
        for fragment in fragments:
            if not fragment:
                self._lacks = True
                continue
            if type(fragment) is not dict or type(key := fragment.get("index")) is not int:
                return False
            if (kind := fragment.get("type")) not in CALL_TYPES:  # clients read what they know
                calls.lost = True
                return True
            custom, body = call_body(fragment)
            if not body:
                return False
            call_id, name = fragment.get("id"), body.get("name")
            call = calls.by_key.get(key)
            self._touched.append((key, -1 if call is None else call.arguments.count))
            if call is None:
                if key != len(calls.by_key) or not calls.start(key, call_id, name, custom=custom):
                    return False
                if not kind:
                    self._lacks = True
                if key not in calls.by_key:
                    return True
            elif call_id or name:
                return False
            verdict = calls.add(key, body.get("input" if custom else "arguments"))
            if verdict == "odd":
                return False
            if verdict == "unsure":
                self.holds = True
                self._held = self._held or self._touched
            self.on_run = calls.by_key[key].arguments.add_all
        return True

    def _may_end(self, native: object) -> bool:
        """True unless the reply is complete and a call is not whole. Clients run calls at the `finish_reason`."""
        calls = self._calls
        assert calls is not None
        if calls.lost or calls.are_whole():
            return True
        return type(native) is not str or READ_FINISH.get(native) in CUTS

    def _check_word(self, native: Any) -> None:
        """Look at a `finish_reason`: clients compare it with OpenAI's words, and with the calls."""
        if type(native) is str and self.fault is None:
            calls = self._calls is not None and (self._calls.lost or bool(self._calls.by_key))
            if (word := finish_word(native, calls=calls)) != native:
                self._word, self._lacks = word, True

    def so_far(self) -> list[bytes]:
        """See `Observer.so_far`."""
        if self._head is None or not (self._open or self._finished):
            return []
        deltas: list[Json] = [{"role": "assistant", "content": "." if self._shown else ""}]
        counts: dict[int, int | None] = {}
        for index, count in (*(self._held or ()), *self._touched):
            counts.setdefault(index, count)
        for index, call in self._calls.by_key.items() if self._calls is not None else ():
            if (before := counts.get(index)) == -1:
                continue
            key, text = ("custom", "input") if call.custom else ("function", "arguments")
            body = {"name": call.name, text: ""}
            deltas.append({"tool_calls": [{"index": index, "id": call.id, "type": key, key: body}]})
            deltas += [{"tool_calls": [{"index": index, key: {text: piece}}]} for piece in call.fragments(before)]
        head = {key: self._head.get(key) for key in _HEAD}
        return [dumps({**head, "choices": [{"index": 0, "delta": delta}]}) for delta in deltas]

    def settle(self) -> bool:
        """See `Observer.settle`."""
        self._held = self._touched if self.holds else None
        return True

    # --- the rest --------------------------------------------------------------------------------------------------

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


def _has_nothing(choice: Any) -> bool:
    """True for a choice of a chunk that adds nothing to the message, and does not end it."""
    return type(choice) is not dict or (is_empty(choice.get("delta")) and not choice.get("finish_reason"))


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
    if type(delta) is not dict:
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
