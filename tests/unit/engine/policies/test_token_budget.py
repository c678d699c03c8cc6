"""The budget gate: what goes first, what never goes, and that a growing conversation keeps its prefix (mapping §13).

"Multimodal screenshots are evicted first, followed by verbose tool results, then assistant reasoning steps, while user
prompts are protected", at 80 % of the context window.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import direction, translate
from dragoman.canonical.parts import Document, Image, Part, Reasoning, Text, ToolCall, ToolResult, Url
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.dialects import Dialect
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.policies.evict_images import PLACEHOLDER
from dragoman.policies.token_budget import HEAD, KEEP, LOWER, SHARE, TAIL, fit_budget
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.tokens.by_characters import by_characters
from dragoman.tokens.counter import Counter
from dragoman.wire.json_codec import dumps, loads
from support.compact_turns import assistant_turn, result_turn

ON = Knobs(token_budget="on")
LONG = "A line of a file that an agent has read. " * 200
"""Some 1,800 tokens."""
IMAGE = Image(Url("https://x/screen.png"), ("messages", 1, "content", 1))
"""1,500 tokens."""


def window(tokens: int, **flags: Any) -> Profile:
    return builtin_profile("chat").replace({"context_window": tokens, **flags})


def tokens(request: Request) -> int:
    return Counter(by_characters).request(request, Dialect.CHAT)


def fit(request: Request, size: int, *, knobs: Knobs = ON, dialect: str = "chat", **flags: Any) -> Losses:
    losses = Losses()
    fit_budget(request, dialect=dialect, profile=window(size, **flags), knobs=knobs, losses=losses)
    return losses


def user(*parts: Part) -> Turn:
    return Turn("user", list(parts))


def step(number: int, content: str | list[Part], reasoned: str = "") -> list[Turn]:
    """A call with a reasoning, and its result, as turns in full."""
    call = ToolCall(f"call_{number}", "read", "{}", ("messages", number))
    stated: list[Part] = [Reasoning(reasoned, ("messages", number), "chat")] if reasoned else []
    result = ToolResult(call.id, content, ("messages", number, "content"))
    return [Turn("assistant", [*stated, call]), user(result)]


def short_step(number: int, content: str, reasoned: str) -> list[Turn]:
    """Return the same in the compact form."""
    at = ("messages", number)
    reasonings: list[Any] = [(reasoned, at, "chat", None, None)] if reasoned else []
    stated = assistant_turn(at, reasonings, None, (), [(f"call_{number}", "read", "{}", at)])
    return [stated, result_turn(at, [(f"call_{number}", content, (*at, "content"), False)])]


def conversation(*turns: Turn) -> Request:
    return Request("chat", "m", [user(Text("Please read all the files.")), *turns])


def everything() -> Request:
    """An image, long results and long reasoning, each of them old, and three newer steps."""
    picture: list[Part] = [Text("seen"), IMAGE]
    turns = [
        *step(1, picture),
        *step(2, LONG),
        *short_step(3, LONG, ""),
        *step(4, "short", LONG),
        *short_step(5, "short", LONG),
    ]
    return conversation(*turns, *(turn for number in range(6, 9) for turn in short_step(number, "short", "")))


# --- whether ----------------------------------------------------------------------------------------------------------


def test_a_prompt_within_its_budget_is_left_alone_to_the_token() -> None:
    """The context window is such that the share of it is just what the prompt has, and then one less."""
    size = tokens(everything())
    for spare, kept in ((2, True), (-2, False)):
        request = everything()
        losses = fit(request, int((size + spare) / SHARE))
        assert (request == everything()) is kept
        assert bool(losses) is not kept


def test_a_share_of_ones_own_is_taken() -> None:
    size = tokens(everything())
    half = Knobs(token_budget=0.5)
    assert not fit(everything(), size * 2 + 10, knobs=half)
    assert fit(everything(), size * 2 - 10, knobs=half)


def test_an_unknown_window_is_no_budget() -> None:
    request = everything()
    assert not fit(request, 0)
    assert request == everything()


def test_refused_losses_are_a_400_that_names_the_field() -> None:
    losses = Losses(strict=True)
    with pytest.raises(Unsupported) as refused:
        fit_budget(everything(), dialect="chat", profile=window(8000), knobs=ON, losses=losses)
    assert refused.value.failure.param == "messages[1].content[1]"


# --- what goes --------------------------------------------------------------------------------------------------------


def test_S2_images_go_first_then_long_results_then_reasoning() -> None:
    size = tokens(everything())
    codes: list[list[str]] = []
    for share in (0.98, 0.65, 0.6, 0.2, 0.05):
        losses = fit(everything(), int(size * share / SHARE))
        codes.append([row.code for row in losses.rows])
    image, cut, reasoning = LossCode.IMAGE_EVICTED, LossCode.RESULT_CUT, LossCode.REASONING_EVICTED
    assert codes == [
        [image, cut],
        [image, cut, cut],
        [image, cut, cut, reasoning],
        [image, cut, cut, reasoning, reasoning],
        [image, cut, cut, reasoning, reasoning, LossCode.TOKEN_BUDGET],
    ]


def test_what_went_is_where_it_was_in_both_kinds_of_turns() -> None:
    request = everything()
    losses = fit(request, 3000)
    turns = request.turns
    assert turns[2].parts[0] == ToolResult(
        "call_1", [Text("seen"), Text(PLACEHOLDER, IMAGE.at)], ("messages", 1, "content")
    )
    for turn in (turns[4], turns[6]):
        (result,) = turn.parts
        assert isinstance(result, ToolResult)
        assert isinstance(result.content, str)
        left_out = len(LONG) - HEAD - TAIL
        assert (
            result.content == f"{LONG[:HEAD]}\n[... {left_out} characters removed to save context ...]\n{LONG[-TAIL:]}"
        )
    for turn in (turns[7], turns[9]):
        assert [type(part) for part in turn.parts] == [ToolCall]
    assert [row.path for row in losses.rows[1:3]] == ["messages[2].content", "messages[3].content"]


def test_a_step_in_short_stays_so() -> None:
    request = conversation(*(turn for number in range(20) for turn in short_step(number, LONG, LONG)))
    assert fit(request, 20_000)
    assert all(turn.compact is not None for turn in request.turns[1:])


def test_texts_of_a_result_are_cut_and_its_other_parts_stay() -> None:
    content: list[Part] = [Text(LONG), Document(Url("https://x/a.pdf")), Text("short")]
    request = conversation(*step(1, content), *(turn for n in range(2, 6) for turn in step(n, "short")))
    assert [row.code for row in fit(request, 4000).rows][:1] == [LossCode.RESULT_CUT]
    result = request.turns[2].parts[0]
    assert isinstance(result, ToolResult)
    assert len(result.content) == 3
    assert result.content[1:] == content[1:]


def test_the_texts_of_the_user_and_the_newest_turns_never_go() -> None:
    picture: list[Part] = [IMAGE]

    def newest() -> Request:
        return conversation(user(Text(LONG * 5)), *step(1, LONG), *step(2, picture, LONG), user(Text(LONG)))

    request = newest()
    losses = fit(request, 1000)
    assert KEEP == 3
    assert [row.code for row in losses.rows] == [LossCode.TOKEN_BUDGET]
    assert losses.rows[0].done.startswith("sent as it is: about")
    assert request == newest()


def test_the_row_reports_what_is_left_to_the_token() -> None:
    images: list[Part] = [IMAGE, IMAGE]
    turns = [*step(1, images), *step(2, LONG, LONG), *short_step(3, LONG, LONG), user(Text("this"), IMAGE)]
    request = conversation(*turns, *(turn for number in range(4, 8) for turn in step(number, LONG)))
    losses = fit(request, 2000)
    assert losses.counts[LossCode.IMAGE_EVICTED] == 3
    assert losses.rows[-1].done == f"sent as it is: about {tokens(request)} tokens, and the budget is 1600"


def test_old_images_that_the_user_sent_go_behind_those_in_results() -> None:
    picture: list[Part] = [IMAGE]
    turns = [user(Text("look"), IMAGE), *step(1, picture), *(turn for n in range(2, 6) for turn in step(n, "short"))]
    request = conversation(*turns)
    size = tokens(request)
    fit(request, int((size - 10) / SHARE))
    assert request.turns[1].parts == [Text("look"), IMAGE]
    fit(request, 1500)
    assert request.turns[1].parts == [Text("look"), Text(PLACEHOLDER, IMAGE.at)]


# --- reasoning that is bound to what stands before it -----------------------------------------------------------------


def signed(number: int) -> list[Turn]:
    native = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    turns = step(number, LONG)
    turns[0].parts.insert(0, Reasoning("hm", ("messages", number), "messages", "sig", native=native))
    return turns


@pytest.mark.parametrize(("replay", "left"), [("verify", [True] + [False] * 7), ("own_required", [True] * 8)])
def test_reasoning_signed_over_what_went_is_left_out_where_that_is_checked(replay: str, left: list[bool]) -> None:
    """Turns before the first change were signed over turns that are still there (mapping §5.4)."""
    request = conversation(*(turn for number in range(1, 9) for turn in signed(number)))
    size = tokens(request)
    losses = fit(request, int((size - 10) / SHARE), dialect="messages", thinking_replay=replay)
    reasonings = [isinstance(turn.parts[0], Reasoning) for turn in request.turns if turn.role == "assistant"]
    assert reasonings == left
    assert losses.counts.get(LossCode.THINKING_INVALIDATED, 0) == left.count(False)


def test_reasoning_that_has_to_come_back_never_goes() -> None:
    """DeepSeek and Kimi refuse a history of Messages without the thinking that they made (messages §12)."""
    request = everything()
    losses = fit(request, 1000, dialect="messages", thinking_replay="own_required")
    assert set(losses.counts) == {LossCode.IMAGE_EVICTED, LossCode.RESULT_CUT, LossCode.TOKEN_BUDGET}
    assert sum(isinstance(part, Reasoning) for turn in request.turns for part in turn.parts) == 2


# --- a conversation that grows ----------------------------------------------------------------------------------------

CONTENTS = st.lists(
    st.tuples(st.sampled_from(["short", LONG, LONG * 3, "image", "user image"]), st.sampled_from(["", "hm", LONG])),
    min_size=6,
    max_size=40,
)


def turns_of(contents: list[tuple[str, str]]) -> list[Turn]:
    turns: list[Turn] = []
    for number, (content, reasoned) in enumerate(contents):
        if content == "user image":
            turns += [Turn("assistant", [Text("What next?")]), user(Text("this"), IMAGE)]
        elif content == "image":
            turns += step(number, [IMAGE], reasoned)
        else:
            turns += short_step(number, content, reasoned) if number % 2 else step(number, content, reasoned)
    return turns


@given(CONTENTS)
def test_what_was_sent_is_a_prefix_of_what_is_sent_next_unless_both_are_beyond_the_budget(
    contents: list[tuple[str, str]],
) -> None:
    before = conversation()
    for end in range(2, 2 * len(contents) + 1, 2):
        request = conversation(*turns_of(contents)[:end])
        continued = Request("chat", "m", before.turns + request.turns[-2:])
        beyond = tokens(continued) > 20_000 * SHARE
        losses = fit(request, 20_000)
        assert tokens(request) <= 20_000 * SHARE or losses.counts[LossCode.TOKEN_BUDGET] == 1
        assert request == continued or beyond
        before = request


def test_a_conversation_of_two_hundred_turns_loses_its_prefix_once_in_a_quarter_of_the_budget() -> None:
    contents = [(LONG, "") for _ in range(100)]
    before: list[Turn] = []
    breaks = 0
    for end in range(2, 201, 2):
        request = conversation(*turns_of(contents)[:end])
        fit(request, 100_000)
        breaks += request.turns[: len(before)] != before
        before = request.turns
    grown = tokens(conversation(*turns_of(contents)))
    assert 5 < breaks <= grown / (100_000 * SHARE * (1 - LOWER))


@given(CONTENTS)
def test_what_was_fitted_once_fits(contents: list[tuple[str, str]]) -> None:
    request = conversation(*turns_of(contents))
    fit(request, 20_000)
    if tokens(request) <= 20_000 * SHARE:
        assert not fit(request, 20_000)


# --- through the translation ------------------------------------------------------------------------------------------


def test_the_translation_applies_it_and_only_where_it_is_on() -> None:
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    for number in range(8):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": LONG}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    body = dumps({"model": "m", "max_tokens": 100, "messages": messages})
    off = translate(direction("messages", "chat"), body, profile=window(12_000))
    on = translate(direction("messages", "chat"), body, profile=window(12_000), knobs=ON)
    assert not off.losses
    assert on.losses.counts == {LossCode.RESULT_CUT: 5}, on.losses.rows
    assert len(on.body) < len(off.body) - 5 * 6000
    assert [m["content"] == LONG for m in loads(on.body)["messages"] if m["role"] == "tool"] == [False] * 5 + [True] * 3
