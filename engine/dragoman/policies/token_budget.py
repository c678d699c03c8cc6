"""A token budget: shortens a prompt that exceeds its share of the context window, before the upstream rejects it.

Parts go by priority: old images, then the middles of long tool results, then old reasoning, each oldest first. The
user's texts never go, nor anything of the newest turns. The conversation is replayed as it grew: at each request that
exceeded the budget it is brought down to a lower mark. So the prompt stays a prefix of the next one until it has grown
by the difference, and prompt caches hold (mapping §13).
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate
from typing import NamedTuple

from dragoman.canonical.parts import Image, Part, Reasoning, Text, ToolResult
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.dialects import FACTS, Dialect
from dragoman.errors import Path
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.policies.evict_images import PLACEHOLDER
from dragoman.profiles.profile import Profile
from dragoman.reasoning.envelope import own_block
from dragoman.tokens.by_characters import by_characters
from dragoman.tokens.counter import PROOF, Counter, PromptSize
from dragoman.tokens.media import image_tokens

SHARE = 0.8
"""Share of the context window for `on`. The rest is for the reply and for the error of the estimate."""
LOWER = 0.75
"""Share of the budget that the prompt is brought down to."""
KEEP = 3
"""The newest user turns that stay unchanged, with all turns after them."""
VERBOSE = 250
"""Least tokens of a tool result that is cut."""
HEAD, TAIL = 400, 200
"""Characters of a cut result that stay."""
_MOST_PER_CHARACTER = 1.6
"""Upper bound of tokens per character of any text. A prompt below the budget by this bound is not counted."""

_COUNTER = Counter(by_characters)
"""Shared by all requests, so that a turn of a history is counted once and not with each request."""


def fit_budget(request: Request, *, dialect: str, profile: Profile, knobs: Knobs, losses: Losses) -> None:
    """Bring the prompt below its budget, in place, with a loss row for each part that goes.

    Does nothing if `profile.context_window` is unknown. Raises `Unsupported` if losses are rejected and one is due.
    """
    share = SHARE if knobs.token_budget == "on" else float(knobs.token_budget)
    budget = int(profile.context_window * share)
    if not budget:
        return
    prompt = PromptSize(Dialect(dialect))
    ends = [_end(prompt, turn) for turn in request.turns]
    prompt.setting(request)
    if prompt.size + _MOST_PER_CHARACTER * sum(map(len, prompt.texts)) <= budget:
        return
    counts = _COUNTER.texts(prompt.texts)
    total = prompt.size + sum(counts)
    if total <= budget:
        return
    replay = profile.thinking_replay if FACTS[dialect].signed_history else ""
    verified = profile.family or dialect if replay == "verify" else None
    enforcer = _BudgetEnforcer(request, Dialect(dialect), losses, verified)
    enforcer.reasoning_required = replay == "own_required"
    total = enforcer.run(_sizes(prompt, ends, counts), budget)
    if total > budget and not losses.strict:
        done = f"sent as it is: about {total} tokens, and the budget is {budget}"
        losses.add(LossCode.TOKEN_BUDGET, request.turns[-1].at, done)


def _end(prompt: PromptSize, turn: Turn) -> tuple[int, int]:
    prompt.turn(turn)
    return prompt.size, len(prompt.texts)


def _sizes(prompt: PromptSize, ends: list[tuple[int, int]], counts: list[int]) -> list[int]:
    """Return the tokens of each turn, after those of the rest of the request (tools and response format)."""
    sums = [0, *accumulate(counts)]
    size, texts = ends[-1] if ends else (prompt.size, 0)
    # The fixed cost of a prompt counts for its first turn, if there is one.
    sizes = [prompt.size - size + sums[-1] - sums[texts]]
    before, begun = 0, 0
    for size, texts in ends:
        sizes.append(size - before + sums[texts] - sums[begun])
        before, begun = size, texts
    return sizes


class _Piece(NamedTuple):
    """A part that may go: its turn, its place among the turn's parts, and its tokens."""

    turn: int
    place: int
    tokens: int


