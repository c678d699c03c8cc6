"""The verdicts of the validators on recorded bytes, and the streams that they judge."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.stages.grammar.checker import GrammarChecker
from dragoman.stages.violation import Violation
from support.defects import Change
from support.mutations import frames_of
from support.paths import STREAMS

TEXT = {
    Dialect.CHAT: "chat_from_messages/text",
    Dialect.MESSAGES: "messages_from_chat/text",
    Dialect.RESPONSES: "responses_from_chat/text",
}
"""A golden with nothing but text."""


def checker_of(dialect: Dialect | str, **settings: Any) -> GrammarChecker:
    """A new judge of a stream of Dragoman's. Unless `losses` is given, a loss excuses missing counts."""
    settings.setdefault("include_usage", True)
    if "losses" not in settings:
        settings["losses"] = Losses()
        settings["losses"].add(LossCode.USAGE_ESTIMATED, "usage")
    return GrammarChecker(CODECS[Dialect(dialect)].grammar(ReplyContext("m", **settings)))


def verdict(dialect: Dialect | str, pieces: bytes | Iterable[bytes], **settings: Any) -> Violation | None:
    """Return what is wrong with a whole stream, however it is cut."""
    judge = checker_of(dialect, **settings)
    rest = b""
    for piece in [pieces] if isinstance(pieces, bytes) else pieces:
        *frames, rest = (rest + piece).split(b"\n\n")
        for frame in frames:
            judge.feed(frame + b"\n\n")
    judge.feed(rest)
    judge.finish()
    return judge.violation


@cache
def golden(name: str) -> bytes:
    """Return what the client gets, of `<client>_from_<upstream>/<case>`."""
    return (STREAMS / f"{name}.sse").read_bytes()


def golden_frames(name: str) -> list[bytes]:
    """Return the same by its frames."""
    return frames_of(golden(name))


@cache
def goldens(client: Dialect | str) -> tuple[str, ...]:
    """Every golden of the client's dialect that was translated."""
    return tuple(
        sorted(
            f"{path.parent.name}/{path.stem}"
            for path in STREAMS.glob(f"{client}_from_*/*.sse")
            if path.parent.name != f"{client}_from_{client}"
        )
    )


def settings_of(name: str) -> dict[str, Any]:
    """Return what the client of a golden had asked for."""
    variant = name.partition("+")[2]
    settings: dict[str, Any] = {"logprobs": variant == "asked", "include_usage": variant != "no_usage_asked"}
    orders = {"interleave": Knobs(block_order="interleave"), "sequential": Knobs(block_order="sequential")}
    if variant in orders:
        settings["knobs"] = orders[variant]
    return settings


def assert_defect_is_found(dialect: Dialect, case: str, change: Change, rule: str) -> None:
    """A golden of a dialect is valid, and with one change it breaks `rule`."""
    other = Dialect.MESSAGES if dialect is Dialect.CHAT else Dialect.CHAT
    name = f"{dialect}_from_{other}/{case}"
    try:
        frames = golden_frames(name)
    except FileNotFoundError:
        frames = golden_frames(f"{dialect}_from_responses/{case}")
    assert verdict(dialect, b"".join(frames), **settings_of(name)) is None
    change(frames)
    found = verdict(dialect, b"".join(frames), **settings_of(name), losses=Losses())
    assert found is not None
    assert rule in found.rule
    judge = checker_of(dialect, **settings_of(name), losses=Losses())
    judge.feed(b"".join(frames))
    judge.finish()
    assert judge.violation == found, "frames that arrive together are judged in another way"
