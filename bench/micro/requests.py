"""Time the translation of requests by size: CPU microseconds, and multiples of one `orjson.loads` of the body.

python bench/micro/requests.py [--sizes 1 20 218 1000] [--rounds 40] [--kinds agent session played plain]
                               [--only 'messages → chat'] [--repeat 8] [--peers] [--cold]
                               [--out bench/results/requests]

`conversion` is the time from a parsed body to a body to send, as peers publish it: each of a freshly parsed body, minus
one `orjson.dumps` of the result, whose texts are new objects. (A str caches its UTF-8, so encoding one body repeatedly
takes half of the time.) `--peers` also times the peers' conversions of the body in the same rounds, in the environments
of `dragoman bench peers install litellm llm-rosetta`, and prints ours as multiples of theirs.

`agent` bodies are recorded requests of Claude Code, Codex and opencode whose tool turn is repeated until the history
has so many messages (or items). Their tools and instructions are as they were, long texts were shortened when they were
recorded: many objects and little text, the worst case. `session` bodies are those of the load rig, with code in them
and several calls at once. `played` is a request of that length of the session in tests/conversations: 200 answers with
tools, images, reasoning and instructions. `plain` bodies are a dialogue without tools or settings. Before the timing,
texts, calls and results of the translated body are compared with those of the input.

Rounds repeat a body, as an agent repeats its history: the reasoning envelopes of `played` bodies are in the cache since
the previous round. `--cold` clears it in each round, as in the first request of a process.

A round has eight consecutive conversions, after a garbage collection. `--repeat 1` has one: the collection evicts the
processor's caches, as other work does in a gateway. A conversion then takes up to a third longer, and its ratio to a
peer's varies by a tenth from run to run.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Any

import orjson

from dragoman import Direction, direction, translate
from dragoman.reasoning.envelope import clear_cache
from dragoman_bench import converters
from dragoman_bench.agent_request import agent_request
from dragoman_bench.conversion_check import Part, declared, lost, read_content, undeclared
from dragoman_bench.conversions import Conversions, Peer, Row, cells, head, save
from dragoman_bench.converters import Converter
from dragoman_bench.gateways.environments import ENVIRONMENTS
from dragoman_bench.gateways.launch import StartError
from dragoman_bench.machine import Machine
from dragoman_bench.results import now

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from conversations.script import MARK, PNG
from conversations.session import play

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
DIALECTS = ("messages", "responses", "chat")
SIZES = (1, 20, 218, 1000)

ContentReader = Callable[[str, Any], list[Part]]
"""Returns the content of a body of a dialect."""


# --- bodies -----------------------------------------------------------------------------------------------------------


def recorded(name: str) -> Any:
    """Return the body of a recorded request."""
    return json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))["request"]["body"]


def repeated(first: list[Any], turn: list[Any], most: int, *ids: str) -> list[Any]:
    """Return `first` and a repeated turn, at most `most` messages, with new ids in each repetition."""
    history = list(first)
    while len(history) + len(turn) <= most:
        text = json.dumps(turn)
        for prefix in ids:
            text = text.replace(f': "{prefix}', f': "{prefix}{len(history)}_')
        history += json.loads(text)
    return history


def claude_code(most: int) -> Any:
    """Return a body of Claude Code: turns of reasoning, text, a call, and its result, with a mark on the last
    message."""
    body = recorded("claude-code_tool_2")
    first, *turn = (message for message in body["messages"] if message["role"] != "system")
    marks = [block.pop("cache_control") for block in turn[-1]["content"] if "cache_control" in block]
    assert len(turn) == 2
    assert marks
    history = repeated([first], turn, most, "toolu_")
    history[-1]["content"][-1]["cache_control"] = marks[-1]
    return {**body, "messages": history}


def codex(most: int) -> Any:
    """Return a body of Codex: reasoning, a text, a call and its result, each an item."""
    body = recorded("codex_tool_2")
    first, turn = [item for item in body["input"][:-4] if item["type"] == "message"], body["input"][-4:]
    assert [item["type"] for item in turn] == ["reasoning", "message", "function_call", "function_call_output"]
    return {**body, "input": repeated(first, turn, most, "call_", "rs_", "msg_", "fc_", "fco_")}


def opencode(most: int) -> Any:
    """Return a body of opencode: a message with reasoning, text and a call, and a message with its result."""
    body = recorded("opencode-chat_tool_3")
    *first, call, result = body["messages"]
    assert call["tool_calls"]
    assert result["role"] == "tool"
    return {**body, "messages": repeated(first, [call, result], most, "call_")}


def plain(dialect: str, most: int) -> Any:
    """Return a dialogue without tools."""
    roles = ("user", "assistant")
    talk = [{"role": roles[n % 2], "content": f"Sentence {n} of a talk."} for n in range(most - (most % 2 == 0))]
    if dialect == "responses":
        return {"model": "m", "stream": True, "input": talk}
    body = {"model": "m", "stream": True, "messages": talk}
    return {**body, "max_tokens": 1000} if dialect == "messages" else body


def played(client: str, upstream: str, most: int) -> bytes:
    """Return the first request of the long session with `most` messages, or its last one."""
    body = b""
    for turn in play(client, upstream):
        body = turn.body
        if len(history(client, orjson.loads(body))) >= most:
            break
    return body


def history(dialect: str, body: Any) -> list[Any]:
    """Return the messages or items of a body."""
    found: list[Any] = body["input" if dialect == "responses" else "messages"]
    return found


AGENTS: dict[str, Callable[[int], Any]] = {"messages": claude_code, "responses": codex, "chat": opencode}


# --- checks -----------------------------------------------------------------------------------------------------------


def marked(dialect: str, body: Any) -> list[Part]:
    """Return the marks of all texts, calls and results of a played session, in order, then its images."""
    del dialect
    text = orjson.dumps(body).decode()
    marks = [("mark", mark) for mark in re.findall(MARK, text) if "thought" not in mark]
    return [*marks, *[("picture", "")] * text.count(PNG)]


def check(going: Direction, read: ContentReader, before: Any, after: Any) -> None:
    """Assert that all content arrives, in order: otherwise the timing would be meaningless."""
    client, upstream = going.client.dialect, going.upstream.dialect
    wanted, found = read(client, before), read(upstream, after)
    assert wanted == found, f"{going}: {wanted[:3]} became {found[:3]}"
    assert len(wanted) >= len(history(client, before)) // 2, f"{going}: only {len(wanted)} were found"
    assert not (gone := undeclared(declared(client, before), declared(upstream, after))), f"{going}: {gone}"


def kept(going: Direction, read: ContentReader, before: Any, after: Any) -> str:
    """Return a note if a peer's conversion loses or changes content, else an empty string."""
    client, upstream = going.client.dialect, going.upstream.dialect
    try:
        notes = (
            lost(read(client, before), read(upstream, after)),
            undeclared(declared(client, before), declared(upstream, after)),
        )
    except (KeyError, TypeError, ValueError) as error:
        return f"its result is not a request of {upstream}: {error!r}"
    return "; ".join(note for note in notes if note)


