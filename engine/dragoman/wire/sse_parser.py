"""The parser of server-sent events: bytes to frames.

The parser takes any split of the bytes, inside UTF-8 and inside CRLF included, and costs O(n) under drip feed: line
ends are first made one kind, only new bytes are searched, and only complete lines are taken apart. Lines split on CR
and LF alone, never on U+2028 (the WHATWG grammar; `str.splitlines` would tear such a text apart).

A broken limit is not an exception but a last frame with a `fault`, so that the frames before it are not lost with it:
whatever the split, the same frames come out. A line that may be the rest of a damaged field is a fault too: the grammar
would ignore it, and a `data` line with one damaged byte would be lost without a trace.

A body that begins with JSON is no event stream, whatever its content type: it comes out as one `DocumentFrame` at its
end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from dragoman.errors import DragomanError, LimitExceeded, UpstreamProtocolError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.wire.body_opening import BOM, Opening, begins_document
from dragoman.wire.json_codec import loads
from dragoman.wire.sse import CR, LF, DocumentFrame, Frame, FrameBatch, OddFrame, encode
from dragoman.wire.sse_field_names import BEGINNINGS, is_damaged

_BARE = (b"{", b"[")
"""The first byte of an object or array."""
_USUAL_BEGINNINGS = (b"data:", b"event:")

Fed = TypeVar("Fed")


@lru_cache(maxsize=256)
def _short_name(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _name(raw: bytes) -> str:
    # A name may be as long as a line; 256 such ones must not stay in memory for good.
    return _short_name(raw) if len(raw) <= 64 else raw.decode("utf-8", "replace")


class Parser:
    """Parses bytes into frames. `finish` returns a last frame without its blank line, which some servers omit.

    With `whole`, frames that arrive complete are not parsed here: `feed` returns their bytes, blank lines included,
    instead of a list or as one item of it: a reader matches them with a delta template, or reads them with
    `frame_scanner`. With `bare`, objects and arrays without a field name are frames, too.
    """

    __slots__ = (
        "_bare",
        "_begin",
        "_begun",
        "_document",
        "_event",
        "_frame_size",
        "_held",
        "_id",
        "_lines",
        "_longest",
        "_numbered",
        "_opening",
        "_partial",
        "_retry",
        "_skip_lf",
        "_whole",
        "done",
        "limits",
    )

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, whole: bool = False, bare: bool = False) -> None:
        self.limits = limits
        self._whole = whole
        self._held = True
        """True if part of a frame is held, or something that applies to the next frame."""
        self.done = False
        self._partial: bytearray = bytearray()
        self._opening: bytes | None = b""
        self._begun = False
        """True once the first line that is no comment has begun."""
        self._begin: Opening | None = None
        """Finds that line, if it does not begin the body."""
        self._document: bytearray | None = None
        """The body so far, if it is a JSON document."""
        self._skip_lf = False
        self._event = b""
        self._lines: list[bytes] = []
        self._bare: list[bytes] | None = [] if bare else None
        """The lines of JSON without a field name since the last blank line. None if they are ignored."""
        self._frame_size = 0
        self._id: str | None = None
        self._retry: int | None = None
        self._numbered = False
        self._longest = min(limits.sse_line, limits.sse_frame)

    def feed(self, data: bytes, /) -> FrameBatch:
        """Return the frames that `data` completes. Never raises: a broken limit is the last frame's `fault`."""
        if not self._whole:
            return self.parse(data)
        if (
            not self._held
            and (data.endswith(b"\n\n") or data.endswith(b"\r\n\r\n"))  # both in one call take longer
            and len(data) <= self._longest
        ):
            return data
        return self._continue(data, self.feed, self._around_whole)

    def parse(self, data: bytes, /) -> list[Frame]:
        """Return the frames that `data` completes, each as a `Frame`, also from a parser made with `whole`."""
        if not self._held and data.endswith(b"\n\n") and CR not in data:
            return self._whole_frames(data)
        return self._continue(data, self.parse, self._feed)

    def _continue(self, data: bytes, begin: Callable[[bytes], Fed], read: Callable[[bytes], Fed]) -> Fed | list[Frame]:
        """Return the frames of the next bytes: `begin` reads what is behind an opening, `read` a later part."""
        if self.done:
            return []
        if not self._begun:
            return self._open(data, begin)
        if self._document is not None:
            return self._feed_document(data)
        out = read(data)
        self._held = self._held_back()
        return out

    def skip_opening(self) -> None:
        """Take what follows for a later part of an event stream: it has no byte order mark and is no document."""
        self._opening = self._begin = None
        self._begun = True
        self._held = self._skip_lf = False

    def _open(self, data: bytes, feed: Callable[[bytes], Fed]) -> Fed | list[Frame]:
        """Take the first bytes, up to the first line that is no comment. The rest is given to `feed`."""
        if not self._partial and not self._opening and data.startswith(_USUAL_BEGINNINGS):
            self.skip_opening()
            return feed(data)
        if self._begin is None:
            self._begin = Opening()
        if self._opening is not None:
            data = self._strip_bom(data)
        at = self._begin.find(data)
        if at < 0:
            return self._feed(data)
        self._begin, self._begun = None, True
        if begins_document(data, at):
            out = self._feed(data[:at])
            self._document = bytearray()
            return out + self._feed_document(data[at:])
        self._held = self._held_back()
        return feed(data)

    def _feed_document(self, data: bytes) -> list[Frame]:
        assert self._document is not None
        self._document += data
        limit = self.limits.reply_body
        return self._too_long("reply_body", limit) if len(self._document) > limit else []

    def _around_whole(self, data: bytes) -> Sequence[Frame | bytes]:
        """A read that begins or ends inside a frame: what lies between is whole."""
        begin = data.find(b"\n\n") + 2 if self._held_back() else 0
        end = data.rfind(b"\n\n") + 2
        if begin == 1 or end <= max(begin, 1) or len(data) > self._longest:
            return self._feed(data)
        out = self._feed(data[:begin])
        if self._held_back():
            return out + self._feed(data[begin:])
        return [*out, data[begin:end], *self._feed(data[end:])]

    @property
    def reusable(self) -> bool:
        """True if nothing that was parsed has an effect on what is parsed next."""
        return not self._held_back()

    def _held_back(self) -> bool:
        return bool(
            self.done
            or self._partial
            or self._lines
            or self._bare
            or self._event
            or self._skip_lf
            or self._numbered
            or not self._begun
            or self._document is not None
        )

    def _feed(self, data: bytes) -> list[Frame]:
        if self.done:
            return []
        if data.endswith(b"\n\n") and CR not in data and not self._held_back():
            return self._whole_frames(data)
        if self._skip_lf and data:
            if data[0] == 10:
                data = data[1:]
            self._skip_lf = False
        if CR in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        cut = data.rfind(b"\n")
        if cut < 0:
            self._partial += data
            return self._too_long("sse_line", self.limits.sse_line) if len(self._partial) > self.limits.sse_line else []
        if self._partial:
            self._partial += data[:cut]
            block = bytes(self._partial)
            self._partial = bytearray(data[cut + 1 :])
        else:
            block = data[:cut]
            if cut + 1 < len(data):
                self._partial += data[cut + 1 :]
        frames: list[Frame] = []
        if self._take(block, frames) and len(self._partial) > self.limits.sse_line:
            frames += self._too_long("sse_line", self.limits.sse_line)
        return frames

    def _whole_frames(self, data: bytes) -> list[Frame]:
        """Parse frames of one data line, perhaps with an event name: nearly all reads are only these."""
        frames: list[Frame] = []
        longest = self._longest
        for part in data[:-2].split(b"\n\n"):
            event = ""
            line = part
            if part.startswith(b"event: "):
                name, _, line = part.partition(b"\n")
                event = _name(name[7:])
            plain = line.startswith(b"data: ") and LF not in line and len(part) <= longest
            if plain and not self._numbered:
                frames.append(Frame(event, line[6:]))
            elif self._take(part, frames):
                self._dispatch(frames)
                if self.done:
                    break
            else:
                break
        return frames

    def _take(self, block: bytes, frames: list[Frame]) -> bool:
        """Take complete lines; False when a limit broke."""
        for line in block.split(b"\n"):
            if not line:
                if self._lines or self._event or self._bare:
                    self._dispatch(frames)
                    if self.done:
                        return False
            elif not self._line(line, frames):
                return False
        return True

    def finish(self) -> list[Frame]:
        """The source ended: what was complete but for its last line end or blank line, or the document."""
        if self._document is not None and not self.done:
            self.done = True
            return [DocumentFrame("", bytes(self._document))]
        frames: list[Frame] = []
        if self._opening:
            self._partial += self._opening
        line = bytes(self._partial)
        if line and not self.done and line not in BEGINNINGS:
            self._line(line, frames)
        if not self.done:
            comments = len(frames)
            self._dispatch(frames)
            frames[comments:] = [
                OddFrame(f.event, f.data, f.id, f.retry, f.fault, whole=False, bare=f.bare) for f in frames[comments:]
            ]
        self.done = self._held = True
        return frames

    def _strip_bom(self, data: bytes) -> bytes:
        """Return the source's first bytes without a byte order mark; nothing while they may still begin one."""
        assert self._opening is not None
        head = self._opening + data
        if len(head) < 3 and BOM.startswith(head):
            self._opening = head
            return b""
        self._opening = None
        return head[3:] if head.startswith(BOM) else head

    def _line(self, line: bytes, frames: list[Frame]) -> bool:
        """Take one non-empty line; False when a limit broke."""
        size = len(line)
        if size > self.limits.sse_line:
            frames += self._too_long("sse_line", self.limits.sse_line)
            return False
        if line.startswith(b"data:"):
            self._frame_size += size
            if self._frame_size > self.limits.sse_frame:
                frames += self._too_long("sse_frame", self.limits.sse_frame)
                return False
            self._lines.append(line[6:] if line[5:6] == b" " else line[5:])
            return True
        if line[0] == 58 and (line.isascii() or not is_damaged(line)):  # a colon: a comment
            frames.append(Frame("", None))
            return True
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"event":
            self._event = value
        elif name == b"data":  # the line has no colon: an empty data line
            self._frame_size += size
            if self._frame_size > self.limits.sse_frame:
                frames += self._too_long("sse_frame", self.limits.sse_frame)
                return False
            self._lines.append(b"")
        elif name == b"id":
            if 0 not in value:
                self._id = value.decode("utf-8", "replace")
                self._numbered = True
        elif name == b"retry" and value.isdigit() and len(value) < 16:
            self._retry = int(value)
            self._numbered = True
        elif self._bare is not None and (self._bare or line.startswith(_BARE)):
            self._frame_size += size
            if self._frame_size > self.limits.sse_frame:
                frames += self._too_long("sse_frame", self.limits.sse_frame)
                return False
            self._bare.append(line)
        elif is_damaged(line):
            frames += self._fault(_damaged())
            return False
        return True

    def _dispatch(self, frames: list[Frame]) -> None:
        lines = self._lines
        if lines:
            data = lines[0] if len(lines) == 1 else b"\n".join(lines)
            event = _name(self._event) if self._event else ""
            if self._numbered:
                frames.append(OddFrame(event, data, self._id, self._retry))
            else:
                frames.append(Frame(event, data))
            self._retry = None
            self._lines = []
            self._frame_size = 0
        self._event = b""
        if self._bare:
            self._dispatch_bare(frames)

    def _dispatch_bare(self, frames: list[Frame]) -> None:
        lines, self._bare = self._bare or [], []
        self._frame_size = 0
        data = b"\n".join(lines)
        try:
            loads(data)
        except ValueError:
            if any(map(is_damaged, lines)):
                frames += self._fault(_damaged())
        else:
            frames.append(OddFrame("", data, bare=True))

    def _too_long(self, name: str, limit: int) -> list[Frame]:
        return self._fault(LimitExceeded(name, limit, upstream=True))

    def _fault(self, fault: DragomanError) -> list[Frame]:
        self.done = self._held = True
        self._partial = bytearray()
        self._document = None
        self._lines = []
        self._bare = None
        return [OddFrame("", None, fault=fault)]


