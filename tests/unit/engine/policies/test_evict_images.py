"""Old screenshots in tool results become a placeholder, N at a time (mapping §13)."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest

from dragoman.canonical.parts import Image, Reasoning, Text, ToolResult
from dragoman.canonical.request import Json, Request
from dragoman.canonical.turn import Turn
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.policies.evict_images import PLACEHOLDER, evict_images, evicted
from dragoman.profiles.profile import Profile, builtin_profile
from support.canonical_turns import PNG, assistant, call, image, reasoned, request, result, translated, user

CLAUDE = builtin_profile("messages", "anthropic")


def looked(made: Request, keep: int, dialect: str = "messages", profile: Profile = CLAUDE, **knobs: Any) -> Losses:
    """The rows of an eviction, in place."""
    losses = Losses()
    evict_images(made, keep, dialect=dialect, profile=profile, knobs=Knobs(**knobs), losses=losses)
    return losses


def steps(count: int) -> list[Turn]:
    """So many looks at the screen."""
    turns = [user("go")]
    for number in range(count):
        turns += [assistant(call(f"c{number}")), user(result(f"c{number}", "seen:", image(f"s{number}")))]
    return turns


def seen(turns: list[Turn]) -> list[str]:
    """Each picture by its name, or the placeholder."""
    out = []
    for turn in turns:
        for part in turn.parts:
            for inner in part.content if isinstance(part, ToolResult) and not isinstance(part.content, str) else []:
                if isinstance(inner, Image):
                    out.append(str(inner.at[1]))
                elif isinstance(inner, Text) and inner.text != "seen:":
                    out.append(inner.text)
    return out


def test_seed_S2_26_the_three_most_recent_screenshots_stay() -> None:
    made = request(*steps(6))
    losses = looked(made, 3)
    assert PLACEHOLDER == "[screenshot removed to save context]"
    assert seen(made.turns) == [PLACEHOLDER] * 3 + ["s3", "s4", "s5"]
    assert losses.counts == {LossCode.IMAGE_EVICTED: 3}
    assert [row.path for row in losses.rows] == ["messages.s0", "messages.s1", "messages.s2"]


@pytest.mark.parametrize(("images", "gone"), [(0, 0), (3, 0), (5, 0), (6, 3), (8, 3), (9, 6), (300, 297)])
def test_they_go_in_steps_so_that_the_prefix_holds_in_between(images: int, gone: int) -> None:
    assert evicted(images, 3) == gone


def test_one_result_may_lose_some_of_its_images() -> None:
    made = request(user("go"), assistant(call()), user(result("c1", image("a"), image("b"), image("c"))))
    made.turns += [assistant(call("c2")), user(result("c2", image("d")))]
    looked(made, 2)
    assert seen(made.turns) == [PLACEHOLDER, PLACEHOLDER, "c", "d"]


def test_images_of_the_user_and_what_stands_beside_an_evicted_one_are_kept() -> None:
    made = request(user("look:", image("mine"), image("mine too")), *steps(2))
    made.turns.append(assistant("done"))
    before = copy.deepcopy(made.turns[0])
    looked(made, 1)
    assert made.turns[0] == before
    kept = made.turns[3].parts[0]
    assert isinstance(kept, ToolResult)
    assert isinstance(kept.content, list)
    assert [part.text for part in kept.content if isinstance(part, Text)] == ["seen:", PLACEHOLDER]


def test_a_cache_mark_on_an_evicted_image_stays_in_its_place() -> None:
    made = request(*steps(2))
    marked = made.turns[2].parts[0]
    assert isinstance(marked, ToolResult)
    assert isinstance(marked.content, list)
    picture = marked.content[1]
    assert isinstance(picture, Image)
    picture.cache = {"ttl": "5m"}
    looked(made, 1)
    changed = made.turns[2].parts[0]
    assert isinstance(changed, ToolResult)
    assert changed.content[1] == Text(PLACEHOLDER, picture.at, {"ttl": "5m"})


# --- what the models signed over images (mapping §5.4) ----------------------------------------------------------------


def thinking_steps(count: int, family: str = "messages") -> list[Turn]:
    turns = [user("go")]
    for number in range(count):
        turns.append(assistant(reasoned(f"t{number}", family), call(f"c{number}")))
        turns.append(user(result(f"c{number}", image(f"s{number}"))))
    return turns


def reasonings(turns: list[Turn]) -> list[str]:
    return [part.text for turn in turns for part in turn.parts if isinstance(part, Reasoning)]


def test_thinking_that_was_signed_over_an_evicted_image_is_left_out() -> None:
    made = request(*thinking_steps(5))
    losses = looked(made, 2)
    # Four images were there when the first two went: what was signed before that saw them, but t0 saw none at all.
    assert reasonings(made.turns) == ["t0", "t4"]
    assert losses.counts == {LossCode.IMAGE_EVICTED: 2, LossCode.THINKING_INVALIDATED: 3}


def test_what_was_signed_since_the_last_step_stands() -> None:
    """The request in which it was made already had the placeholders: its prefix is the one that is sent now."""
    for count in range(4, 6):
        made = request(*thinking_steps(count))
        looked(made, 2)
        assert reasonings(made.turns)[1:] == [f"t{number}" for number in range(4, count)]


@pytest.mark.parametrize(
    ("dialect", "profile", "family"),
    [
        ("messages", CLAUDE.replace({"thinking_replay": "own_required"}), "messages"),
        ("messages", CLAUDE, "another"),
        ("responses", builtin_profile("responses"), "messages"),
    ],
    ids=["an upstream that checks nothing", "another's", "an upstream that drops by itself"],
)
def test_other_reasoning_is_left_for_the_writer(dialect: str, profile: Profile, family: str) -> None:
    made = request(*thinking_steps(5, family))
    losses = looked(made, 2, dialect, profile)
    assert len(reasonings(made.turns)) == 5
    assert losses.counts == {LossCode.IMAGE_EVICTED: 2}


def test_reasoning_becomes_text_where_the_operator_wants_that() -> None:
    made = request(*thinking_steps(5))
    losses = looked(made, 2, demote_reasoning="on")
    assert made.turns[3].parts[0] == Text("t1")
    assert [row.done for row in losses.rows if row.code is LossCode.THINKING_INVALIDATED] == ["became plain text"] * 3


# --- through a translation --------------------------------------------------------------------------------------------


def agent_body(count: int) -> Json:
    """A Messages client that looks so many times."""
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    messages: list[Json] = [{"role": "user", "content": "go"}]
    for number in range(count):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}
        shot = [{"type": "text", "text": f"screen {number}"}, {"type": "image", "source": source}]
        messages.append({"role": "assistant", "content": [use]})
        given = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": shot}
        messages.append({"role": "user", "content": [given]})
    return {"model": "m", "max_tokens": 100, "messages": messages}


@pytest.mark.parametrize("upstream", ["chat", "responses"])
def test_between_two_steps_a_longer_history_extends_the_shorter_one(upstream: str) -> None:
    key = "messages" if upstream == "chat" else "input"
    bodies = [translated("messages", upstream, agent_body(count), evict_images=3)[0][key] for count in range(13)]
    broken = []
    for count, (before, after) in enumerate(itertools.pairwise(bodies), 1):
        prefix = [json.dumps(item) for item in before]
        if [json.dumps(item) for item in after][: len(prefix)] != prefix:
            broken.append(count)
    assert broken == [6, 9, 12]


def test_off_by_default() -> None:
    body, made = translated("messages", "chat", agent_body(9))
    assert PLACEHOLDER not in json.dumps(body)
    assert LossCode.IMAGE_EVICTED not in made.losses.counts


def test_a_request_that_is_written_again_for_its_own_dialect_loses_them_too() -> None:
    """Flag `rewrite`: the turns come in the compact form, and the thinking in them was signed by this very upstream."""
    body = agent_body(5)
    for number in range(5):
        block = {"type": "thinking", "thinking": f"t{number}", "signature": "EqQBCg=="}
        body["messages"][2 * number + 1]["content"].insert(0, block)
    sent, made = translated("messages", "messages", body, flags={"rewrite": True}, evict_images=2)
    kept = [block["thinking"] for m in sent["messages"] for block in m["content"] if "thinking" in block]
    assert kept == ["t0", "t4"]
    assert made.losses.counts == {LossCode.IMAGE_EVICTED: 2, LossCode.THINKING_INVALIDATED: 3}
