"""The frames that start and end a usual text item of a Responses stream, as formats.

The validator compares whole runs of frames with them instead of parsing each. A run that equals its format is valid by
the grammar in `validator.py`, if the item's state allows it; a run that does not may be valid too.
"""

from __future__ import annotations

import re
from typing import Final

from orjson import JSONDecodeError, loads

_ITEM_ADDED: Final = (
    b'event: response.output_item.added\ndata: {"type":"response.output_item.added","sequence_number":%d,'
    b'"output_index":%d,"item":{"type":"message","id":"'
)
_PART_ADDED: Final = (
    b'","role":"assistant","status":"in_progress","content":[]}}\n\n'
    b'event: response.content_part.added\ndata: {"type":"response.content_part.added","sequence_number":%d,'
    b'"item_id":"%b","output_index":%d,"content_index":0,'
    b'"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}\n\n'
)
_TEXT_DONE: Final = (
    b'event: response.output_text.done\ndata: {"type":"response.output_text.done","sequence_number":%d,'
    b'"item_id":"%b","output_index":%d,"content_index":0,"text":'
)
_NO_LOGPROBS: Final = b',"logprobs":[]}'
_ITEM: Final = (
    b'{"type":"message","id":"%b","role":"assistant","status":"completed",'
    b'"content":[{"type":"output_text","text":%b,"annotations":[],"logprobs":[]}]}'
)
_ITEM_DONE: Final = (
    b',"logprobs":[]}\n\n'
    b'event: response.content_part.done\ndata: {"type":"response.content_part.done","sequence_number":%d,'
    b'"item_id":"%b","output_index":%d,"content_index":0,'
    b'"part":{"type":"output_text","text":%b,"annotations":[],"logprobs":[]}}\n\n'
    b'event: response.output_item.done\ndata: {"type":"response.output_item.done","sequence_number":%d,'
    b'"output_index":%d,"item":%b}\n\n'
)
_ID: Final = re.compile(rb"msg_[0-9A-Za-z_.-]+")
STARTED_TEXT: Final = 2
"""The number of frames that start a text item."""
ENDED_TEXT: Final = 3
"""The number of frames that end one."""


def started_text(data: bytes, at: int, sequence: int, index: int) -> tuple[bytes, int] | None:
    """Return the id of a text item that starts at a position of `data`, and the position after its two frames.

    `sequence` and `index` are the sequence number and the output index that it must have. None if it has another form.
    """
    head = _ITEM_ADDED % (sequence, index)
    if not data.startswith(head, at):
        return None
    found = _ID.match(data, at + len(head))
    if found is None:
        return None
    item_id = found[0]
    rest = _PART_ADDED % (sequence + 1, item_id, index)
    return (item_id, found.end() + len(rest)) if data.startswith(rest, found.end()) else None


def ended_text(data: bytes, sequence: int, index: int, item_id: bytes) -> tuple[bytes, int] | None:
    """Return the JSON of the finished item whose three last frames `data` starts with, and the position after them.

    The same text is in all three. None if they have another form.
    """
    head = _TEXT_DONE % (sequence, item_id, index)
    if not data.startswith(head):
        return None
    # One byte is found in a tenth of the time that many take.
    end = data.find(b"\n", len(head)) - len(_NO_LOGPROBS)
    literal = data[len(head) : end]
    try:
        if type(loads(literal)) is not str:
            return None
    except JSONDecodeError:
        return None
    item = _ITEM % (item_id, literal)
    rest = _ITEM_DONE % (sequence + 1, item_id, index, literal, sequence + 2, index, item)
    return (item, end + len(rest)) if data.startswith(rest, end) else None
