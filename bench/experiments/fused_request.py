"""Cost of a request's translation without the canonical request in between.

    python bench/experiments/fused_request.py

One function from Messages to Chat: every message of an agent's long history is checked and written in one pass,
without turns, parts or policies; instructions, tools and settings are left out. That is about the minimum cost of the
direction in Python. CPU, in multiples of one `orjson.loads` of the same body (the load rig's, 218 messages, 128 kB);
minimum of 100 interleaved rounds; CPython 3.11, orjson 3.13:

| loads | loads and dumps | fused | `translate` | `translate`, part by part |
| --- | --- | --- | --- | --- |
| 1.0 | 1.4 | 2.2 | 3.6 | 5.8 |

Rejected: six such functions would be needed, each with the losses of its pair and its half of every policy (repair of
the history, places of instructions, tools of other kinds), and the general code as well for all other messages. Compact
turns (`dragoman.canonical.request.Turn`) have most of the gain, with one function for each reader and each writer.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import thread_time
from typing import Any

import orjson

from dragoman import direction, translate
from dragoman_bench.agent_request import agent_request

Row = tuple[str, tuple[str | int, ...]]
MESSAGES_TO_CHAT = direction("messages", "chat")


def fused(messages: list[Any], rows: list[Row]) -> list[Any] | None:
    """Translate a history from Messages to Chat; None if a message is not a simple one. Losses are added to `rows`."""
    out: list[Any] = []
    called: set[str] = set()
    for number, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if type(content) is str:
            out.append({"role": role, "content": content})
            continue
        text, calls = "", []
        for index, block in enumerate(content):
            kind = block["type"]
            if kind == "tool_use":
                call_id, name, given = block["id"], block["name"], block["input"]
                if not (call_id.isascii() and call_id.isidentifier()) or len(call_id) > 40 or type(given) is not dict:
                    return None
                called.add(call_id)
                function = {"name": name, "arguments": orjson.dumps(given).decode()}
                calls.append({"id": call_id, "type": "function", "function": function})
            elif kind == "text":
                if type(block["text"]) is not str or text or len(block) != 2:
                    return None
                text = block["text"]
            elif kind == "thinking":
                rows.append(("reasoning_foreign", ("messages", number, "content", index)))
            elif kind == "tool_result":
                call_id, text = block["tool_use_id"], block["content"]
                if call_id not in called or type(text) is not str or block.get("is_error"):
                    return None
                called.discard(call_id)
                if "cache_control" in block:
                    rows.append(("cache_hint", ("messages", number, "content", index)))
                out.append({"role": "tool", "tool_call_id": call_id, "content": text})
            else:
                return None
        if role == "assistant":
            written: dict[str, Any] = {"role": "assistant", "content": text or None}
            if calls:
                written["tool_calls"] = calls
            out.append(written)
        elif text:
            out.append({"role": "user", "content": text})
    return out


def fastest(rounds: int, *runs: Callable[[], Any]) -> list[float]:
    """Return the CPU seconds of the fastest of interleaved rounds of each."""
    best = [float("inf")] * len(runs)
    gc.disable()
    for _ in range(rounds):
        for place, run in enumerate(runs):
            begun = thread_time()
            run()
            best[place] = min(best[place], thread_time() - begun)
    gc.enable()
    return best


def main() -> None:
    """Print one row."""
    body = agent_request("messages", "m")
    whole = orjson.loads(body)
    sent = orjson.loads(translate(MESSAGES_TO_CHAT, body).body)["messages"]
    made = fused(whole["messages"], [])
    assert made is not None
    assert made[1:] == sent[-len(made) + 1 :], "the two must write the same history"

    def run() -> bytes:
        parsed = orjson.loads(body)
        return orjson.dumps({"model": "m", "messages": fused(parsed["messages"], [])})

    loads, both, least, translated = fastest(
        100,
        lambda: orjson.loads(body),
        lambda: orjson.dumps(orjson.loads(body)),
        run,
        lambda: translate(MESSAGES_TO_CHAT, body),
    )
    print(f"loads {loads * 1e6:.0f} µs = 1; with dumps {both / loads:.2f}", end="")
    print(f", fused {least / loads:.2f}, translate {translated / loads:.2f}")


if __name__ == "__main__":
    main()
