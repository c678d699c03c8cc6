"""Two hundred answers of an agent with tools, pictures, reasoning, failures and instructions, in every cross direction:
what was sent stays as it was sent, everything is there, and nothing is lost that need not be."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

import orjson
import pytest

from conversations.clients import CLIENTS
from conversations.script import MARK, NATIVE, PNG, STEPS, marks, pictures, script
from conversations.session import play
from oracles.requests import check

Json = dict[str, Any]

HEADERS = {"anthropic-version": "2023-06-01", "anthropic-beta": "context-management-2025-06-27"}
BREAKPOINT = b',"prompt_cache_breakpoint":{"mode":"explicit"}'
HISTORY = {"chat": "messages", "messages": "messages", "responses": "input", "generate": "contents"}

PLAYED = [
    ("chat", "messages", None),
    ("chat", "responses", None),
    ("messages", "chat", None),
    ("messages", "chat", "compatible"),
    ("messages", "responses", None),
    ("responses", "chat", None),
    ("responses", "chat", "compatible"),
    ("responses", "messages", None),
    ("chat", "generate", None),
    ("messages", "generate", None),
    ("responses", "generate", None),
]
"""(client, upstream, profile): all nine cross directions, and a model of one's own behind a Chat server."""

REASONINGS = sum(bool(step.reasoned) for step in script())
OWN = sum(bool(step.reasoned) for step in script() if step.number >= NATIVE)
"""Reasoning of the upstream's own; those before are another vendor's."""
HIDDEN = sum(step.hidden for step in script())
PICTURES = pictures(script())
FAILED = sum(act.failed for step in script() for act in step.acts)

FOREIGN = REASONINGS - OWN
CALLING = sum(bool(step.acts) for step in script())
UNSIGNED = sum(bool(step.acts) and (step.number < NATIVE or not step.reasoned) for step in script())
"""Replies with calls that Gemini did not sign."""
INSTRUCTED = sum(bool(step.instruction) for step in script())
CLAUDE = {"context_management": 1, "reasoning_mode": 1, "request_noise": 1, "tool_search": 1, "is_error": FAILED}
"""Losses of Claude Code's requests at any other upstream."""
GEMINI_LOSES_TOO = ("context_management", "request_noise", "tool_search")

LOST: dict[tuple[str, str, str | None], dict[str, int]] = {
    ("chat", "messages", None): {"reasoning_unsigned": REASONINGS - HIDDEN},
    ("chat", "responses", None): {"reasoning_unsigned": REASONINGS - HIDDEN},
    ("messages", "chat", None): CLAUDE
    | {"reasoning_foreign": REASONINGS - HIDDEN, "reasoning_encrypted": 1, "result_media_moved": PICTURES},
    ("messages", "chat", "compatible"): CLAUDE
    | {"cache_hint": 3, "reasoning_signature": FOREIGN - 1, "reasoning_encrypted": 1, "result_media_moved": PICTURES},
    ("messages", "responses", None): CLAUDE | {"reasoning_foreign": FOREIGN},
    ("responses", "chat", None): {
        "hosted_tool": 1,
        "reasoning_foreign": REASONINGS - HIDDEN,
        "reasoning_encrypted": 1,
        "result_media_moved": PICTURES,
    },
    ("responses", "chat", "compatible"): {
        "custom_wrapped": 1,
        "hosted_tool": 1,
        "turns_merged": 1,
        "reasoning_signature": FOREIGN - 1,
        "reasoning_encrypted": 1,
        "result_media_moved": PICTURES,
    },
    ("responses", "messages", None): {
        "custom_wrapped": 1,
        "hosted_tool": 1,
        "verbosity": 1,
        "reasoning_foreign": FOREIGN,
        "image_detail": PICTURES,
        "cap_added": 1,
    },
    ("chat", "generate", None): {
        "reasoning_unsigned": REASONINGS - HIDDEN,
        "reasoning_filled": CALLING,
        "system_demoted": INSTRUCTED,
    },
    ("messages", "generate", None): {name: lost for name, lost in CLAUDE.items() if name in GEMINI_LOSES_TOO}
    | {
        "cache_hint": 3,
        "reasoning_foreign": FOREIGN,
        "reasoning_filled": UNSIGNED,
        "system_demoted": INSTRUCTED + 1,
        "metadata": 1,
    },
    ("responses", "generate", None): {
        "custom_wrapped": 1,
        "hosted_tool": 1,
        "verbosity": 1,
        "reasoning_foreign": FOREIGN,
        "reasoning_filled": UNSIGNED,
        "system_demoted": INSTRUCTED,
    },
}
"""Losses of the last request, by code. One foreign block is all proof, and a Chat server never made a hidden one."""
LOST_IN_REPLIES = {
    ("chat", "messages"): {"reasoning_signature": OWN - HIDDEN + 1, "reasoning_encrypted": HIDDEN - 1},
    ("chat", "responses"): {"reasoning_encrypted": OWN},
    ("chat", "generate"): {"reasoning_signature": OWN},
}
"""Losses of all replies together: Chat has no place for proofs."""