def _damaged() -> UpstreamProtocolError:
    return UpstreamProtocolError("upstream sent an event stream with a damaged field name")


_UNLIMITED = Limits(sse_line=sys.maxsize, sse_frame=sys.maxsize)


def decode_frames(frames: FrameBatch) -> Iterator[Frame]:
    """The frames of a batch, each as a `Frame`: those that are encoded are taken apart.

    Their size has no limit, as they were read or written within one before.
    """
    for frame in (frames,) if isinstance(frames, bytes) else frames:
        if isinstance(frame, bytes):
            parser = Parser(_UNLIMITED)
            parser.skip_opening()
            yield from parser.parse(frame.removeprefix(BOM))
            yield from parser.finish()
        else:
            yield frame


def encoded_frames(frames: FrameBatch) -> list[bytes]:
    """Return the frames of a batch, each in bytes of its own. Comments are dropped, and so are ids and retry times.

    Frames that are encoded in the plain form, as nearly all are, are not parsed.
    """
    if isinstance(frames, bytes) and is_plain(frames):
        return [frames]
    found: list[bytes] = []
    for frame in (frames,) if isinstance(frames, bytes) else frames:
        if not isinstance(frame, bytes):
            if frame.data is not None:
                found.append(encode(Frame(frame.event, frame.data)))
        elif is_plain(frame):
            found.append(frame)
        else:
            parts = [part + b"\n\n" for part in frame[:-2].split(b"\n\n")] if frame.endswith(b"\n\n") else [frame]
            if not all(map(is_plain, parts)):
                parts = [encode(Frame(each.event, each.data)) for each in decode_frames(frame) if each.data is not None]
            found += parts
    return found


def is_plain(frame: bytes) -> bool:
    """True for one encoded frame of one line of data, after an event name or alone."""
    # `partition` and slices take a third of the instructions of `find` and `startswith`, whose arguments are parsed.
    line, _, rest = frame.partition(b"\n")
    if rest != b"\n" and line[:7] == b"event: ":
        line, _, rest = rest.partition(b"\n")
    return rest == b"\n" and line[:6] == b"data: " and CR not in frame
