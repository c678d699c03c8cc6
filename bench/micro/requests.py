"""Time the translation of requests by size: CPU microseconds, and multiples of one `orjson.loads` of the body.

python bench/micro/requests.py [--sizes 1 20 218 1000] [--rounds 40] [--kinds agent session plain]
                               [--only 'messages → chat'] [--peers]

`conversion` is what is left without one `orjson.loads` of the body and one `orjson.dumps` of what is sent: from a
parsed body to a body to send, which is what peers publish. `--peers` times theirs of the same body in the same rounds,
in the environments of `dragoman bench peers install litellm llm-rosetta`.

`agent` bodies are recorded requests of Claude Code, Codex and opencode whose tool turn is repeated until the history
has so many messages (or items). Their tools and instructions are as they were, long texts were shortened when they were
recorded: many objects and little text, the worst case. `session` bodies are those of the load rig, with code in them
and several calls at once. `plain` bodies are two people talking, without tools or settings. Before anything is timed,
what was said, called and answered is read out of the body that would be sent and compared with what went in.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Any

import orjson

from dragoman import Direction, direction, translate
from dragoman_bench import converters
from dragoman_bench.agent_request import agent_request
from dragoman_bench.converters import Converter
from dragoman_bench.gateways.launch import StartError

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
DIALECTS = ("messages", "responses", "chat")
SIZES = (1, 20, 218, 1000)

Said = tuple[str, ...]
"""`text` and the words; `call`, its id, name and arguments; or `result`, its id and content."""


# --- bodies -----------------------------------------------------------------------------------------------------------


def recorded(name: str) -> Any:
    """The body of a recorded request."""
    return json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))["request"]["body"]


def repeated(first: list[Any], turn: list[Any], most: int, *ids: str) -> list[Any]:
    """A turn repeated behind `first` while it fits into `most` messages, with its ids changed each time."""
    history = list(first)
    while len(history) + len(turn) <= most:
        text = json.dumps(turn)
        for prefix in ids:
            text = text.replace(f': "{prefix}', f': "{prefix}{len(history)}_')
        history += json.loads(text)
    return history


def claude_code(most: int) -> Any:
    """Claude Code's: thoughts, a text, a call; its result. Only the last message has a cache mark."""
    body = recorded("claude-code_tool_2")
    first, *turn = (message for message in body["messages"] if message["role"] != "system")
    marks = [block.pop("cache_control") for block in turn[-1]["content"] if "cache_control" in block]
    assert len(turn) == 2
    assert marks
    history = repeated([first], turn, most, "toolu_")
    history[-1]["content"][-1]["cache_control"] = marks[-1]
    return {**body, "messages": history}


def codex(most: int) -> Any:
    """That of Codex: reasoning, a text, a call and its result, each an item."""
    body = recorded("codex_tool_2")
    first, turn = [item for item in body["input"][:-4] if item["type"] == "message"], body["input"][-4:]
    assert [item["type"] for item in turn] == ["reasoning", "message", "function_call", "function_call_output"]
    return {**body, "input": repeated(first, turn, most, "call_", "rs_", "msg_", "fc_", "fco_")}


def opencode(most: int) -> Any:
    """That of opencode: a message with reasoning, text and a call, and a message with its result."""
    body = recorded("opencode-chat_tool_3")
    *first, call, result = body["messages"]
    assert call["tool_calls"]
    assert result["role"] == "tool"
    return {**body, "messages": repeated(first, [call, result], most, "call_")}


def plain(dialect: str, most: int) -> Any:
    """Two people talking in turns."""
    roles = ("user", "assistant")
    talk = [{"role": roles[n % 2], "content": f"Sentence {n} of a talk."} for n in range(most - (most % 2 == 0))]
    if dialect == "responses":
        return {"model": "m", "stream": True, "input": talk}
    body = {"model": "m", "stream": True, "messages": talk}
    return {**body, "max_tokens": 1000} if dialect == "messages" else body


AGENTS: dict[str, Callable[[int], Any]] = {"messages": claude_code, "responses": codex, "chat": opencode}
KINDS: dict[str, Callable[[str, int], bytes]] = {
    "agent": lambda dialect, most: orjson.dumps(AGENTS[dialect](most)),
    "session": lambda dialect, most: agent_request(dialect, "m", max(2, most)),
    "plain": lambda dialect, most: orjson.dumps(plain(dialect, most)),
}


# --- what was said ----------------------------------------------------------------------------------------------------


def said(dialect: str, body: Any) -> list[Said]:
    """Everything that users, tools and the assistant said, in order; neither reasoning nor instructions."""
    if dialect == "responses":
        return [entry for item in body["input"] for entry in _item(item)]
    read = _chat if dialect == "chat" else _messages
    return [entry for message in body["messages"] if message["role"] in _SPEAKERS for entry in read(message)]


_SPEAKERS = ("user", "assistant", "tool")


def _texts(content: Any) -> Iterator[Said]:
    if type(content) is str:
        yield "text", content
    for part in content if type(content) is list else ():
        if "text" in part:
            yield "text", part["text"]


def _chat(message: Any) -> Iterator[Said]:
    if message["role"] == "tool":
        yield "result", message["tool_call_id"], _joined(message["content"])
        return
    yield from _texts(message["content"])
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield "call", call["id"], function["name"], _compact(function["arguments"])


