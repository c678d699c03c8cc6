"""Comparison of ways to read a delta frame. Templates are used: no parsing of the JSON, no object per event.

    python bench/experiments/reading_deltas.py          (msgspec is measured if it is installed)

Multiples of one `orjson.loads` of the same 218-byte Chat chunk, from the frame's bytes to the word and its literal,
each checked for an equal word; minimum of 60 interleaved rounds. CPython 3.11, orjson 3.13, msgspec 0.22:

| loads | dict | msgspec | regex | template | template, 16 in one read | compiling the regex | learning the template |
| --- | --- | --- | --- | --- | --- | --- | --- |
| 1.00 | 1.21 | 0.69 | 0.78 | 1.00 | 0.62 | 204 | 9.7 |

- *dict*: orjson and access to its result. Any other frame costs 3.6 in the Chat reader, including its SSE parsing, and
  1.4 to be written to Messages, where a run of texts costs 0.6.
- *msgspec*: typed decoding into structs of the fields that matter. A little cheaper than a dict, but unknown keys are
  dropped, and readers need those (errors, usage in the wrong chunk, extension fields).
- *regex*: the known bytes and the string as one pattern. Compiling it costs as much as 200 frames, for each
  stream, because it contains the id.
- *template*: `startswith`, `endswith`, and parsing of the string alone (`dragoman.wire.delta_template`). Sixteen frames
  in one read are split, and their strings parsed as one array.
"""

from __future__ import annotations

import re
import timeit
from collections.abc import Callable
from typing import Any

import orjson

from dragoman.canonical.events import Delta
from dragoman.wire.delta_template import VaryingKeys, learn

HEAD = (
    b'{"id":"chatcmpl-x","object":"chat.completion.chunk","created":1,"model":"m","service_tier":"default",'
    b'"system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":'
)
TAIL = b'},"logprobs":null,"finish_reason":null}],"usage":null}'
PAYLOAD = HEAD + b'" word"' + TAIL
FRAME = b"data: " + PAYLOAD + b"\n\n"
ROUNDS, FRAMES = 60, 400


def by_dict() -> tuple[str, bytes]:
    word = orjson.loads(FRAME[6:-2])["choices"][0]["delta"]["content"]
    return word, orjson.dumps(word)


def by_regex() -> Callable[[], tuple[str, bytes]]:
    match = re.compile(
        rb'data: %b("(?:[^"\\]++|\\.)*+")%b\n\n' % (re.escape(HEAD), re.escape(TAIL)), re.DOTALL
    ).fullmatch

    def read() -> tuple[str, bytes]:
        found = match(FRAME)
        assert found is not None
        return orjson.loads(found[1]), found[1]

    return read


def by_template(data: bytes) -> Callable[[], tuple[str, bytes]]:
    template = learn(b"", PAYLOAD, Delta(0, " word"), VaryingKeys())
    assert template is not None

    def read() -> tuple[str, bytes]:
        run = template.run(data)
        assert run is not None
        assert template.end == len(data)
        return run.pieces[0], run.encoded[0]

    return read


def by_msgspec() -> Callable[[], tuple[str, bytes]] | None:
    try:
        import msgspec  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    piece = msgspec.defstruct("Piece", [("content", str | None, None)])
    choice = msgspec.defstruct("Choice", [("index", int), ("delta", piece), ("finish_reason", str | None, None)])
    chunk = msgspec.defstruct("Chunk", [("id", str), ("model", str), ("choices", list[choice])])  # type: ignore[valid-type]
    decode = msgspec.json.Decoder(chunk).decode

    def read() -> tuple[str, bytes]:
        word: Any = decode(FRAME[6:-2]).choices[0].delta.content
        return word, orjson.dumps(word)

    return read


def main() -> None:
    """Print each way's cost per frame."""
    ways: dict[str, tuple[Callable[[], Any], int]] = {
        "loads": (lambda: orjson.loads(PAYLOAD), 1),
        "dict": (by_dict, 1),
        "regex": (by_regex(), 1),
        "template": (by_template(FRAME), 1),
        "template, 16 frames": (by_template(FRAME * 16), 16),
    }
    if (typed := by_msgspec()) is not None:
        ways["msgspec"] = typed, 1
    best = dict.fromkeys(ways, float("inf"))
    for name, (way, _) in ways.items():
        assert name == "loads" or way() == (" word", b'" word"'), name
    for _ in range(ROUNDS):
        for name, (way, frames) in ways.items():
            best[name] = min(best[name], timeit.timeit(way, number=FRAMES // frames) / FRAMES)
    for name, seconds in best.items():
        print(f"{name:18} {seconds / best['loads']:5.2f} ×   {seconds * 1e9:6.0f} ns")
    once = min(timeit.repeat(by_regex, setup=re.purge, number=1, repeat=20))
    print(f"{'regex, compiling':18} {once / best['loads']:5.0f} ×")
    delta = Delta(0, " word")
    learning = min(timeit.repeat(lambda: learn(b"", PAYLOAD, delta, VaryingKeys()), number=20, repeat=20)) / 20
    print(f"{'template, learning':18} {learning / best['loads']:5.1f} ×")


if __name__ == "__main__":
    main()
