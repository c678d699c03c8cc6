"""Server-sent events over complete bytes, the naive way: WHATWG §9.2.6, line by line."""

from __future__ import annotations

import re
from typing import NamedTuple

from dragoman.stages.grammar.checker import read_frame
from dragoman.stages.grammar.values import require

_LINE_END = re.compile(rb"\r\n|\n|\r")


class Item(NamedTuple):
    """One dispatched event, a comment, or a `fault`; the last two have no `data`."""

    event: str
    data: bytes | None
    id: str | None = None
    retry: int | None = None
    fault: str | None = None


def lines_of(data: bytes) -> tuple[list[bytes], bytes]:
    """The complete lines, and the rest behind the last line end. LF, CR LF and CR end a line; nothing else does."""
    *lines, rest = _LINE_END.split(data)
    return lines, rest


def split(data: bytes, *, flush: bool = True) -> list[Item]:
    """All items. With `flush` an end of file counts as a line end and a blank line, if a line is begun.

    An id lasts until the next one, a retry belongs to the next dispatched event. Stricter than the grammar, a line that
    may be the rest of a damaged field ends the stream with a fault, "name".
    """
    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    lines, rest = lines_of(data)
    if flush:
        lines += [b"" if any(rest != name and name.startswith(rest) for name in (b"data", b"event")) else rest, b""]
    items: list[Item] = []
    event, payload, last_id, retry = b"", list[bytes](), None, None
    for line in lines:
        if line == b"":
            if payload:
                items.append(Item(event.decode("utf-8", "replace"), b"\n".join(payload), last_id, retry))
                retry = None
            event, payload = b"", []
            continue
        if line[:1] == b":" and line.decode("utf-8", "ignore").encode() == line:
            items.append(Item("", None))
            continue
        name, colon, value = line.partition(b":")
        if colon and value[:1] == b" ":
            value = value[1:]
        if name == b"event":
            event = value
        elif name == b"data":
            payload.append(value)
        elif name == b"id" and b"\x00" not in value:
            last_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value and all(0x30 <= digit <= 0x39 for digit in value):
            retry = int(value)
        elif name not in (b"id", b"retry") and _damaged(name, bool(colon), value):
            return [*items, Item("", None, fault="name")]
    return items


def _damaged(name: bytes, colon: bool, value: bytes) -> bool:
    """Return whether an ignored line is no text, a piece of a field name, or JSON below a name that may be damaged."""
    line = name + b":" * colon + value
    if line.decode("utf-8", "ignore").encode() != line:
        return True
    if name[:1] == b"{":
        return False
    if any(not 0x20 <= byte < 0x7F for byte in name) or b"{" in name:
        return True
    if any((byte < 0x20 and byte != 0x09) or byte == 0x7F for byte in value):
        return True
    if not colon:
        return any(field.startswith(name) for field in (b"data", b"event"))
    if value.strip()[:1] not in (b"{", b"["):
        return False
    words = name.replace(b"_", b"").replace(b"-", b"").replace(b".", b"")
    if not (words.isalnum() and name[:1].isalpha()):
        return True
    if len(name) == 4:
        return sum(one != other for one, other in zip(name, b"data", strict=True)) == 1
    inserted = any(name[:at] + name[at + 1 :] == b"data" for at in range(len(name)))
    return inserted or name in (b"ata", b"dta", b"daa", b"dat", b"ta", b"a")


def written(data: bytes) -> list[Item]:
    """The items of a stream of Dragoman's, whose framing must be tidy beyond what the standard asks (`read_frame`)."""
    require(not data or data.endswith(b"\n\n"), f"the last frame lacks its blank line: {data[-80:]!r}")
    for frame in data[:-2].split(b"\n\n") if data else ():
        read_frame(frame)
    return split(data, flush=False)
