"""The load client, `python -m dragoman_bench.client`: reads a plan (`plan.Plan`) on stdin, writes its result to
stdout."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from dataclasses import asdict
from typing import Any

from dragoman_bench.delays import MISSING, available
from dragoman_bench.load import Load
from dragoman_bench.plan import Plan, PlanError
from dragoman_bench.processes import open_files_limit
from dragoman_bench.shapes import SHAPES


def result(load: Load) -> dict[str, Any]:
    """Return the result of a load: counts, errors by kind, samples, and delays in ms."""
    tally = load.tally
    return {
        "plan": {name: value for name, value in asdict(load.plan).items() if name not in ("body", "headers")},
        "opened": tally.opened,
        "begun": tally.begun,
        "streams": tally.streams,
        "replies": tally.replies,
        "chunks": tally.chunks,
        "received": tally.received,
        "cut": tally.cut,
        "samples": load.samples,
        "delay_ms": tally.delay.summary(),
        "first_ms": tally.first.summary(),
        "whole_ms": tally.whole.summary(),
        "alone_ms": load.alone.summary() if load.alone else None,
        "alone_lag_ms": load.alone_lag.summary() if load.alone_lag else None,
        "lag_ms": load.lag.summary() if load.lag else None,
        "series": load.series,
        "errors": tally.errors,
    }


def run(plan: Plan) -> dict[str, Any]:
    """Carry out a plan on a uvloop event loop. Returns its result."""
    import uvloop

    load = Load(plan)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        # A garbage collection would pause all streams at once. The load breaks its own reference cycles.
        gc.collect()
        gc.disable()
        runner.run(load.run(SHAPES[plan.mode]))
    return result(load)


def main() -> int:
    """Run the client. Returns 2 for a plan that cannot be sent out, with the reason on stderr."""
    if not available():
        print(MISSING, file=sys.stderr)
        return 2
    try:
        plan = Plan.of_json(sys.stdin.read())
    except PlanError as error:
        print(f"plan: {error}", file=sys.stderr)
        return 2
    open_files_limit()
    json.dump(run(plan), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
