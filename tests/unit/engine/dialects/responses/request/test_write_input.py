"""Instructions, user turns and tool results, written as the input of a Responses request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.parts import Image, Inline, Native, Part, Text
from dragoman.canonical.request import Json, OutputFormat
from dragoman.canonical.turn import Turn
from dragoman.errors import ClientRequestError
from dragoman.losses import LossCode
from dragoman.profiles.profile import Profile
from support.responses_written import (
    ANSWERED_HI,
    COMPATIBLE,
    HI,
    KEPT,
    MARK,
    OPENAI,
    answer,
    ask,
    assistant,
    call,
    flags,
    refused,
    result,
    state,
    system,
    texts,
    user,
)

PNG = Inline("image/png", "QUJD")


def message(role: str, content: Any) -> Json:
    return {"type": "message", "role": role, "content": content}


def output(content: Any, kind: str = "function_call_output") -> Json:
    return {"type": kind, "call_id": "c1", "output": content}


def test_the_system_prompt_becomes_instructions() -> None:
    assert ask(system("one", plain=True), HI)[0]["instructions"] == "one"
    body, losses = ask(system("one", "", "two"), HI)
    assert body["instructions"] == "one\n\ntwo"
    assert body["input"] == [ANSWERED_HI]
    assert losses == []
    assert "instructions" not in ask(system("", ""), HI)[0]


def test_a_lonely_leading_message_becomes_instructions_and_several_stay_messages() -> None:
    one = system("a", plain=True, original="developer")
    assert ask(one, HI, origin="chat")[0]["instructions"] == "a"
    two = system("b", "c", original="system")
    body, losses = ask(one, two, HI, origin="chat")
    assert "instructions" not in body
    assert body["input"] == [message("developer", "a"), message("system", texts("b", "c")), ANSWERED_HI]
    assert losses == []


def test_an_empty_leading_message_does_not_count() -> None:
    body, _ = ask(system("", original="system"), system("a", original="developer"), HI, origin="chat")
    assert body["instructions"] == "a"
    assert body["input"] == [ANSWERED_HI]


def test_role_words_that_compatible_servers_may_not_know() -> None:
    turns = (system("a", plain=True, original="developer"), system("b", plain=True, original="system"), HI)
    assert [item["role"] for item in state(*turns, origin="chat", profile=COMPATIBLE)[0]] == [
        "system",
        "system",
        "user",
    ]


def test_T46_instructions_on_the_way_stay_in_their_place() -> None:
    note = system("note", plain=True, original="system")
    assert state(HI, note, assistant(Text("a")), HI)[0] == [
        ANSWERED_HI,
        message("developer", "note"),
        answer("a"),
        ANSWERED_HI,
    ]
    items, losses = state(HI, assistant(call()), user(result()), note)
    assert [item["type"] for item in items] == ["message", "function_call", "function_call_output", "message"]
    assert losses == []


def test_an_input_of_instructions_only_is_an_input() -> None:
    body, losses = ask(system("a", plain=True, original="system"), origin="chat")
    assert "instructions" not in body
    assert body["input"] == [message("system", "a")]
    assert losses == []


def test_free_json_mode_finds_its_word_in_the_input() -> None:
    form = OutputFormat("json_object", ("response_format",))
    body, _ = ask(system("Answer in JSON.", plain=True, original="system"), HI, origin="chat", format=form)
    assert body["input"][0] == message("system", "Answer in JSON.")


def test_responses_items_stay_items() -> None:
    top = system("top", plain=True)
    body, _ = ask(top, system("a", plain=True, original="developer"), HI, origin="responses")
    assert body["instructions"] == "top"
    assert body["input"] == [message("developer", "a"), ANSWERED_HI]


def test_instructions_hold_text_only() -> None:
    picture = Turn("instruction", [Text("a"), Image(PNG, ("system", 1))], ("system",), "top")
    assert refused(picture, HI) == "system[1]"
    assert refused(HI, picture) == "system[1]"


def test_a_string_stays_a_string_and_an_array_an_array() -> None:
    assert state(HI)[0] == [ANSWERED_HI]
    assert state(user(Text("hi")))[0] == [message("user", texts("hi"))]
    assert state(user(Text("a"), Text("b")))[0] == [message("user", texts("a", "b"))]
    assert state(user(Text("a"), Text("b")), profile=flags(text_parts=False))[0] == [message("user", "a\n\nb")]


@pytest.mark.parametrize("origin", ["chat", "messages"])
def test_T40_empty_texts_and_what_they_leave_empty_are_removed(origin: str) -> None:
    empty = user(Text(""), plain=True)
    items, losses = state(HI, assistant(Text("")), empty, user(Text(""), Text("a")), origin=origin)
    assert items == [ANSWERED_HI, message("user", texts("a"))]
    assert losses == []
    with pytest.raises(ClientRequestError) as caught:
        ask(empty, origin=origin)
    assert caught.value.failure.param == "messages"


def test_participants_names_are_dropped() -> None:
    named = [user(Text("a"), plain=True), system("b", plain=True, original="system")]
    for turn in named:
        turn.name = "bob"
    paths = [path for code, path in ask(*named, origin="chat")[1] if code is LossCode.PARTICIPANT_NAME]
    assert paths == ["messages[0].name", "system.name"]
    assert ask(named[1], named[0], origin="chat")[0]["instructions"] == "b"


def test_a_free_text_calls_result_has_its_own_kind() -> None:
    items, _ = state(HI, assistant(call(custom=True)), user(result(custom=True)))
    assert items[2] == output("out", "custom_tool_call_output")


def test_results_and_text_of_one_turn_keep_their_order() -> None:
    turn = user(Text("a"), result("1"), Text("b"), Text("c"), result("2", "c2"), Text("d"))
    items, losses = state(HI, assistant(call(), call(call_id="c2")), turn)
    assert items[3:] == [
        message("user", texts("a")),
        output("1"),
        message("user", texts("b", "c")),
        {**output("2"), "call_id": "c2"},
        message("user", texts("d")),
    ]
    assert losses == []


def test_foreign_blocks_are_dropped_by_their_code_and_own_ones_sent_back() -> None:
    block = Native("messages", "server_tool_use", {}, LossCode.HOSTED_HISTORY, ("n",))
    own = Native("responses", "web_search_call", {"type": "web_search_call", "id": "ws_1"}, LossCode.HOSTED_HISTORY)
    assert state(user(Text("a"), block, Text("b")))[0] == [message("user", texts("a", "b"))]
    assert ask(HI, assistant(block, Text("a")), HI)[1] == [(LossCode.HOSTED_HISTORY, "n")]
    items, losses = state(HI, assistant(own, Text("a")), user(own, Text("b")), origin="responses")
    assert items[1:] == [own.payload, answer("a"), own.payload, message("user", texts("b"))]
    assert losses == []


def marked(text: str) -> Text:
    return Text(text, ("marked",), MARK)


def test_the_last_four_marks_are_kept() -> None:
    parts: list[Part] = [marked(letter) for letter in "abcdef"]
    parts[2].cache = {"ttl": "1h"}  # type: ignore[union-attr]
    items, losses = state(user(*parts))
    ttl = {"mode": "explicit", "ttl": "30m"}
    assert [part.get("prompt_cache_breakpoint") for part in items[0]["content"]] == [None, None, ttl, KEPT, KEPT, KEPT]
    assert losses == [LossCode.CACHE_HINT] * 2


def test_marked_instructions_are_a_message() -> None:
    top = Turn("instruction", [Text("a"), marked("b")], ("system",), "top")
    body, losses = ask(top, HI)
    assert "instructions" not in body
    parts = texts("a", "b")
    parts[1]["prompt_cache_breakpoint"] = KEPT
    assert body["input"] == [message("developer", parts), message("user", texts("hi"))]
    assert losses == []
    body, losses = ask(top, HI, profile=COMPATIBLE)
    assert body["instructions"] == "a\n\nb"
    assert body["input"] == [ANSWERED_HI]
    assert losses == [(LossCode.CACHE_HINT, "marked")]


def test_marks_on_results_and_where_no_mark_can_stand() -> None:
    turns = (HI, assistant(marked("t"), call(cache=MARK)), user(result("out", cache=MARK)))
    items, losses = state(*turns)
    assert items[3] == output([{**texts("out")[0], "prompt_cache_breakpoint": KEPT}])
    assert losses == [LossCode.CACHE_HINT] * 2
    items, losses = state(*turns, profile=COMPATIBLE)
    assert items[3] == output("out")
    assert losses == [LossCode.CACHE_HINT] * 3


@pytest.mark.parametrize("profile", [flags(), COMPATIBLE, flags(text_parts=False)])
def test_T81_rolling_marks_do_not_change_the_shape_of_what_they_stood_on(profile: Any) -> None:
    def note(mark: Json | None) -> Turn:
        # Claude Code: an array for the sake of its mark, and a string in the next request.
        return Turn("instruction", [Text("note", ("n",), mark)], ("n",), "system", plain=mark is None)

    def history(*rest: Turn, mark: Json | None, last: Json | None) -> str:
        turns = (HI, note(mark), assistant(call()), user(result("1", cache=last)), *rest)
        items, _ = state(*turns, profile=profile)
        bare = json.dumps(items[:4]).replace(f', "prompt_cache_breakpoint": {json.dumps(KEPT)}', "")
        assert "breakpoint" not in bare
        return bare

    more = (assistant(call(call_id="c2")), user(result("2", "c2", cache=MARK)))
    assert history(mark=MARK, last=None) == history(mark=None, last=MARK) == history(*more, mark=None, last=None)


@pytest.mark.parametrize("profile", [OPENAI, COMPATIBLE, flags(text_parts=False), flags(explicit_cache=True)])
@pytest.mark.parametrize("origin", ["chat", "messages", "responses"])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(
    "turn",
    [
        user(Text("hi")),
        user(Text("hi", ("messages", 0), MARK)),
        user(Text("hi"), Text("there")),
        user(Image(PNG)),
        Turn("user", [Text("hi")], ("messages", 0), name="Ada"),
    ],
)
def test_a_lone_turn_is_written_as_in_a_conversation(turn: Turn, plain: bool, origin: str, profile: Profile) -> None:
    turn = Turn(turn.role, turn.parts, turn.at, plain=plain, name=turn.name)
    alone, lost = ask(turn, origin=origin, profile=profile)
    followed, lost_too = ask(turn, user(result()), origin=origin, profile=profile)
    assert alone["input"] == followed["input"][:-1]
    assert lost == lost_too
