"""Replaces old images in tool results by a placeholder (mapping §13), as the screenshots of a long agent loop.

With a limit of N, N images go when there are twice as many: each step breaks the cached prefix once, and the next N
requests keep it. Reasoning that a Messages model signed before the last step was signed over images that are gone, so
its check would fail and it is left out (mapping §5.4). Reasoning signed since then stays.
"""

from __future__ import annotations

from dragoman.canonical.parts import Image, Part, Reasoning, Text, ToolResult
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.dialects import FACTS
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.envelope import own_block

PLACEHOLDER = "[screenshot removed to save context]"


def evicted(images: int, keep: int) -> int:
    """Return the number of images to remove, the oldest first: `keep` to `2 * keep - 1` stay."""
    return max(images // keep - 1, 0) * keep


def evict_images(request: Request, keep: int, *, dialect: str, profile: Profile, knobs: Knobs, losses: Losses) -> None:
    """Replace all but the newest images of tool results, in place, with a loss row for each."""
    holders = [(index, results) for index, turn in enumerate(request.turns) if (results := _with_images(turn))]
    total = sum(_images(result) for _, results in holders for result in results)
    left = gone = evicted(total, keep)
    if not gone:
        return
    edited: dict[int, Turn] = {}
    for index, results in holders:
        if not left:
            break
        turn = request.turns[index]
        replaced: dict[int, ToolResult] = {}
        for result in results:
            if left:
                replaced[id(result)], left = _evicted(result, left, losses)
        parts: list[Part] = [replaced.get(id(part), part) if type(part) is ToolResult else part for part in turn.parts]
        edited[index] = Turn(turn.role, parts, turn.at, turn.original, turn.plain, turn.name)
    for index, turn in edited.items():
        request.turns[index] = turn
    if FACTS[dialect].signed_history and profile.thinking_replay == "verify":
        signer = dialect, profile.family or dialect
        _invalidate(request, holders, gone, keep, signer, knobs, losses)


def _with_images(turn: Turn) -> list[ToolResult]:
    """Return the turn's results that hold images."""
    if turn.role == "assistant" or turn.compact is not None:
        return []
    return [part for part in turn.parts if type(part) is ToolResult and _images(part)]


def _images(result: ToolResult) -> int:
    content = result.content
    return 0 if isinstance(content, str) else sum(type(part) is Image for part in content)


def _evicted(result: ToolResult, most: int, losses: Losses) -> tuple[ToolResult, int]:
    """Return the result without its first images, up to `most`, and the number of `most` that remains."""
    assert not isinstance(result.content, str)
    content: list[Part] = []
    for part in result.content:
        if type(part) is Image and most:
            most -= 1
            losses.add(LossCode.IMAGE_EVICTED, part.at, "became a placeholder")
            content.append(Text(PLACEHOLDER, part.at, part.cache))
        else:
            content.append(part)
    kept = ToolResult(
        result.call_id, content, result.at, result.is_error, result.cache, result.custom, result.search, result.built_in
    )
    return kept, most


def _invalidate(
    request: Request,
    holders: list[tuple[int, list[ToolResult]]],
    gone: int,
    keep: int,
    signer: tuple[str, str],
    knobs: Knobs,
    losses: Losses,
) -> None:
    """Leave out reasoning that `signer` signed before the last step, when fewer images were gone.

    `signer` is a dialect and a family.
    """
    counts = {index: sum(map(_images, results)) for index, results in holders}
    seen = 0
    for index, turn in enumerate(request.turns):
        if evicted(seen, keep) == gone:
            return
        seen += counts.get(index, 0)
        # An image came before the first reasoning that could have been signed over it.
        if not seen or turn.role != "assistant" or not turn.has_reasoning():
            continue
        if any(_is_signed(part, signer) for part in turn.parts):
            parts = [kept for part in turn.parts if (kept := _kept(part, signer, knobs, losses)) is not None]
            request.turns[index] = Turn(turn.role, parts, turn.at, turn.original, turn.plain, turn.name)


def _is_signed(part: Part, signer: tuple[str, str]) -> bool:
    return type(part) is Reasoning and part.proof is not None and own_block(part, *signer) is not None


def _kept(part: Part, signer: tuple[str, str], knobs: Knobs, losses: Losses) -> Part | None:
    if type(part) is not Reasoning or not _is_signed(part, signer):
        return part
    demoted = knobs.demote_reasoning == "on" and bool(part.text) and not part.text.isspace()
    losses.add(LossCode.THINKING_INVALIDATED, part.at, "became plain text" if demoted else "dropped")
    return Text(part.text, part.at) if demoted else None