class _BudgetEnforcer:
    """Applies the budget to one conversation.

    `verified` is the provider family that checks its signed reasoning against the turns before it; None if none does.
    """

    def __init__(self, request: Request, dialect: Dialect, losses: Losses, verified: str | None) -> None:
        self._turns = request.turns
        self._dialect = dialect
        self._losses = losses
        self._verified = verified
        self.reasoning_required = False
        """True if the upstream rejects a conversation without its own reasoning, so that none may go."""
        self._images: deque[_Piece] = deque()
        self._images_seen: deque[_Piece] = deque()
        self._results: deque[_Piece] = deque()
        self._reasoning: deque[_Piece] = deque()
        self._left_out: dict[int, set[int]] = {}

    def run(self, sizes: list[int], budget: int) -> int:
        """Remove what exceeds `budget`. `sizes` comes from `_sizes`. Return the estimated tokens that are left."""
        turns, lower = self._turns, int(budget * LOWER)
        total = sizes[0]
        asked: deque[int] = deque(maxlen=KEEP)
        for index, turn in enumerate(turns):
            total += sizes[index + 1]
            self._collect(index, turn)
            if turn.role == "user":
                asked.append(index)
            # The conversation ended here when a request was made: the model's reply follows, or nothing.
            made = index + 1 == len(turns) or turns[index + 1].role == "assistant"
            if made and total > budget and len(asked) == KEEP:
                total -= self._evict(asked[0], total - lower)
        for index, places in self._left_out.items():  # at the end, so that places stay valid until then
            turns[index].drop_parts(places)
        return total

    def _evict(self, before: int, most: int) -> int:
        """Remove about `most` tokens, or all that may go before a turn. Return the tokens removed."""
        gone, first = 0, before
        for pieces, evict in (
            (self._images, self._drop_image),
            (self._images_seen, self._drop_image),
            (self._results, self._cut),
            (self._reasoning, self._leave_out),
        ):
            while gone < most and pieces and pieces[0].turn < before:
                piece = pieces.popleft()
                saved = evict(piece)
                gone += saved
                if saved:
                    first = min(first, piece.turn)
        if self._verified is not None and first < before:
            gone += self._invalidate(first)
        return gone

    # --- what may go -----------------------------------------------------------------------------------------------

    def _collect(self, index: int, turn: Turn) -> None:
        """Collect the parts of a turn that may go. A compact turn is not expanded."""
        if isinstance(turn.compact, tuple):
            for place, (text, _, _, proof, *_) in enumerate(turn.compact[0]):
                self._collect_reasoning(index, place, text, proof)
        elif isinstance(turn.compact, list):
            for place, (_, content, _, _) in enumerate(turn.compact):
                self._collect_text(index, place, content)
        elif turn.compact is None:
            for place, part in enumerate(turn.parts):
                self._collect_part(index, place, part)

    def _collect_part(self, index: int, place: int, part: Part) -> None:
        if type(part) is Reasoning:
            self._collect_reasoning(index, place, part.text, part.proof)
        elif type(part) is Image:
            self._images_seen.append(_Piece(index, place, image_tokens(part, self._dialect)))
        elif type(part) is ToolResult:
            if isinstance(part.content, str):
                self._collect_text(index, place, part.content)
                return
            if images := [inside for inside in part.content if type(inside) is Image]:
                tokens = sum(image_tokens(image, self._dialect) for image in images)
                self._images.append(_Piece(index, place, tokens))
            for inside in part.content:
                if type(inside) is Text:
                    self._collect_text(index, place, inside.text)

    def _collect_reasoning(self, index: int, place: int, text: str, proof: str | None) -> None:
        if self.reasoning_required:
            return
        tokens = _COUNTER.texts([text])[0] if text else len(proof or "") // PROOF
        self._reasoning.append(_Piece(index, place, tokens))

    def _collect_text(self, index: int, place: int, text: str) -> None:
        if len(text) <= HEAD + TAIL:
            return
        tokens = _COUNTER.texts([text])[0]
        last = self._results[-1] if self._results else None
        if tokens >= VERBOSE and (last is None or last[:2] != (index, place)):
            self._results.append(_Piece(index, place, tokens))

    # --- removal ----------------------------------------------------------------------------------------------------

    def _drop_image(self, piece: _Piece) -> int:
        """Replace an image of the user, or all images of a result. Return the tokens saved."""
        parts = self._turns[piece.turn].parts
        part, images = parts[piece.place], 1
        if type(part) is Image:
            parts[piece.place] = self._placeholder(part)
        elif type(part) is ToolResult and not isinstance(part.content, str):
            images = sum(type(inside) is Image for inside in part.content)
            part.content = [self._placeholder(inside) if type(inside) is Image else inside for inside in part.content]
        return piece.tokens - images * _COUNTER.texts([PLACEHOLDER])[0]

    def _placeholder(self, image: Image) -> Text:
        self._losses.add(LossCode.IMAGE_EVICTED, image.at, "became a placeholder to fit the token budget")
        return Text(PLACEHOLDER, image.at, image.cache)

    def _cut(self, piece: _Piece) -> int:
        turn = self._turns[piece.turn]
        if isinstance(results := turn.compact, list):
            call_id, content, at, is_error = results[piece.place]
            cut = self._shortened(content, at)
            results[piece.place] = (call_id, cut, at, is_error)
            return self._saved(content, cut)
        part = turn.parts[piece.place]
        assert type(part) is ToolResult
        if isinstance(part.content, str):
            content = part.content
            part.content = self._shortened(content, part.at)
            return self._saved(content, part.content)
        saved = 0
        for inside in part.content:
            if type(inside) is Text and len(inside.text) > HEAD + TAIL:
                content = inside.text
                inside.text = self._shortened(content, inside.at or part.at)
                saved += self._saved(content, inside.text)
        return saved

    def _shortened(self, text: str, at: Path) -> str:
        left_out = len(text) - HEAD - TAIL
        self._losses.add(LossCode.RESULT_CUT, at, f"{left_out} of {len(text)} characters were left out")
        return f"{text[:HEAD]}\n[... {left_out} characters removed to save context ...]\n{text[-TAIL:]}"

    def _saved(self, text: str, cut: str) -> int:
        before, after = _COUNTER.texts([text, cut])
        return before - after

    def _leave_out(self, piece: _Piece, code: LossCode = LossCode.REASONING_EVICTED) -> int:
        self._left_out.setdefault(piece.turn, set()).add(piece.place)
        self._losses.add(code, self._turns[piece.turn].reasoning_at(piece.place).at)
        return piece.tokens

    def _invalidate(self, first: int) -> int:
        """Leave out reasoning that was signed after the first changed turn (mapping §5.4)."""
        gone, kept = 0, deque[_Piece]()
        for piece in self._reasoning:
            if piece.turn >= first and self._is_signed(piece):
                gone += self._leave_out(piece, LossCode.THINKING_INVALIDATED)
            else:
                kept.append(piece)
        self._reasoning = kept
        return gone

    def _is_signed(self, piece: _Piece) -> bool:
        part = self._turns[piece.turn].reasoning_at(piece.place)
        return part.proof is not None and own_block(part, self._dialect, self._verified or "") is not None
