"""The table of cases: what is asked, which script the upstream plays, and what every client must have read.

One judge per case serves all twelve directions, streamed and whole. Where the dialects legitimately differ, `differs`
states how; where a case has no meaning, `absent` states why; and the printed matrix carries both as footnotes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from conformance import broken, replies
from conformance.rounds import DIALECTS, UPSTREAMS, City, Round
from conformance.samples import PNG
from conformance.speaker import Ask

NO_STOPS = "Responses has no stop sequences, so its clients cannot ask for one."
NO_TERMINAL = "A whole reply has no terminal event that could be missing."
WHOLE_CALLS = "Gemini's calls come whole: of one that is cut nothing is shown."
ONE_PIECE = "A whole reply comes in one piece: its calls are not interleaved, but both are there."


def _never(client: str, upstream: str, mode: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Case:
    """One row. `scripts` are played one after the other, each judged."""

    name: str
    scripts: tuple[str, ...]
    judge: Callable[[Round], None]
    ask: Ask = field(default_factory=Ask)
    absent: Callable[[str, str, str], str | None] = _never
    """The reason why a cell is empty (client, upstream, mode), or None."""
    differs: Callable[[str, str, str], str | None] = _never
    """The legitimate difference in a cell, or None."""
    reports: str = ""
    """The reports of other gateways' users that it holds against (T-nn), for the tests' names."""
    answered: bool = False
    """The calls are answered with results, and what is judged is the second reply."""


def _stops_absent(client: str, upstream: str, mode: str) -> str | None:
    return NO_STOPS if client == "responses" else None


def _stops_differ(client: str, upstream: str, mode: str) -> str | None:
    if client == "responses":
        return None
    if (client, upstream) == ("messages", "generate"):
        return "Gemini reports neither that a sequence matched nor which: the stop reason is `end_turn`."
    if upstream == "responses":
        noted = "The upstream cannot stop on a sequence: the gateway cuts the text itself."
        if mode == "whole":
            return noted
        what = "are estimated" if client == "messages" else "are left out"
        return f"{noted} The stream is ended there, so the upstream's token counts never arrive: they {what}."
    if (client, upstream) == ("messages", "chat"):
        return "Chat reports neither that a sequence matched nor which: the stop reason is `end_turn`."
    return None


def _no_terminal(client: str, upstream: str, mode: str) -> str | None:
    return NO_TERMINAL if mode == "whole" else None


def _one_piece(client: str, upstream: str, mode: str) -> str | None:
    return ONE_PIECE if mode == "whole" else None


def _failed_reply(client: str, upstream: str, mode: str) -> str | None:
    if mode == "stream":
        return WHOLE_CALLS if upstream == "generate" else None
    if client == upstream == "responses":
        return "Not streamed, the upstream's failure is a 200 with status `failed`, and passes through as that."
    return "Not streamed, the upstream answers with its failure instead: an error status of the client's dialect."


def _parallel(client: str, upstream: str, mode: str) -> str | None:
    return "Gemini cannot switch them off (loss `parallel_calls`)." if upstream == "generate" else None


def _off(client: str, upstream: str, mode: str) -> str | None:
    return "Gemini's newer models think at least a little (loss `effort_floor`)." if upstream == "generate" else None


def _unasked(client: str, upstream: str, mode: str) -> str | None:
    if upstream != "generate":
        return None
    return "Gemini shows its reasoning only if the client requests it, and counts nothing that a cache takes."


def _cut(client: str, upstream: str, mode: str) -> str | None:
    return WHOLE_CALLS if upstream == "generate" and mode == "stream" else None


def _refused(client: str, upstream: str, mode: str) -> str | None:
    if upstream == "generate":
        return "Gemini withholds a reply by a filter: the explanation takes the place of a refusal's text."
    if client == "messages" and upstream != "messages":
        return "Messages has no refusal block: the model's wording is a text block beside stop reason `refusal`."
    if client != "messages" and upstream == "messages":
        return "A Messages refusal has no text: its explanation is used instead (knob `refusal_terminal`)."
    return None


def _late(client: str, upstream: str, mode: str) -> str | None:
    if (client, upstream, mode) == ("chat", "messages", "stream"):
        return "The explanation is left out where text was already shown (loss `refusal_explanation`)."
    return None


def _cut_call(client: str, upstream: str, mode: str) -> str | None:
    if upstream == "generate":
        return WHOLE_CALLS
    if mode == "whole" and client != upstream and client == "messages":
        return (
            "A whole Messages reply has an object for arguments: the call of which half came is left out (`call_cut`)."
        )
    return None


def _proof(client: str, upstream: str, mode: str) -> str | None:
    if client == upstream:
        return None
    if upstream == "generate" and client != "chat":
        return "Gemini signs the first call: its signature is in a reasoning block of its own, in front of the call."
    if client == "chat":
        return "Chat has no place for a signature: the reasoning is shown, and left out when it comes back."
    if upstream == "chat":
        return "A Chat upstream signs nothing: the reasoning is shown unsigned, and left out when it comes back."
    return None


CASES: tuple[Case, ...] = (
    Case("text", ("sim-text",), replies.text, Ask(cap=100)),
    Case("emoji split mid-character", ("sim-split-characters",), replies.text, Ask(cap=100), reports="T71"),
    Case("one tool call", ("sim-tools",), replies.one_call, Ask(tools=True)),
    Case(
        "text and two interleaved calls",
        ("sim-parallel",),
        replies.two_calls,
        Ask(tools=True),
        differs=_one_piece,
        reports="T01_T02_T03",
    ),
    Case(
        "parallel calls switched off",
        ("sim-parallel",),
        replies.no_parallel,
        Ask(tools=True, parallel=False),
        _never,
        _parallel,
    ),
    Case(
        "reasoning, text, call",
        ("sim-thinking",),
        replies.thinking,
        Ask(tools=True, effort="high"),
        differs=_proof,
        reports="T12_T14",
    ),
    Case(
        "reasoning switched off", ("sim-thinking",), replies.not_thinking, Ask(tools=True, effort="none"), _never, _off
    ),
    Case(
        "reasoning replayed with results",
        ("sim-thinking",),
        replies.replayed,
        Ask(tools=True, effort="high"),
        differs=_proof,
        reports="T10_T11_T16",
        answered=True,
    ),
    Case("results of two calls", ("sim-parallel",), replies.results, Ask(tools=True), answered=True),
    Case("refusal", ("sim-refusal",), replies.refusal, differs=_refused),
    Case("refusal after text", ("sim-late-refusal",), replies.late_refusal, differs=_late),
    Case("truncation", ("sim-length-text",), replies.truncated, Ask(cap=100)),
    Case("truncation inside a call", ("sim-length",), replies.truncated_call, Ask(tools=True), differs=_cut_call),
    Case(
        "stop sequence",
        ("sim-stop",),
        replies.stopped,
        Ask(stops=("###", "§§")),
        absent=_stops_absent,
        differs=_stops_differ,
    ),
    Case("cached and reasoning tokens", ("sim-usage",), replies.usage, differs=_unasked, reports="T30_T31"),
    Case("empty reply", ("sim-empty",), replies.empty),
    Case("image", ("sim-text",), replies.image, Ask(image=PNG)),
    Case("structured output", ("sim-json",), replies.structured, Ask(schema=City)),
    Case(
        "error before the stream",
        ("sim-error-429", "sim-error-401", "sim-error-400-context", "sim-error-{overloaded}"),
        broken.before,
        reports="T78",
    ),
    Case(
        "error inside",
        ("sim-error-mid", "sim-error-mid-event", "sim-error-mid-tools"),
        broken.inside,
        Ask(tools=True),
        differs=_failed_reply,
        reports="T22",
    ),
    Case("cut", ("sim-cut", "sim-cut-tools"), broken.cut, Ask(tools=True), differs=_cut, reports="T23"),
    Case("reset", ("sim-cut-reset",), broken.reset, Ask(tools=True)),
    Case(
        "missing terminal",
        ("sim-missing", "sim-missing-tools"),
        broken.cut,
        Ask(tools=True),
        absent=_no_terminal,
        differs=_cut,
        reports="T20",
    ),
)
DIRECTIONS = [(client, upstream) for client in DIALECTS for upstream in UPSTREAMS]
MODES = ("stream", "whole")


def cells() -> list[tuple[Case, str, str, str]]:
    """Every cell that is not empty: (case, client, upstream, mode)."""
    return [
        (case, client, upstream, mode)
        for case in CASES
        for client, upstream in DIRECTIONS
        for mode in MODES
        if case.absent(client, upstream, mode) is None
    ]
