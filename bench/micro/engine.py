"""Time the sync engine: nanoseconds per event and direction, and per request; correctness is checked first.

python bench/micro/engine.py [--events 2000] [--rounds 15]
"""

from __future__ import annotations

import argparse
import json
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from dragoman import ReplyContext, Translation, direction, translate
from dragoman.stages import Chain

FIXTURE = Path(__file__).parents[2] / "tests" / "fixtures" / "claude-code_tool_2.json"
MESSAGES_IN_A_LONG_REQUEST = 218


@dataclass(frozen=True)
class Stream:
    """An upstream's text stream: what opens it, one frame per word, and what a word's frame looks like when parsed."""

    head: bytes
    frames: Sequence[bytes]
    payload: bytes


def chat_stream(events: int) -> Stream:
    """As OpenAI sends it, obfuscation included."""

    def chunk(delta: str) -> bytes:
        return (
            b'{"id":"chatcmpl-x","object":"chat.completion.chunk","created":1,"model":"m","service_tier":"default",'
            b'"system_fingerprint":"fp_1","choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":null}],'
            b'"usage":null,"obfuscation":"abcdef"}' % delta.encode()
        )

    payloads = [chunk(f'{{"content":" word{n}"}}') for n in range(events)]
    head = b"data: " + chunk('{"role":"assistant","content":""}') + b"\n\n"
    return Stream(head, [b"data: " + payload + b"\n\n" for payload in payloads], payloads[0])


def messages_stream(events: int) -> Stream:
    """As Anthropic sends it."""
    head = (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_u","type":"message","role":'
        b'"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":8,'
        b'"output_tokens":1}}}\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"text","text":""}}\n\n'
    )
    payloads = [
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word%d"}}' % n
        for n in range(events)
    ]
    return Stream(head, [b"event: content_block_delta\ndata: " + p + b"\n\n" for p in payloads], payloads[0])


def machine(client: str, upstream: str) -> Chain:
    """A fresh machine of a direction."""
    return Translation(direction(client, upstream), b"", True, ReplyContext("m"), "m").stream_machine()


def check(client: str, upstream: str, stream: Stream) -> None:
    """Every word comes out, in order, or the timing below would be of something else."""
    chain = machine(client, upstream)
    out = (chain.feed(stream.head) or b"") + b"".join(chain.feed(frame) for frame in stream.frames)
    words = [f" word{n}" for n in range(len(stream.frames))]
    key = "content" if client == "chat" else "text"
    payloads = [orjson.loads(line[6:]) for line in out.split(b"\n") if line.startswith(b"data: ")]
    deltas = [p["choices"][0]["delta"] if client == "chat" else p.get("delta", {}) for p in payloads]
    said = [delta[key] for delta in deltas if delta.get(key)]
    assert said == words, f"{client} from {upstream}: {said[:3]} …"


def best(run: Callable[[], Any], rounds: int) -> float:
    """Seconds of the fastest round."""
    return min(timeit.repeat(run, number=1, repeat=rounds))


def time_stream(client: str, upstream: str, stream: Stream, batch: int, rounds: int) -> float:
    """Seconds per event."""
    frames = stream.frames
    batches = [b"".join(frames[n : n + batch]) for n in range(0, len(frames), batch)]

    def run() -> None:
        chain = machine(client, upstream)
        chain.feed(stream.head)
        for data in batches:
            chain.feed(data)

    return best(run, rounds) / len(frames)


_PARSES = 5000


def _parse(payload: bytes) -> None:
    for _ in range(_PARSES):
        orjson.loads(payload)


def long_request() -> bytes:
    """A recorded agent's request, its tool turn repeated until the history is long."""
    body = json.loads(FIXTURE.read_text())["request"]["body"]
    first, *rest = (message for message in body["messages"] if message["role"] != "system")
    history = [first]
    while len(history) < MESSAGES_IN_A_LONG_REQUEST:
        turn = json.dumps(rest[:2]).replace("toolu_", f"toolu_{len(history)}_")
        history += json.loads(turn)
    return json.dumps({**body, "messages": history}).encode()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    streams = {"chat": chat_stream(args.events), "messages": messages_stream(args.events)}
    print(f"{'client ← upstream':<24}{'one by one':>22}{'16 at a time':>22}   (× one orjson.loads)")
    for client in streams:
        for upstream, stream in streams.items():
            check(client, upstream, stream)
            unit = best(partial(_parse, stream.payload), args.rounds) / _PARSES
            cells = []
            for batch in (1, 16):
                seconds = time_stream(client, upstream, stream, batch, args.rounds)
                cells.append(f"{seconds * 1e9:8.0f} ns {seconds / unit:6.1f} ×")
            print(f"{client + ' ← ' + upstream:<24}{cells[0]:>22}{cells[1]:>22}", flush=True)
    body = long_request()
    sent = orjson.loads(translate(direction("messages", "chat"), body).body)
    assert len(sent["messages"]) >= MESSAGES_IN_A_LONG_REQUEST
    unit = best(lambda: orjson.loads(body), args.rounds)
    seconds = best(lambda: translate(direction("messages", "chat"), body), args.rounds)
    print(
        f"request of {MESSAGES_IN_A_LONG_REQUEST} messages ({len(body) // 1024} kB), messages → chat:"
        f" {seconds * 1e3:.2f} ms, {seconds / unit:.1f} × orjson.loads of its body"
    )


if __name__ == "__main__":
    main()
