"""Tool names, call ids and reply ids in the form that the receiving API accepts (mapping §11).

`sanitize_tool_name` and `sanitize_call_id` are pure functions: a name or id in the history is changed exactly as the
tool's definition or the call's result is, and the same body always becomes the same bytes. `NameTable` keeps the
original names of one request for its reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from string import ascii_letters, digits

from dragoman.errors import ClientRequestError, Path

_LONGEST_USER = 64
_SHORT_ID = 9
"""Length of Mistral's call ids (https://github.com/anomalyco/opencode/issues/1680)."""
_SHORT = re.compile(r"[a-zA-Z0-9]{9}\Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]+\Z")
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_FIT = f"{ascii_letters}{digits}_-".encode()


def sanitize_tool_name(name: str, longest: int) -> str:
    """Return `name` if it matches `[a-zA-Z0-9_-]{1,longest}`, else 55 sanitized characters, `_` and 8 hex digits of
    its SHA-256."""
    # Most names are identifiers; `isidentifier` takes a third of the pattern's time.
    if len(name) <= longest and ((name.isascii() and name.isidentifier()) or _NAME.match(name)):
        return name
    return _hashed(name)


def _hashed(name: str) -> str:
    return f"{_UNFIT.sub('_', name)[:55]}_{_digest(name)[:8]}"


def sanitize_call_id(call_id: str, longest: int) -> str:
    """Return `call_id` if it matches `[a-zA-Z0-9_-]{1,longest}`, else `call_` and 24 hex digits of its SHA-256.

    With `longest` 9 it must be nine letters and digits, else it becomes nine hex digits.
    """
    if longest == _SHORT_ID:
        return call_id if _SHORT.match(call_id) else _digest(call_id)[:_SHORT_ID]
    # Most ids are identifiers apart from hyphens.
    if len(call_id) <= longest and (
        (call_id.isascii() and call_id.replace("-", "_").isidentifier()) or _NAME.match(call_id)
    ):
        return call_id
    return f"call_{_digest(call_id)[:24]}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sanitize_user_id(user: str) -> str:
    """Return a client's id of its end user, or its hash if it is long or JSON: Claude Code's has device ids."""
    if len(user) > _LONGEST_USER or user.startswith("{"):
        return _digest(user)
    return user


def all_valid(call_ids: Sequence[str], longest: int) -> bool:
    """True if `sanitize_call_id` would change none of `call_ids`. One check of all costs a third of checking each."""
    if not call_ids:
        return True
    if longest == _SHORT_ID:
        return all(map(_SHORT.match, call_ids))
    together = "".join(call_ids)
    return (
        max(map(len, call_ids)) <= longest
        and all(call_ids)
        and together.isascii()
        and not together.encode().translate(None, _FIT)
    )


def with_prefix(name: str, rules: Iterable[str]) -> str:
    """Return `name` with its prefix replaced by the first of the `OLD=NEW` rules that applies.

    A rule applies to names that begin with OLD but not with NEW, so `mcp_=mcp__` does not change `mcp__files`.

    Args:
        name: the client's name for a tool.
        rules: the operator's rules, the knob `tool_prefixes`.
    """
    for rule in rules:
        old, _, new = rule.partition("=")
        if name.startswith(old) and not (new and name.startswith(new)):
            return new + name[len(old) :] or name
    return name


class NameTable:
    """The renamed tools of one request: filled by the request writer, read in reverse by the reply reader.

    Args:
        longest: longest tool name that the upstream accepts, in characters.
        rules: `OLD=NEW` prefix rules, see `with_prefix`.
    """

    __slots__ = ("_rules", "_sent", "back", "ids_fit", "known", "longest")

    def __init__(self, longest: int, rules: tuple[str, ...] = ()) -> None:
        self.longest = longest
        self.ids_fit = False
        """True once it is known that every call id of the conversation can be sent unchanged."""
        self._rules = rules
        self.known: dict[str, str] = {}
        """Client name → upstream name, for the names that `fit` has seen. Writers look here before they call `fit`."""
        self._sent: set[str] = set()
        self.back: dict[str, str] = {}
        """Upstream name → client name, only where they differ."""

    def fit(self, name: str, at: Path = ()) -> str:
        """Return the upstream name of `name`; `at` is its place in the client's request.

        If a prefix rule produces a name that another tool has, the second of the two gets a hash at its end. Raises
        `ClientRequestError` if two names become equal for any other reason.
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
    """Return the id of the client's reply: `prefix` and the upstream's id without its own prefix.

    So a reply can be traced to the upstream's. If `upstream_id` is empty, the id is a fixed one; the gateway's
    request id is unique then.
    """
    for known in _PREFIXES:
        if upstream_id.startswith(known):
            upstream_id = upstream_id[len(known) :]
            break
    return prefix + (upstream_id or "none")
