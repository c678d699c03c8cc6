"""Prompt cache fields and marks of OpenAI requests (mapping §7.4).

A mark ends a prefix that the upstream should cache. OpenAI's own is `prompt_cache_breakpoint`; routers to Claude take
Messages' `cache_control`.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.shared.json_fields import note_unknown, optional, typed
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile

CACHE_KEYS = ("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention")
"""Top-level request fields that control prompt caching."""
MARK_KEYS = ("prompt_cache_breakpoint", "cache_control")
"""Fields of a part, message or tool that hold a mark."""
MOST_MARKS = 4
"""Marks that an upstream accepts in one request."""
_BREAKPOINT, _CONTROL = MARK_KEYS
_MARK_MEMBERS = frozenset({"type", "mode", "ttl"})
_CHAT_OPTIONS = frozenset({"mode", "ttl"})
_CHAT_TTL = "30m"
"""The only lifetime that Chat has."""
_TTL = {"5m": "30m", "1h": "30m"}
_CONTROL_TTL = {"30m": "5m", "12h": "1h"}


def read_cache_mark(body: Json, at: Path, losses: Losses) -> Json | None:
    """Return the cache mark of a part, message or tool in its canonical form, or None."""
    for key in MARK_KEYS:
        mark = body.get(key)
        if mark is not None:
            where = (*at, key)
            note_unknown(typed(mark, dict, where), _MARK_MEMBERS, where, losses)
            return {"ttl": optional(mark, "ttl", str, where)}
    return None


def write_chat_options(options: Json, losses: Losses) -> Json:
    """Return `prompt_cache_options` as Chat has them: without `prewarm` and `comparison_response_id`, `ttl` 30m.

    The Responses API has more, and OpenAI rejects what an endpoint does not have.
    """
    at = "prompt_cache_options"
    sent: Json = {}
    for key, value in options.items():
        if value is None:
            continue
        if key not in _CHAT_OPTIONS:
            losses.add(LossCode.CACHE_HINT, (at, key))
        elif key == "ttl" and value != _CHAT_TTL:
            losses.add(LossCode.CACHE_HINT, (at, key), f"became {_CHAT_TTL}")
            sent[key] = _CHAT_TTL
        else:
            sent[key] = value
    return sent


def write_mark(cache: Json) -> Json:
    """Return a canonical mark as a `prompt_cache_breakpoint`. A lifetime is never replaced by a more expensive one."""
    ttl = cache.get("ttl")
    return {"mode": "explicit", "ttl": _TTL.get(ttl, ttl)} if ttl else {"mode": "explicit"}


def write_control(cache: Json, default: str | None = None) -> Json:
    """Return a canonical mark as a `cache_control` for routers to Claude (chat §12). `default` is its lifetime if it
    states none."""
    ttl = cache.get("ttl") or default
    return {"type": "ephemeral", "ttl": _CONTROL_TTL.get(ttl, ttl)} if ttl else {"type": "ephemeral"}


class CacheMarks:
    """Sets the cache marks of one request, and keeps the last four: they cover the longest prefixes."""

    __slots__ = ("_key", "_losses", "_marked", "_ttl", "accepted", "any", "in_assistant")

    def __init__(self, profile: Profile, losses: Losses, ttl: Any = None) -> None:
        self.accepted = profile.explicit_cache
        """True if the upstream accepts marks."""
        self.any = False
        """True if the request has marks, sent or dropped."""
        self.in_assistant = False
        """True if an assistant message has a mark."""
        self._key = profile.cache_field
        self._ttl = ttl if self._key == _CONTROL and type(ttl) is str else None
        """The lifetime of marks that state none, which routers to Claude do not read from `prompt_cache_options`."""
        self._losses = losses
        self._marked: list[tuple[Json, Path]] = []

    def put(self, part: Json | None, cache: Json, at: Path) -> None:
        """Mark a written part. Without a part, or if the upstream accepts no marks, the mark is dropped."""
        self.any = True
        if part is None or not self.accepted:
            self._losses.add(LossCode.CACHE_HINT, at)
            return
        if self._key not in part:
            self._marked.append((part, at))
        part[self._key] = write_control(cache, self._ttl) if self._key == _CONTROL else write_mark(cache)

    def forget(self, parts: list[Json]) -> None:
        """Remove the latest marks, whose parts are not sent: the message that holds them was removed."""
        removed = {id(part) for part in parts}
        while self._marked and id(self._marked[-1][0]) in removed:
            self._marked.pop()

    def unify_texts(self, messages: list[Json], *, arrays: bool) -> None:
        """Write Chat messages of a single text alike, all as arrays or all as strings.

        A cache mark requires an array, and clients move their marks with each request. A message that is an array in
        one request and a string in the next would change the cached prefix.
        """
        for message in messages:
            content = message["content"]
            if arrays:
                if type(content) is str and content and (self.in_assistant or message["role"] != "assistant"):
                    message["content"] = [{"type": "text", "text": content}]
            elif type(content) is list and len(content) == 1 and content[0]["type"] == "text":
                message["content"] = content[0]["text"]

    def keep_last(self, messages: list[Json] | None = None) -> None:
        """Drop all marks but the last four, after everything is written.

        In Chat's `messages`, a lifetime of one hour behind a shorter one is shortened: Claude rejects it.
        """
        marked, key = self._marked, self._key
        if key == _CONTROL and messages and len({part[key].get("ttl") == "1h" for part, _ in marked}) > 1:
            contents = (message.get("content") for message in messages)
            parts = (part for content in contents if type(content) is list for part in content)
            places = {id(part): place for place, part in enumerate(parts)}
            marked.sort(key=lambda entry: places.get(id(entry[0]), -1))
            short = False
            for part, at in marked[-MOST_MARKS:]:
                if part[key].get("ttl") != "1h":
                    short = True
                elif short:
                    part[key] = {"type": "ephemeral", "ttl": "5m"}
                    self._losses.add(LossCode.CACHE_HINT, at, "became 5m, as the mark of a shorter one precedes")
        for part, at in marked[:-MOST_MARKS]:
            del part[key]
            self._losses.add(LossCode.CACHE_HINT, at, f"only the last {MOST_MARKS} marks are taken")


def is_marked(part: Json) -> bool:
    """True if a written part has a cache mark."""
    return _BREAKPOINT in part or _CONTROL in part
