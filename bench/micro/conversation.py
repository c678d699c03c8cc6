"""Time the requests of a long session: CPU microseconds, and multiples of one `orjson.loads` of the body.

python bench/micro/conversation.py [--rounds 60]

The session is that of tests/conversations: 200 answers with tools, images, reasoning, failures and instructions, in the
forms of Claude Code, Codex and opencode. `first` is the first request after a change of the gateway, `last` the longest
one. `agent` is the load rig's request of 218 messages, without reasoning and images. The tests of that package check
the content of the last request.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

import orjson

from dragoman import builtin_profile, direction, translate
from dragoman_bench.agent_request import MESSAGES, agent_request

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from conversations.session import play
from conversations.test_long_session import PLAYED


def fastest(rounds: int, *runs: Callable[[], Any]) -> list[float]:
    """Return the CPU microseconds of the fastest round of each; rounds are interleaved, against drift of the
    machine."""
    best = [float("inf")] * len(runs)
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for place, run in enumerate(runs):
            begun = thread_time()
            run()
            best[place] = min(best[place], (thread_time() - begun) * 1e6)
    gc.enable()
    return best


def time_body(name: str, played: tuple[str, str, str | None], body: bytes, rounds: int) -> None:
    """Print a row."""
    client, upstream, profile = played
    going, known = direction(client, upstream), builtin_profile(upstream, profile)
    fields = orjson.loads(body)
    messages = len(fields["input" if client == "responses" else "messages"])
    parsed, taken = fastest(rounds, lambda: orjson.loads(body), lambda: translate(going, body, profile=known))
    size = f"{messages:>6}{len(body) / 1024:>8.1f} kB"
    print(f"{going!s:<22}{profile or '':<12}{name:<7}{size}{taken:>9.0f} µs{taken / parsed:>7.2f} ×", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    print(f"{'client → upstream':<22}{'profile':<12}{'':<7}{'turns':>6}{'body':>11}{'translated':>12}   × one loads")
    for played in PLAYED:
        bodies = [turn.body for turn in play(*played)]
        time_body("first", played, bodies[0], rounds)
        time_body("last", played, bodies[-1], rounds)
        time_body("agent", played, agent_request(played[0], "m", MESSAGES), rounds)


if __name__ == "__main__":
    main()