KINDS: dict[str, tuple[Callable[[str, str, int], bytes], ContentReader]] = {
    "agent": (lambda client, _, most: orjson.dumps(AGENTS[client](most)), read_content),
    "session": (lambda client, _, most: agent_request(client, "m", max(2, most)), read_content),
    "played": (played, marked),
    "plain": (lambda client, _, most: orjson.dumps(plain(client, most)), read_content),
}
"""Kind of body → function that makes one with so many messages, and function that reads its content."""


# --- timing -----------------------------------------------------------------------------------------------------------


def fastest(rounds: int, *runs: Callable[[], float]) -> list[float]:
    """Return the fastest round of each; rounds are interleaved, against drift of the machine."""
    best = [float("inf")] * len(runs)
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for place, run in enumerate(runs):
            best[place] = min(best[place], run())
    gc.enable()
    return best


def timed(times: int, function: Callable[..., Any], *given: Any) -> Callable[[], float]:
    """Return a function that makes `times` calls and returns their CPU seconds."""
    repeat = range(times)

    def run() -> float:
        begun = thread_time()
        for _ in repeat:
            function(*given)
        return thread_time() - begun

    return run


def timed_on_fresh_json(times: int, parsed: bytes, function: Callable[[Any], Any]) -> Callable[[], float]:
    """Return a function like that of `timed`, each call with freshly parsed JSON; the parsing is not timed."""

    def run() -> float:
        values = [orjson.loads(parsed) for _ in range(times)]
        gc.collect()
        begun = thread_time()
        for value in values:
            function(value)
        return thread_time() - begun

    return run