def _messages(message: Any) -> Iterator[Said]:
    for block in message["content"] if type(message["content"]) is list else ():
        if block["type"] == "tool_use":
            yield "call", block["id"], block["name"], json.dumps(block["input"])
        elif block["type"] == "tool_result":
            yield "result", block["tool_use_id"], _joined(block["content"])
        else:
            yield from _texts([block])
    if type(message["content"]) is str:
        yield "text", message["content"]


def _item(item: Any) -> Iterator[Said]:
    kind = item.get("type", "message")
    if kind == "message" and item["role"] in _SPEAKERS:
        yield from _texts(item["content"])
    elif kind == "function_call":
        yield "call", item["call_id"], item["name"], _compact(item["arguments"])
    elif kind == "function_call_output":
        yield "result", item["call_id"], _joined(item["output"])


def _joined(content: Any) -> str:
    """A result's text; one that carries a cache mark is an array of parts."""
    return content if type(content) is str else "".join(part["text"] for part in content)


def _compact(arguments: str) -> str:
    return json.dumps(json.loads(arguments))


def check(going: Direction, body: bytes, messages: int) -> None:
    """Everything arrives, in order, or the timing would be of something else."""
    before = said(going.client.dialect, orjson.loads(body))
    after = said(going.upstream.dialect, orjson.loads(translate(going, body).body))
    assert before == after, f"{going}: {before[:3]} became {after[:3]}"
    assert len(before) >= messages // 2, f"{going}: {len(before)} of {messages}"


# --- timing -----------------------------------------------------------------------------------------------------------


def fastest(rounds: int, *runs: Callable[[], float]) -> list[float]:
    """The fastest round of each, taken in turns so that they share the machine's moods."""
    best = [float("inf")] * len(runs)
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for place, run in enumerate(runs):
            best[place] = min(best[place], run())
    gc.enable()
    return best


def timed(times: int, function: Callable[..., Any], *given: Any) -> Callable[[], float]:
    """A run that tells the seconds of CPU of so many calls."""
    repeat = range(times)

    def run() -> float:
        begun = thread_time()
        for _ in repeat:
            function(*given)
        return thread_time() - begun

    return run


def time_request(
    going: Direction, kind: str, body: bytes, messages: int, rounds: int, peers: Sequence[Converter]
) -> None:
    """Print a row, and one for each peer, after a look at what becomes of the request."""
    check(going, body, messages)
    sent = orjson.loads(translate(going, body).body)
    more = max(1, 50_000 // len(body))  # short ones are over before the clock can tell
    runs = [timed(more, orjson.loads, body), timed(more, orjson.dumps, sent), timed(more, translate, going, body)]
    notes: dict[str, str] = {}
    client, upstream = going.client.dialect, going.upstream.dialect
    for peer in peers:
        if (client, upstream) not in converters.DIRECTIONS[peer.name]:
            continue
        try:
            notes[peer.name] = kept(going, body, peer.convert(body, client, upstream))
        except StartError as error:
            print(error)
            continue
        runs.append(partial(peer.seconds, more))
    parsed, dumped, seconds, *others = (best / more for best in fastest(rounds, *runs))
    conversion = seconds - parsed - dumped
    alone = "-" if going.passthrough else f"{conversion * 1e6:.1f} µs"
    print(
        f"{going!s:<22}{kind:<8}{messages:>6}{len(body) / 1024:>9.1f} kB{seconds * 1e6:>10.1f} µs"
        f"{alone:>13}{seconds / parsed:>7.2f} ×",
        flush=True,
    )
    for (name, note), other in zip(notes.items(), others, strict=True):
        print(f"    {name:<55}{other * 1e6:>15.1f} µs{other / conversion:>7.2f} × ours{note}", flush=True)


def kept(going: Direction, before: bytes, after: Any) -> str:
    """A note on a peer's conversion that says less than the body, or other things; none where all is there."""
    wanted = said(going.client.dialect, orjson.loads(before))
    try:
        found = set(said(going.upstream.dialect, after))
    except (KeyError, TypeError, ValueError) as error:
        return f"; what it makes is no request of {going.upstream.dialect}: {error!r}"
    lost = sum(entry not in found for entry in wanted)
    return f"; {lost} of {len(wanted)} texts, calls and results lost or changed" if lost else ""


def started(wanted: bool) -> list[Converter]:
    """The peers that are installed; of others is said how to get them."""
    found: list[Converter] = []
    for name in converters.DIRECTIONS if wanted else ():
        if told := converters.missing(name):
            print(told)
        else:
            found.append(converters.start(name))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--only", default="", help="a direction, as it is printed")
    parser.add_argument("--peers", action="store_true", help="time the conversions of LiteLLM and llm-rosetta too")
    args = parser.parse_args()
    peers = started(args.peers)
    print(
        f"{'client → upstream':<22}{'kind':<8}{'turns':>6}{'body':>12}{'translated':>13}{'conversion':>13}"
        "   × one orjson.loads"
    )
    try:
        for kind in args.kinds:
            for client in DIALECTS:
                for upstream in DIALECTS:
                    going = direction(client, upstream)
                    if args.only.replace(" ", "") not in str(going):
                        continue
                    for size in args.sizes:
                        time_request(going, kind, KINDS[kind](client, size), size, args.rounds, peers)
    finally:
        for peer in peers:
            peer.close()


if __name__ == "__main__":
    main()
