"""Compare the estimates of tokens with exact counts over the recorded requests, and time them.

python bench/micro/tokens.py [--rounds 20] [--exact]

Needs the extra `tokens`. Each recorded request is counted for its own dialect's upstream; those of Messages also for
the two others, after translation. `by characters` is the estimate without the extra, `by body` the estimate at the
start of a Messages stream. `--exact` prints only the counts, in the form of tests/unit/engine/tokens/exact.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import quantiles
from time import thread_time
from typing import Any

from dragoman import translate
from dragoman.canonical.request import Request
from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.directions import DIRECTIONS
from dragoman.errors import DragomanError
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.losses import Losses
from dragoman.tokens.by_body_size import by_body
from dragoman.tokens.by_characters import by_characters
from dragoman.tokens.by_vocabulary import by_vocabulary
from dragoman.tokens.counter import Counter, PromptSize
from dragoman.wire.json_codec import dumps, loads

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
_DIALECTS = {"anthropic": Dialect.MESSAGES, "chat": Dialect.CHAT, "responses": Dialect.RESPONSES}


def recorded() -> dict[str, tuple[Dialect, bytes, Request]]:
    """Yield the recorded requests that are not part of a stored conversation: file name, dialect, body, content."""
    found = {}
    for path in sorted(FIXTURES.glob("*.json")):
        record = json.loads(path.read_text("utf-8"))
        body: Any = record["request"]["body"]
        dialect = _DIALECTS.get(record["dialect"])
        if type(body) is not dict or dialect is None:
            continue
        if dialect is Dialect.MESSAGES:
            body.setdefault("max_tokens", 1)
            for upstream in (Dialect.CHAT, Dialect.RESPONSES):
                sent = translate(DIRECTIONS[dialect, upstream], dumps(body)).body
                found[f"{path.stem} for {upstream}"] = upstream, sent, _read(upstream, loads(sent))
        with suppress(DragomanError):  # a step of a stored conversation
            found[path.stem] = dialect, dumps(body), _read(dialect, body)
    return found


def _read(dialect: Dialect, body: Any) -> Request:
    request: Request = CODECS[dialect].read_request(body, Losses(), DEFAULT_KNOBS)
    return request


def timed(rounds: int, work: Callable[[], object]) -> float:
    """Return the minimum CPU time of `rounds` rounds, in microseconds."""
    least = float("inf")
    for _ in range(rounds):
        start = thread_time()
        work()
        least = min(least, thread_time() - start)
    return least * 1e6


def main() -> None:
    """Print the errors and the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--exact", action="store_true")
    args = parser.parse_args()
    requests = recorded()
    exact = {name: Counter(by_vocabulary).request(request, dialect) for name, (dialect, _, request) in requests.items()}
    if args.exact:
        print(json.dumps({name: count for name, count in exact.items() if " for " not in name}, indent=1))
        return
    guesses: dict[str, Callable[[str], int]] = {
        "by characters": lambda name: Counter(by_characters).request(requests[name][2], requests[name][0]),
        "by body": lambda name: by_body(requests[name][2], *requests[name][1::-1]),
    }
    print(f"{len(requests)} recorded requests, {sum(exact.values())} tokens; estimate / exact")
    for how, guess in guesses.items():
        # Only translated streams begin with an estimate, and the error of a prompt of a few words is not meaningful.
        names = exact if how == "by characters" else [name for name in exact if " for " in name and exact[name] > 500]
        shares = [guess(name) / exact[name] for name in names]
        steps = quantiles(shares, n=20)
        print(f"  {how:<14} median {steps[9]:.2f}  5 % {steps[0]:.2f}  95 % {steps[-1]:.2f}  "
              f"least {min(shares):.2f}  most {max(shares):.2f}")  # fmt: skip
    name = max(requests, key=lambda name: len(requests[name][1]))
    dialect, body, request = requests[name]
    prompt = PromptSize(dialect)
    for turn in request.turns:
        prompt.turn(turn)
    prompt.setting(request)
    size, warm = sum(map(len, prompt.texts)), Counter(by_characters)
    print(f"{name}: {len(body)} bytes, {size} characters, CPU microseconds")
    works: dict[str, Callable[[], object]] = {
        "by vocabulary": lambda: Counter(by_vocabulary).request(request, dialect),
        "by characters": lambda: Counter(by_characters).request(request, dialect),
        "counted before": lambda: warm.request(request, dialect),
        "by body": lambda: by_body(request, body, dialect),
    }
    for how, work in works.items():
        print(f"  {how:<15} {timed(args.rounds, work):8.1f}")


if __name__ == "__main__":
    main()
