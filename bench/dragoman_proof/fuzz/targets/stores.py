"""Readers of stores and files of the gateway: records of keys, stored responses, the journal, event logs.

The first byte of an input chooses the reader.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from dragoman import Dialect
from dragoman.threads.node import Node
from dragoman.threads.store.interface import Unreadable
from dragoman.threads.store.node_data import NodeCipher, PlainData
from dragoman.wire.sse_parser import decode_frames, encoded_frames
from dragoman_proof.fuzz import seeds
from dragoman_proof.fuzz.mutate import Trees, changed_json
from dragoman_proof.fuzz.target import Target, require
from dragoman_server.accounts.keys.record import KeyRecord, records_of
from dragoman_server.accounts.keys.secret import KeyHash, new_key
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.usage.journal import SLOT, _read
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.report import read_rows, sums
from dragoman_server.observability.captures.store import read_capture


def _keys(data: bytes) -> None:
    for record in records_of([data]):
        again = records_of([json.dumps(record.as_data()).encode()])
        require(again == (record,), "a record that was read is written and read alike")
        list(record.problems("keys.a"))


def _node(data: bytes) -> None:
    for codec in (PlainData(), NodeCipher("A" * 43 + "=")):
        try:
            found = codec.decode("owner", "resp_1", data)
        except Unreadable:
            continue
        node = Node("owner", "resp_1", None, 1, found[0], found[1], found[2])
        require(codec.decode("owner", "resp_1", codec.encode(node)) == found, "a node is read as it was written")


def _journal(data: bytes) -> None:
    for place in range(0, len(data), SLOT):
        _read(data[place : place + SLOT])


def _usage(data: bytes) -> None:
    path = _file(data)
    try:
        sums(read_rows(UsageOptions("jsonl", str(path))), ("model", "key"))
    except ValueError as error:
        require(bool(str(error)), "an error has a text")


def _capture(data: bytes) -> None:
    try:
        read_capture(_file(data))
    except ValueError as error:
        require(bool(str(error)), "an error has a text")


def _events(data: bytes) -> None:
    frames = encoded_frames(data)
    again = [(frame.event, frame.data) for each in frames for frame in decode_frames(each) if frame.data is not None]
    once = [(frame.event, frame.data) for frame in decode_frames(data) if frame.data is not None]
    require(again == once or not data.endswith(b"\n\n"), "an event log keeps the events of a stream")


_READERS: tuple[Callable[[bytes], None], ...] = (_keys, _node, _journal, _usage, _capture, _events)
_FOLDER = tempfile.TemporaryDirectory()


def _file(data: bytes) -> Path:
    path = Path(_FOLDER.name, "file")
    path.write_bytes(data)
    return path


def target(_: str) -> Target:
    """Return the target."""
    record = KeyRecord(
        "alice", KeyHash.of(new_key()), ("m*",), KeyLimits(requests_per_minute=5), 9e9, tag="t"
    ).as_data()
    row = {
        "time": "2026-01-01T00:00:00Z",
        "key": "a",
        "model": "m",
        "cost": 0.5,
        "input_tokens": 5,
        "ended": "completed",
    }
    summary = {"object": "dragoman.capture", "id": "a"}
    values: list[Any] = [record, row, summary]
    inputs = [
        b"\0" + json.dumps(record).encode(),
        b"\1\0" + PlainData().encode(Node("o", "resp_1", None, 1, b"[]", b'{"output":[]}', b'{"losses":{}}'))[1:],
        b"\2" + json.dumps(row).encode() + b"\n",
        b"\3" + json.dumps(row).encode() + b"\n" + json.dumps(row).encode() + b"\n",
        b"\4" + json.dumps(summary).encode() + b"\n" + json.dumps({"requests": []}).encode(),
        *(b"\5" + data for dialect in Dialect for data in seeds.streams(dialect)[:9]),
    ]
    words = seeds.words_of(values)
    trees = Trees(words)

    def mutate(data: bytes, other: bytes, random: Random) -> bytes | None:
        lines, others = data[1:].split(b"\n"), other[1:].split(b"\n")
        at = random.randrange(len(lines))
        changed = changed_json(trees, lines[at], random.choice(others) or b"{}", random)
        if changed is None:
            return None
        lines[at] = changed
        return data[:1] + b"\n".join(lines)

    return Target(_check, inputs, [word.encode() for word in words], mutate, longest=6000)


def _check(data: bytes) -> None:
    if data:
        _READERS[data[0] % len(_READERS)](data[1:])
