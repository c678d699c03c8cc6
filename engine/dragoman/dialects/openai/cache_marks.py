"""Cache marks of a request being written (mapping §7.4)."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects.openai.unknown_fields import note_unknown
from dragoman.dialects.shared.json_fields import optional, typed
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile

MOST_MARKS = 4
_BREAKPOINT = "prompt_cache_breakpoint"
_CONTROL = "cache_control"
_TTL = {"5m": "30m", "1h": "30m"}
_CONTROL_TTL = {"30m": "5m", "12h": "1h"}


def write_mark(cache: Json) -> Json:
    """A canonical mark as OpenAI's breakpoint; a lifetime never becomes a dearer one."""
    ttl = cache.get("ttl")
    return {"mode": "explicit", "ttl": _TTL.get(ttl, ttl)} if ttl else {"mode": "explicit"}


def write_control(cache: Json) -> Json:
    """A canonical mark as the `cache_control` that routers to Claude take (chat §12)."""
    ttl = cache.get("ttl")
    return {"type": "ephemeral", "ttl": _CONTROL_TTL.get(ttl, ttl)} if ttl else {"type": "ephemeral"}


class CacheMarks:
    """Puts marks on written parts and keeps the last ones, which are worth the most: the upstream takes only four."""

    __slots__ = ("_key", "_losses", "_put", "accepted", "any", "in_assistant")

    def __init__(self, profile: Profile, losses: Losses) -> None:
        self.accepted = profile.explicit_cache
        self.any = self.in_assistant = False
        """Did the request have any, sent or not; and did a text of the assistant's have one."""
        self._key = profile.cache_field
        self._losses = losses
        self._put: list[tuple[Json, Path]] = []

    def put(self, part: Json | None, cache: Json, at: Path) -> None:
        """Mark `part`; with none to put the mark on, or an upstream that takes none, it is dropped."""
        self.any = True
        if part is None or not self.accepted:
            self._losses.add(LossCode.CACHE_HINT, at)
            return
        if self._key not in part:
            self._put.append((part, at))
        part[self._key] = write_control(cache) if self._key == _CONTROL else write_mark(cache)

    def forget(self, parts: list[Json]) -> None:
        """The marked parts were taken back with their message."""
        gone = {id(part) for part in parts}
        while self._put and id(self._put[-1][0]) in gone:  # what was written last was marked last
            self._put.pop()

    def keep_last(self) -> None:
        """At the end: drop all but the last four."""
        for part, at in self._put[:-MOST_MARKS]:
            del part[self._key]
            self._losses.add(LossCode.CACHE_HINT, at, f"only the last {MOST_MARKS} marks are taken")


def is_marked(part: Json) -> bool:
    """Does a written part carry a mark."""
    return _BREAKPOINT in part or _CONTROL in part


CACHE_KEYS = ("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention")


MARK_KEYS = ("prompt_cache_breakpoint", "cache_control")


_MARK_MEMBERS = frozenset({"type", "mode", "ttl"})


def read_cache_mark(body: Json, at: Path, losses: Losses) -> Json | None:
    """The cache mark of a part, message or tool: OpenAI's breakpoint, or the `cache_control` that routers take."""
    for key in MARK_KEYS:
        mark = body.get(key)
        if mark is not None:
            where = (*at, key)
            note_unknown(typed(mark, dict, where), _MARK_MEMBERS, where, losses)
            return {"ttl": optional(mark, "ttl", str, where)}
    return None
