"""The page of what several processes share: a table that tests/e2e/test_several_processes.py reads, too.

That test checks each feature by the function of its name, in each of the three setups.
"""

from __future__ import annotations

from typing import NamedTuple

SETUPS = ("one worker", "several workers", "several hosts")


class Feature(NamedTuple):
    """A feature that works in each of `SETUPS`: a client may send each request to any process or host.

    `check` is the name of the function that tests it.
    """

    check: str
    title: str


FEATURES = (
    Feature("stored_responses", "[Stored responses](../howto/stateful-conversations.md) are continued and read"),
    Feature("conversations", "Conversations are created, continued, changed and deleted"),
    Feature("background", "Responses in the background are created, polled, followed and cancelled"),
    Feature("events_after_each", "Their events are read again after any of them (`starting_after`)"),
    Feature("resumed_streams", "[Streams are resumed](../howto/resume-streams.md) after any of their events"),
    Feature("websocket", "A response of a WebSocket is continued on another connection"),
    Feature("receipts", "[Receipts](../howto/what-happened.md) are read"),
    Feature("keys", "[Named keys](../howto/keys-and-budgets.md) that are added or removed are known"),
    Feature("limits", "Limits of named keys are exact"),
    Feature("usage", "The [usage](../howto/book-usage.md) of all processes adds up to what the upstreams sent"),
)

_PAGE = """\
# What several processes share

{made}

A test starts a gateway with one worker, one with two workers, and two with two workers each behind haproxy, by the
recipe in [Run it behind a balancer](../howto/behind-a-balancer.md#haproxy). Each request has a connection of its own,
which any process may accept. A cell states whether the feature works then. Workers of one machine share SQLite files,
hosts share a Redis: `[store]` has keys and limits, `[state]` responses and streams. Each host books its own usage.

{table}
"""


def page(made: str) -> str:
    """Return several-processes.md."""
    rows = [f"| {each.title} |" + " yes |" * len(SETUPS) for each in FEATURES]
    head = [f"| | {' | '.join(SETUPS)} |", "| --- |" + " --- |" * len(SETUPS)]
    return _PAGE.format(made=made, table="\n".join((*head, *rows)))
