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

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
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


def responses_stream(events: int) -> Stream:
    """As OpenAI sends it when asked for no obfuscation, as the engine does."""

    def frame(kind: str, sequence: int, rest: str) -> bytes:
        return b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n' % (
            kind.encode(),
            kind.encode(),
            sequence,
            rest.encode(),
        )

    begun = (
        '"response":{"id":"resp_u","object":"response","created_at":1,"status":"in_progress","error":null,'
        '"incomplete_details":null,"instructions":null,"metadata":{},"model":"m","output":[],"parallel_tool_calls":true,'
        '"temperature":1.0,"tool_choice":"auto","tools":[],"top_p":1.0,"usage":null}'
    )
    item = '"item":{"id":"msg_u","type":"message","status":"in_progress","role":"assistant","content":[]}'
    where = '"item_id":"msg_u","output_index":0,"content_index":0'
    head = (
        frame("response.created", 0, begun)
        + frame("response.in_progress", 1, begun)
        + frame("response.output_item.added", 2, f'"output_index":0,{item}')
        + frame("response.content_part.added", 3, f'{where},"part":{{"type":"output_text","text":"","annotations":[]}}')
    )
    frames = [
        frame("response.output_text.delta", n + 4, f'{where},"delta":" word{n}","logprobs":[]') for n in range(events)
    ]
    return Stream(head, frames, frames[0].partition(b"data: ")[2])


def machine(client: str, upstream: str) -> Chain:
    """A fresh machine of a direction."""
    return Translation(direction(client, upstream), b"", True, ReplyContext("m"), "m").stream_machine()


WORD: dict[str, Callable[[Any], str | None]] = {
    "chat": lambda chunk: chunk["choices"][0]["delta"].get("content"),
    "messages": lambda event: event.get("delta", {}).get("text"),
    "responses": lambda event: event.get("delta"),
}
"""The word in a payload of each dialect."""


def check(client: str, upstream: str, stream: Stream) -> None:
    """Every word comes out, in order, or the timing below would be of something else."""
    chain = machine(client, upstream)
    out = (chain.feed(stream.head) or b"") + b"".join(chain.feed(frame) for frame in stream.frames)
    words = [f" word{n}" for n in range(len(stream.frames))]
    payloads = [orjson.loads(line[6:]) for line in out.split(b"\n") if line.startswith(b"data: ")]
    said = [word for payload in payloads if (word := WORD[client](payload))]
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


def recorded(name: str) -> Any:
    """The body of a recorded request."""
    return json.loads((FIXTURES / f"{name}.json").read_text())["request"]["body"]


def repeated(first: list[Any], turn: list[Any], *ids: str) -> list[Any]:
    """A turn repeated behind `first` until the history is long, with its ids changed each time."""
    history = list(first)
    while len(history) < MESSAGES_IN_A_LONG_REQUEST:
        text = json.dumps(turn)
        for prefix in ids:
            text = text.replace(f': "{prefix}', f': "{prefix}{len(history)}_')
        history += json.loads(text)
    return history


def claude_code_request() -> bytes:
    """Claude Code's, its tool turn repeated."""
    body = recorded("claude-code_tool_2")
    first, *rest = (message for message in body["messages"] if message["role"] != "system")
    return json.dumps({**body, "messages": repeated([first], rest[:2], "toolu_")}).encode()


def codex_request() -> bytes:
    """That of Codex, its tool turn (reasoning, text, call and result, each an item) repeated."""
    body = recorded("codex_tool_2")
    first = [item for item in body["input"][:-4] if item["type"] == "message"]
    turn = body["input"][-4:]
    assert [item["type"] for item in turn] == ["reasoning", "message", "function_call", "function_call_output"]
    return json.dumps({**body, "input": repeated(first, turn, "call_", "rs_", "msg_", "fc_", "fco_")}).encode()


def results(upstream: str, sent: Any) -> int:
    """How many tool results a translated request holds."""
    if upstream == "responses":
        return sum(item["type"] == "function_call_output" for item in sent["input"])
    if upstream == "chat":
        return sum(message["role"] == "tool" for message in sent["messages"])
    blocks = [message["content"] for message in sent["messages"] if isinstance(message["content"], list)]
    return sum(block["type"] == "tool_result" for content in blocks for block in content)


def time_request(client: str, upstream: str, body: bytes, rounds: int) -> None:
    """Print what translating a long request takes, after a look at what became of it."""
    going = direction(client, upstream)
    before = results(client, orjson.loads(body))
    assert before == results(upstream, orjson.loads(translate(going, body).body)) > 50, f"{client} to {upstream}"
    unit = best(lambda: orjson.loads(body), rounds)
    seconds = best(lambda: translate(going, body), rounds)
    print(
        f"{client + ' → ' + upstream:<24}{len(body) // 1024:>8} kB{seconds * 1e3:10.2f} ms {seconds / unit:6.1f} ×",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    streams = {
        "chat": chat_stream(args.events),
        "messages": messages_stream(args.events),
        "responses": responses_stream(args.events),
    }
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
    print(f"\nrequest of {MESSAGES_IN_A_LONG_REQUEST} messages or items   (× orjson.loads of its body)")
    claude_code, codex = claude_code_request(), codex_request()
    for upstream in ("chat", "responses"):
        time_request("messages", upstream, claude_code, args.rounds)
    for upstream in ("chat", "messages"):
        time_request("responses", upstream, codex, args.rounds)


if __name__ == "__main__":
    main()