FIRST = (PLAYED[0], PLAYED[4], PLAYED[3], PLAYED[6])
"""Each reader and each writer of the three APIs, and both profiles: the first stage plays these."""

every = pytest.mark.parametrize(
    ("client", "upstream", "profile"),
    [pytest.param(*each, marks=() if each in FIRST else pytest.mark.whole) for each in PLAYED],
)


@dataclass(slots=True)
class Record:
    """A session as it was sent upstream. `broken` are the requests that did not begin with the one before; `rest` what
    stood around the histories."""

    turns: int = 0
    broken: list[int] = field(default_factory=list)
    rest: set[bytes] = field(default_factory=set)
    requests: Counter[str] = field(default_factory=Counter)
    replies: Counter[str] = field(default_factory=Counter)
    asked: bytes = b""
    sent: bytes = b""


@cache
def record(client: str, upstream: str, profile: str | None) -> Record:
    """Played once for all tests; what is kept of it is small."""
    out = Record()
    before = b""
    for turn in play(client, upstream, profile):
        sent = turn.translation.body
        start, end = span(sent, HISTORY[upstream])
        # OpenAI's breakpoints are no part of what is cached, and Claude Code moves its marks with each request.
        history = sent[start:end].replace(BREAKPOINT, b"")
        if not history.startswith(before):
            out.broken.append(turn.step.number)
        before = history
        out.rest.add(sent[:start] + sent[end:])
        out.turns += 1
        out.replies += turn.lost_before
        out.requests = Counter({code.value: count for code, count in turn.translation.losses.counts.items()})
        out.asked, out.sent = turn.body, sent
        if turn.step.number % 20 == 0 or turn.last:
            check(upstream, orjson.loads(sent), HEADERS)
    return out


def span(body: bytes, key: str) -> tuple[int, int]:
    """Where the history stands in a body, without the bracket that ends it."""
    fields = orjson.loads(body)
    behind = list(fields)[list(fields).index(key) + 1 :]
    tail = b"".join(b"," + orjson.dumps(name) + b":" + orjson.dumps(fields[name]) for name in behind) + b"}"
    assert body.endswith(b"]" + tail)
    return body.index(b'"%b":[' % key.encode()), len(body) - len(tail) - 1


@pytest.mark.turns
@every
def test_a_long_session_is_carried_whole(client: str, upstream: str, profile: str | None) -> None:
    """One test, as playing a session takes its time; what it asserts is reported below."""
    played = record(client, upstream, profile)
    begins_as_before(played)
    everything_arrives(played)
    own_reasoning_returns(played, upstream, client == "chat" or (upstream == "chat" and profile is None))
    assert dict(played.requests) == LOST[client, upstream, profile]
    assert dict(played.replies) == LOST_IN_REPLIES.get((client, upstream), {})


def begins_as_before(played: Record) -> None:
    """Each request begins with the bytes of the one before: caches and signatures are bound to them (mapping §1)."""
    assert played.turns == STEPS - NATIVE + 1
    assert played.broken == []
    assert len(played.rest) == 1, "instructions, tools and settings stay as they are"


def everything_arrives(played: Record) -> None:
    """Once, and in its order."""
    found = [mark for mark in re.findall(MARK, played.sent.decode()) if "thought" not in mark]
    assert found == marks(script())
    assert played.sent.count(PNG.encode()) == PICTURES


def own_reasoning_returns(played: Record, upstream: str, none: bool) -> None:
    """An upstream gets its own reasoning back with the very proofs that it made, through clients that know nothing of
    them. Chat clients have no place for them, and OpenAI's Chat models take none (`none`). Gemini takes its signatures,
    without the texts."""
    sent = played.sent.decode()
    made = [] if none else [step for step in script() if step.reasoned and step.number >= NATIVE]
    noted = {int(number) for number in re.findall(r"\[#thought-([0-9]+)\]", sent)}
    assert {number for number in noted if number >= NATIVE} == {
        step.number for step in made if not step.hidden and upstream != "generate"
    }
    proofs = [step.number for step in script() if step.wrapped and f'"{step.wrapped}"' in sent]
    assert proofs == ([] if upstream == "chat" else [step.number for step in made])


@pytest.mark.parametrize("client", list(CLIENTS))
def test_the_session_is_the_same_each_time_and_of_its_length(client: str) -> None:
    """A generator that changes would make the figures of other days mean something else."""
    upstream = "chat" if client != "chat" else "messages"
    first, second = (list(islice(play(client, upstream), 3)) for _ in range(2))
    assert [turn.body for turn in first] == [turn.body for turn in second]
    assert len({turn.body for turn in first}) == 3
    assert min(REASONINGS, PICTURES, FAILED, HIDDEN) > 5
