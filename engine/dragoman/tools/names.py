"""Tool names and call ids that fit the target, reversibly (mapping §11).

Both functions are pure, so a name or id in old history is renamed exactly as the definition or the result is, and the
same body always becomes the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from string import ascii_letters, digits

from dragoman.errors import ClientRequestError, Path

_NAME = re.compile(r"[a-zA-Z0-9_-]+\Z")
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_FIT = f"{ascii_letters}{digits}_-".encode()


def sanitize_tool_name(name: str, longest: int) -> str:
    """`name` if it fits `[a-zA-Z0-9_-]{1,longest}`, else 55 sanitised characters, `_` and 8 hex digits of its hash."""
    # Most are identifiers, which is found out in a third of the pattern's time.
    if len(name) <= longest and ((name.isascii() and name.isidentifier()) or _NAME.match(name)):
        return name
    return _hashed(name)


def _hashed(name: str) -> str:
    return f"{_UNFIT.sub('_', name)[:55]}_{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def sanitize_call_id(call_id: str, longest: int) -> str:
    """`call_id` if it fits `[a-zA-Z0-9_-]{1,longest}`, else `call_` and 24 hex digits of its hash."""
    # Most are identifiers but for a hyphen.
    if len(call_id) <= longest and (
        (call_id.isascii() and call_id.replace("-", "_").isidentifier()) or _NAME.match(call_id)
    ):
        return call_id
    return f"call_{sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def all_valid(call_ids: list[str], longest: int) -> bool:
    """Does `fit_call_id` leave all of these as they are. All at once cost a third of each by itself."""
    if not call_ids:
        return True
    together = "".join(call_ids)
    return (
        max(map(len, call_ids)) <= longest
        and all(call_ids)
        and together.isascii()
        and not together.encode().translate(None, _FIT)
    )


def with_prefix(name: str, rules: Iterable[str]) -> str:
    """`name` by the first of the operator's `OLD=NEW` rules that it falls under: it begins with OLD and not with NEW.

    So a rule such as `mcp_=mcp__` leaves alone what already has the longer prefix.
    """
    for rule in rules:
        old, _, new = rule.partition("=")
        if name.startswith(old) and not (new and name.startswith(new)):
            return new + name[len(old) :] or name
    return name


class NameTable:
    """The renames of one request: filled by the request writer, read in reverse by the reply reader."""

    __slots__ = ("_rules", "_sent", "back", "ids_fit", "known", "longest")

    def __init__(self, longest: int, rules: tuple[str, ...] = ()) -> None:
        self.longest = longest
        self.ids_fit = False
        """Is it known that every call id of the conversation is sent as it is."""
        self._rules = rules
        self.known: dict[str, str] = {}
        """Client name → name to send, as far as `fit` was asked: a look-up here spares a long history the calls."""
        self._sent: set[str] = set()
        self.back: dict[str, str] = {}
        """Upstream name → client name, only where they differ."""

    def fit(self, name: str, at: Path = ()) -> str:
        """The name to send for `name`.

        Where a prefix rule makes a name that another tool has, the second of the two gets a hash at its end. Raises
        `ClientRequestError` when two names would be sent as the same one for another reason.
        """
        known = self.known.get(name)
        if known is not None:
            return known
        if self._rules:
            sent = sanitize_tool_name(with_prefix(name, self._rules), self.longest)
            if sent in self._sent:
                sent = _hashed(name)
        else:
            sent = sanitize_tool_name(name, self.longest)
        if sent != name:
            self.back[sent] = name
        if sent in self._sent:
            raise ClientRequestError(at, f"tool name {name!r} collides with another one once renamed to {sent!r}")
        self.known[name] = sent
        self._sent.add(sent)
        return sent


_PREFIXES = ("chatcmpl-", "msg_", "resp_")


def reply_id(upstream_id: str, prefix: str) -> str:
    """The client's reply id: the target's prefix and the body of the upstream's id, so that a reply can be traced.

    An upstream without ids gives a fixed body; uniqueness is then the gateway's request id.
    """
    for known in _PREFIXES:
        if upstream_id.startswith(known):
            upstream_id = upstream_id[len(known) :]
            break
    return prefix + (upstream_id or "none")
