"""Prints what this build of the engine makes of mutated requests, streams, replies and errors: one line each.

    python tests/compiled/outputs.py --seed 1 --cases 500

Needs nothing but `dragoman`. The inputs depend on the seed alone, so two builds are compared by their lines. An
exception that is not a `DragomanError` is a defect of the engine; its line begins with `defect`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dragoman import DragomanError, Translation, builtin_profile, direction, translate

TESTS = Path(__file__).parents[1]
DIALECTS = ("chat", "messages", "responses")
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    7,
    2**70,
    1.5,
    -0.0,
    1e300,
    "",
    "x",
    "7",
    "null",
    "text",
    "\ud83d",
    [],
    [None],
    ["x"],
    [{}],
    [[]],
    {},
    {"type": "text"},
    {"type": 1, "text": None},
    {"": ""},
)
ASKED: dict[str, Any] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "messages": {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]},
    "responses": {"model": "m", "input": "Hi"},
}
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: dict[str, Any] = {
    "chat": [{"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}],
    "messages": [{"name": "get_weather", "input_schema": TOOL}],
    "responses": [{"type": "function", "name": "get_weather", "parameters": TOOL}],
}
ERRORS: dict[str, tuple[Any, ...]] = {
    "chat": (
        {"error": {"message": "no", "type": "invalid_request_error", "param": "messages", "code": "context_length"}},
        {"error": {"message": "maximum context length is 8 tokens, you requested 9", "code": 400, "metadata": {}}},
        {"message": "no", "detail": [{"loc": ["body"], "msg": "bad"}]},
    ),
    "messages": ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}, "request_id": "r"},),
    "responses": ({"error": {"message": "no", "type": "server_error", "param": None, "code": "rate_limit_exceeded"}},),
}
HEADERS = {"retry-after": "2", "x-ratelimit-remaining-requests": "9", "anthropic-ratelimit-tokens-reset": "soon"}


@dataclass(frozen=True)
class Stream:
    """A recorded stream: its frames, each as the bytes before its JSON, the JSON, and the bytes after it."""

    name: str
    frames: tuple[tuple[bytes, Any, bytes], ...]


@cache
def streams(upstream: str) -> list[Stream]:
    """Returns the recorded streams of a dialect."""
    found = []
    for path in sorted((TESTS / "golden" / "transcripts" / upstream).glob("*.sse")):
        frames = []
        for frame in path.read_bytes().split(b"\n\n"):
            head, mark, data = frame.partition(b"data: ")
            try:
                frames.append((head + mark, json.loads(data), b"\n\n"))
            except ValueError:
                frames.append((frame, None, b"\n\n"))
        found.append(Stream(path.stem, tuple(frames)))
    assert found, f"there are no recorded streams of {upstream}"
    return found


@cache
def replies(upstream: str) -> list[bytes]:
    """Returns whole replies of a dialect: those at the ends of the Responses streams, and their translations."""
    whole = []
    for stream in streams("responses"):
        for _, event, _ in stream.frames:
            if type(event) is dict and event.get("type") in ("response.completed", "response.incomplete"):
                whole.append(json.dumps(event["response"]).encode())
    if upstream == "responses":
        return whole
    found = []
    for body in whole:
        with suppress(DragomanError):
            found.append(started(upstream, "responses", stream=False).reply(body))
    return found


@cache
def requests() -> list[tuple[str, Any]]:
    """Returns recorded requests of real clients, with their dialects."""
    paths = {"/v1/messages": "messages", "/v1/chat/completions": "chat", "/v1/responses": "responses"}
    found = []
    for path in sorted((TESTS / "fixtures").glob("*.json")):
        request = json.loads(path.read_text())["request"]
        if request["path"] in paths and type(request["body"]) is dict:
            found.append((paths[request["path"]], request["body"]))
    return found


def started(client: str, upstream: str, *, stream: bool, profile: str | None = None) -> Translation:
    """Returns the translation of a small request with a tool."""
    body = ASKED[client] | {"stream": stream, "tools": TOOLS[client]}
    return translated(client, upstream, body, profile)


def translated(client: str, upstream: str, body: Any, profile: str | None) -> Translation:
    """Returns the translation of a request."""
    found = builtin_profile(upstream, profile)
    data = json.dumps(body).encode()
    return translate(direction(client, upstream), data, profile=found, created=1_790_000_000, request_id="req_1")


def mutated(value: Any, chance: random.Random) -> Any:
    """Returns a copy of a JSON value in which one value is another, is missing, or is there twice."""
    copy = json.loads(json.dumps(value))
    places = list(_places(copy))
    if not places:
        return chance.choice(VALUES)
    parent, key = chance.choice(places)
    kind = chance.randrange(8)
    if kind == 0:
        del parent[key]
    elif kind == 1 and type(parent) is list:
        parent.insert(key, parent[key])
    elif kind == 2:
        parent[key] = [parent[key]]
    elif kind == 3 and type(parent) is dict:
        other = chance.choice(list(parent))
        parent[key], parent[other] = parent[other], parent[key]
    else:
        parent[key] = chance.choice(VALUES)
    return copy


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [value]
    while waiting:
        parent = waiting.pop()
        keys = parent.keys() if type(parent) is dict else range(len(parent)) if type(parent) is list else ()
        for key in keys:
            yield parent, key
            waiting.append(parent[key])


def play_stream(client: str, upstream: str, chance: random.Random, profile: str | None) -> Iterator[Any]:
    """Yields what a client gets of a recorded stream with one mutated frame, and what is recorded of it."""
    stream = chance.choice(streams(upstream))
    yield stream.name
    at, compact = chance.randrange(len(stream.frames)), chance.random() < 0.7
    pieces: list[bytes] = []
    for number, (head, value, tail) in enumerate(stream.frames):
        if value is None and not head.endswith(b"data: "):
            pieces.append(head + tail)
            continue
        if number == at and chance.random() < 0.8:
            value = mutated(value, chance)
        separators = (",", ":") if compact else None
        data = json.dumps(value, separators=separators).encode()
        # Repeated, as a template is learnt from several deltas; cut, as frames shorter than a template are special.
        pieces.extend([head + data + tail] * (1 if chance.random() < 0.7 else chance.randrange(2, 9)))
        if chance.random() < 0.02:
            pieces.append(head + data[: chance.randrange(len(data))] + tail)
    if chance.random() < 0.3:
        whole = b"".join(pieces)
        cut = chance.randrange(len(whole))
        pieces = [whole[:cut], whole[cut:]]
    elif chance.random() < 0.3:
        pieces = [b"".join(pieces)]
    translation = started(client, upstream, stream=True, profile=profile)
    machine = translation.stream_machine()
    for piece in pieces:
        yield machine.feed(piece)
        if machine.done:
            break
    else:
        yield machine.finish()
    yield from (translation.usage, translation.failure, translation.violation, translation.losses.rows)


def play_reply(client: str, upstream: str, chance: random.Random, profile: str | None) -> Iterator[Any]:
    """Yields what a client gets of a whole reply with a mutated value."""
    body = mutated(json.loads(chance.choice(replies(upstream))), chance)
    translation = started(client, upstream, stream=False, profile=profile)
    data = json.dumps(body).encode()
    yield translation.replay(data) if chance.random() < 0.3 else translation.reply(data)
    yield from (translation.usage, translation.losses.rows)


def play_request(client: str, upstream: str, chance: random.Random, profile: str | None) -> Iterator[Any]:
    """Yields what becomes of a recorded request with a mutated value."""
    body = chance.choice([body for dialect, body in requests() if dialect == client])
    translation = translated(client, upstream, mutated(body, chance), profile)
    yield from (translation.body, translation.losses.rows, sorted(translation.renamed_tools.items()))


def play_error(client: str, upstream: str, chance: random.Random, profile: str | None) -> Iterator[Any]:
    """Yields the response to a client for a mutated error of the upstream."""
    body = mutated(chance.choice(ERRORS[upstream]), chance)
    translation = started(client, upstream, stream=False, profile=profile)
    status = chance.choice((400, 401, 404, 413, 429, 500, 529, 418))
    response = translation.error(status, json.dumps(body).encode(), HEADERS, now=1_790_000_000.0)
    yield from (response.status, response.body, sorted(response.headers.items()))


PLAYS: tuple[Callable[[str, str, random.Random, str | None], Iterator[Any]], ...] = (
    play_stream,
    play_stream,
    play_reply,
    play_request,
    play_error,
)


def line(seed: int, number: int) -> str:
    """Plays one case. Returns its name and the digest of its outputs, or the defect that it found."""
    chance = random.Random(f"{seed}/{number}")
    play = chance.choice(PLAYS)
    client, upstream = chance.choice(DIALECTS), chance.choice(DIALECTS)
    name = f"{number} {play.__name__} {client} {upstream}"
    out: list[str] = []
    try:
        out.extend(map(repr, play(client, upstream, chance, chance.choice((None, "compatible")))))
    except DragomanError as error:
        out.append(f"{type(error).__name__}: {error}")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"defect {name} {type(error).__name__}: {error} ({place.filename}:{place.lineno})".replace("\n", " ")
    return f"{name} {hashlib.sha256(chr(10).join(out).encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def main() -> None:
    """Prints the lines of the cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, default=500)
    args = parser.parse_args()
    for number in range(args.first, args.first + args.cases):
        print(line(args.seed, number), flush=True)


if __name__ == "__main__":
    main()
