"""Content of Chat and Responses requests: cache marks, data URLs, and fields that no dialect knows."""

from __future__ import annotations

from dragoman.canonical.request import Inline, Json
from dragoman.dialects.shared.json_fields import optional, typed
from dragoman.errors import ClientRequestError, Path
from dragoman.losses import LossCode, Losses

_MARKS = ("prompt_cache_breakpoint", "cache_control")


_MARK_KEYS = frozenset({"type", "mode", "ttl"})


_HEADS = {f"data:{kind};base64": kind for kind in ("image/png", "image/jpeg", "image/webp", "image/gif")}
"""The usual beginnings, which need no reading."""


def read_cache_mark(body: Json, at: Path, losses: Losses) -> Json | None:
    """The cache mark of a part, message or tool: OpenAI's breakpoint, or the `cache_control` that routers take."""
    for key in _MARKS:
        mark = body.get(key)
        if mark is not None:
            where = (*at, key)
            note_unknown(typed(mark, dict, where), _MARK_KEYS, where, losses)
            return {"ttl": optional(mark, "ttl", str, where)}
    return None


def note_unknown(body: Json, known: frozenset[str], at: Path, losses: Losses) -> None:
    """A row for each key that the dialect does not define, unless it is empty.

    Clients replay replies as they came, with `audio: null`, `annotations: []` and the like: nothing is lost with those.
    """
    if known.issuperset(body):
        return
    for key, value in body.items():
        if key not in known and value is not None and value != [] and value != "" and value != {}:
            losses.add(LossCode.UNKNOWN_FIELD, (*at, key))


def read_data_url(url: str, at: Path) -> Inline:
    """`data:TYPE;base64,DATA`. The data itself is not decoded: that costs, and the upstream checks it anyway.

    Raises `ClientRequestError` if it is malformed, never passing it on half understood (mapping §4.1).
    """
    head, comma, data = url.partition(",")
    known = _HEADS.get(head)
    if known is not None and data:
        return Inline(known, data)
    head = head[5:]
    media_type, *parameters = head.split(";")
    if not comma or not data or "/" not in media_type or not parameters or parameters[-1].strip().lower() != "base64":
        raise ClientRequestError(at, "expected a data URL of the form data:<media type>;base64,<data>")
    return Inline(media_type.strip().lower(), data)
