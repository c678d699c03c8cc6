"""First inputs and dictionaries, from what the tests of the repository hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from dragoman_proof.fuzz.target import CHECKOUT

LONGEST = 8192
"""Most bytes of a first input: longer ones reach nothing more, and slow every step down."""
_TESTS = CHECKOUT / "tests"
_PATHS = {"/v1/chat/completions": "chat", "/v1/messages": "messages", "/v1/responses": "responses"}
_WORD = re.compile(r"[A-Za-z_.]{2,40}\Z")


def streams(dialect: str) -> list[bytes]:
    """Return the recorded streams of an upstream, good and bad ones."""
    paths = sorted((_TESTS / "golden" / "transcripts" / dialect).glob("*.sse"))
    return [data for path in paths if len(data := path.read_bytes()) <= LONGEST]


def requests(dialect: str) -> list[Any]:
    """Return requests in a dialect: those of the golden files, and small ones that real clients sent."""
    found = list(_golden(dialect))
    for path in sorted((_TESTS / "fixtures").glob("*.json")):
        recorded = json.loads(path.read_text("utf-8"))["request"]
        if _PATHS.get(recorded["path"]) == dialect and "body" in recorded:
            found.append(recorded["body"])
    return [body for body in found if len(json.dumps(body)) <= LONGEST]


def _golden(dialect: str) -> Iterator[Any]:
    for path in sorted((_TESTS / "golden" / "requests").rglob(f"{dialect}_*.json")):
        file = json.loads(path.read_text("utf-8"))
        base = file.get("request", {})
        yield from (base | case.get("request", {}) for case in (*file.get("cases", {}).values(), {}))


def words_of(values: Iterable[Any]) -> list[str]:
    """Return the keys and the short texts of JSON values that look like names, sorted."""
    found: set[str] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            found.update(key for key in value if _WORD.match(key))
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and _WORD.match(value):
            found.add(value)
    return sorted(found)


def values_of(stream: bytes) -> Iterator[Any]:
    """Yield the JSON values in the events of a stream."""
    for line in re.split(rb"[\r\n]+", stream):
        if line.startswith(b"data:"):
            try:
                yield json.loads(line[5:])
            except ValueError:
                continue