_MODEL = "claude-opus-5"
"""Model name for the upstream, with a profile that keeps instructions in place."""


def ours(going: Direction, body: bytes, cold: bool, payload: Any = None) -> None:
    """Translate a request; with `cold`, without cached envelopes."""
    if cold:
        clear_cache()
    translate(going, body, payload=payload, upstream_model=_MODEL)


def time_request(
    going: Direction, kind: str, size: int, rounds: int, repeat: int, cold: bool, peers: Sequence[Converter]
) -> Row:
    """Check and time the translation of a request. Returns its row."""
    client, upstream = going.client.dialect, going.upstream.dialect
    make, read = KINDS[kind]
    body = make(client, upstream, size)
    asked, sent = orjson.loads(body), translate(going, body, upstream_model=_MODEL).body
    check(going, read, asked, orjson.loads(sent))
    more = max(1, repeat, 50_000 // len(body))  # the clock is too coarse for short ones
    runs: list[Callable[[], float]] = [
        timed(more, orjson.loads, body),
        timed_on_fresh_json(more, sent, orjson.dumps),
        timed(more, ours, going, body, cold),
        timed_on_fresh_json(more, body, partial(ours, going, body, cold)),
    ]
    notes: dict[str, str] = {}
    failed: dict[str, Peer] = {}
    for peer in peers if client != upstream else ():
        try:
            notes[peer.name] = kept(going, read, asked, peer.convert(body, client, upstream))
            runs.append(partial(peer.seconds, more))
        except StartError as error:
            failed[peer.name] = Peer(None, str(error))
    times = [best / more * 1e6 for best in fastest(rounds, *runs)]
    parse, dump, whole, given, *theirs = times
    others = {name: Peer(us, note) for (name, note), us in zip(notes.items(), theirs, strict=True)}
    messages = len(history(client, asked))
    return Row(client, upstream, kind, messages, len(body), parse, dump, whole, given, {**others, **failed})


def started(wanted: bool) -> list[Converter]:
    """Start the installed peers; print advice for the others."""
    found: list[Converter] = []
    for name in converters.PEERS if wanted else ():
        if advice := converters.missing(name):
            print(advice)
        else:
            found.append(converters.start(name))
    return found


def line(cells: Sequence[str]) -> str:
    """Return a row of the table, aligned with its head."""
    widths = (20, 8, *(max(8, len(name)) for name in head(converters.PEERS)[2:]))
    return "  ".join(
        cell.ljust(width) if at < 2 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=False))
    )


def run(args: argparse.Namespace, peers: Sequence[Converter]) -> Iterator[Row]:
    """Measure all rows; print each when it is complete."""
    names = [peer.name for peer in peers]
    print(line(head(names)))
    for kind in args.kinds:
        for client in DIALECTS:
            for upstream in DIALECTS:
                going = direction(client, upstream)
                if args.only.replace(" ", "") not in str(going):
                    continue
                for size in args.sizes:
                    row = time_request(going, kind, size, args.rounds, args.repeat, args.cold, peers)
                    print(line(cells(row, names)), *row.notes(), sep="\n  * ", flush=True)
                    yield row


def main() -> None:
    """Print the table, and save it with --out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--only", default="", help="a direction, as it is printed")
    parser.add_argument("--peers", action="store_true", help="time the conversions of LiteLLM and llm-rosetta too")
    parser.add_argument("--repeat", type=int, default=8, help="conversions in a row in each round, of any body")
    parser.add_argument("--cold", action="store_true", help="clear the cache of reasoning envelopes in each round")
    parser.add_argument("--out", type=Path, metavar="DIR", help="save results.json and README.md in a new folder there")
    args = parser.parse_args()
    peers = started(args.peers)
    try:
        rows = list(run(args, peers))
    finally:
        for peer in peers:
            peer.close()
    if args.out:
        versions = {peer.name: ENVIRONMENTS[peer.name].installed_version() for peer in peers}
        command = shlex.join(["python", "bench/micro/requests.py", *sys.argv[1:]])
        made = Conversions(now(), command, args.rounds, Machine.here(), versions, rows)
        print(f"the table is in {save(made, args.out)}")


if __name__ == "__main__":
    main()
