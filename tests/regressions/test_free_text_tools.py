"""Group F: `apply_patch` and other free-text tools, over every upstream and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman import DragomanError, Knobs, LossCode, Translation, builtin_profile, direction, translate
from oracles.grammar import Call
from oracles.grammar.responses import check_whole
from oracles.requests import check
from regressions.dialect_bodies import (
    RESPONSES,
    assistant_turn,
    begins,
    ends,
    finished,
    offered,
    replied,
    starts,
    writes,
)
from regressions.wire import CHAT, DONE, MESSAGES, ROLE, calls, chunk, end, events_of, send, stop
from support import responses_frames as emitted
from support.directions import Json, ask, judge, stream_through, translated
from support.responses_samples import numbered

FIXTURES = Path(__file__).parents[1] / "fixtures"
PATCH = '*** Begin Patch\n*** Add File: grüße.py\n+print("\\u00e9\\n\t👋🏽")\n*** End Patch\n'
GRAMMAR = 'start: begin_patch hunk+ end_patch\nbegin_patch: "*** Begin Patch" LF'
TOOL: Json = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
}
HEADERS = {"anthropic-version": "2023-06-01"}
wrapping = pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
HISTORY: list[Json] = [
    {"role": "user", "content": "x"},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "apply_patch", "input": PATCH},
    {"type": "custom_tool_call_output", "call_id": "call_1", "output": "Done!"},
]
PROFILE = {CHAT: "compatible", MESSAGES: None}


def wrapped(upstream: str, **fields: Any) -> Translation:
    """A request of Codex to an upstream without free-text tools."""
    return translated(direction(RESPONSES, upstream), profile=PROFILE[upstream], **{"tools": [TOOL], **fields})


def part(arguments: str = "") -> tuple[str, ...]:
    """The model's call of the function that the tool became."""
    return "call", "call_1", "apply_patch", arguments or json.dumps({"input": PATCH})


def items_done(out: bytes) -> list[Json]:
    """The items that Codex runs."""
    return [payload["item"] for payload in events_of(out) if payload["type"] == "response.output_item.done"]


@wrapping
def test_T50_a_patch_comes_back_as_a_custom_tool_call_streamed(upstream: str) -> None:
    """`apply_patch` vanishes or returns as `function_call`; edits do nothing, HTTP 200 (router-for-me/CLIProxyAPI#5753,
    looplj/axonhub#860, decolua/9router#1371, awsl-project/maxx#813)."""
    out = stream_through(wrapped(upstream), assistant_turn(upstream, ("text", "On it."), part()))
    held = judge(RESPONSES, out)
    assert held.calls == [Call("call_1", "apply_patch", PATCH, kind="custom")]
    assert held.finish == "completed"
    kinds = [item["type"] for item in items_done(out)]
    assert kinds == ["message", "custom_tool_call"]
    deltas = [p["delta"] for p in events_of(out) if p["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == PATCH
    assert b"function_call" not in out


@wrapping
def test_T50_a_patch_comes_back_as_a_custom_tool_call_whole(upstream: str) -> None:
    """Likewise for a whole reply (looplj/axonhub#860), and the two agree."""
    got = json.loads(wrapped(upstream).reply(json.dumps(replied(upstream, part())).encode()))
    streamed = events_of(stream_through(wrapped(upstream), assistant_turn(upstream, part())))[-1]["response"]["output"]
    assert check_whole(got).calls == [Call("call_1", "apply_patch", PATCH, kind="custom")]
    assert got["output"] == streamed


@wrapping
@pytest.mark.parametrize("ascii_only", [True, False])
def test_T50_a_patch_cut_at_any_character_is_the_same_patch(upstream: str, ascii_only: bool) -> None:
    """A patch with one wrong character does nothing (decolua/9router#1371): escapes and pairs cut by the fragments."""
    arguments = json.dumps({"input": PATCH}, ensure_ascii=ascii_only)
    parts = [part(arguments)]
    for size in (1, 2, 5):
        pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
        frames = [*begins(upstream), *starts(upstream, 0, parts)]
        frames += [frame for piece in pieces for frame in writes(upstream, 0, parts, piece)]
        frames += [*ends(upstream, 0, parts), *finished(upstream, *parts)]
        held = judge(RESPONSES, stream_through(wrapped(upstream), frames))
        assert [call.arguments for call in held.calls] == [PATCH]


@wrapping
def test_T50_two_patches_and_a_function_at_once_stay_what_they_are(upstream: str) -> None:
    """Only the declared kind of each tool counts (awsl-project/maxx#813)."""
    translation = wrapped(upstream, tools=[TOOL, *offered(RESPONSES, "shell")])
    parts = [part(), ("call", "call_2", "shell", '{"input":"ls"}'), ("call", "call_3", *part()[2:])]
    held = judge(RESPONSES, stream_through(translation, assistant_turn(upstream, *parts)))
    assert [(call.kind, call.arguments) for call in held.calls] == [
        ("custom", PATCH),
        ("function", '{"input":"ls"}'),
        ("custom", PATCH),
    ]


@wrapping
def test_T50_the_model_receives_the_grammar(upstream: str) -> None:
    """The grammar is lost, and the model makes patches that do not apply (router-for-me/CLIProxyAPI#5753)."""
    body, translation = send(RESPONSES, upstream, tools=[TOOL], profile=PROFILE[upstream])
    check(upstream, body, HEADERS)
    offer = body["tools"][0].get("function", body["tools"][0])
    assert offer["name"] == "apply_patch"
    assert "Edits files." in offer["description"]
    assert GRAMMAR in offer["description"]
    schema = offer.get("parameters") or offer["input_schema"]
    assert (schema["required"], schema["properties"]["input"]["type"]) == (["input"], "string")
    assert translation.losses.counts == {LossCode.CUSTOM_WRAPPED: 1}


@wrapping
def test_T50_the_patches_of_the_history_are_calls_of_the_same_function(upstream: str) -> None:
    """The second turn fails: the history names a tool that is not declared so (looplj/axonhub#860)."""
    body, _ = send(RESPONSES, upstream, tools=[TOOL], profile=PROFILE[upstream], input=HISTORY)
    check(upstream, body, HEADERS)
    stated = body["messages"][1]
    if upstream == MESSAGES:
        assert stated["content"][0]["input"] == {"input": PATCH}
    else:
        assert json.loads(stated["tool_calls"][0]["function"]["arguments"]) == {"input": PATCH}
    assert "Done!" in json.dumps(body["messages"][2])


def test_T50_openais_own_chat_models_get_the_free_text_tool_itself() -> None:
    """Where the upstream has such tools nothing is wrapped (router-for-me/CLIProxyAPI#5753)."""
    body, translation = send(RESPONSES, CHAT, tools=[TOOL], input=HISTORY)
    check(CHAT, body, HEADERS)
    assert body["tools"][0]["type"] == "custom"
    assert body["tools"][0]["custom"]["format"]["grammar"] == {"syntax": "lark", "definition": GRAMMAR}
    assert body["messages"][1]["tool_calls"][0]["custom"] == {"name": "apply_patch", "input": PATCH}
    assert not translation.losses.counts
    call = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "apply_patch", "input": ""}}
    more = [{"index": 0, "custom": {"input": half}} for half in (PATCH[:30], PATCH[30:])]
    frames = [ROLE, calls(call), *(calls(piece) for piece in more), chunk({}, "tool_calls"), DONE]
    held = judge(RESPONSES, stream_through(translation, frames))
    assert held.calls == [Call("call_1", "apply_patch", PATCH, kind="custom")]


def test_T50_a_chat_clients_free_text_tool_goes_to_a_responses_upstream_and_back() -> None:
    """The other direction: `custom` is nested in Chat and flat in Responses (decolua/9router#1371)."""
    form = {"type": "grammar", "grammar": {"syntax": "lark", "definition": GRAMMAR}}
    offer = {"type": "custom", "custom": {"name": "apply_patch", "description": "Edits files.", "format": form}}
    body, translation = send(CHAT, RESPONSES, tools=[offer])
    check(RESPONSES, body, HEADERS)
    assert body["tools"] == [TOOL]
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "apply_patch", "input": PATCH}
    frames = numbered(
        emitted.created(),
        emitted.added(0, **item | {"input": ""}),
        *(emitted.at(0, "custom_tool_call_input.delta", delta=half) for half in (PATCH[:30], PATCH[30:])),
        emitted.at(0, "custom_tool_call_input.done", input=PATCH),
        emitted.done(0, **item),
        emitted.ended(item),
    )
    held = judge(CHAT, stream_through(translation, frames))
    assert held.calls == [Call("call_1", "apply_patch", PATCH, kind="custom")]
    whole = translation.reply(json.dumps(emitted.response("completed", [item])).encode())
    (call,) = json.loads(whole)["choices"][0]["message"]["tool_calls"]
    assert call == {"id": "call_1", "type": "custom", "custom": {"name": "apply_patch", "input": PATCH}}


def test_T50_a_plain_responses_server_gets_a_function_and_the_client_its_patch() -> None:
    """Compatible servers of the same dialect lack the kind as well (looplj/axonhub#860): a Chat client that knows it
    gets it back too."""
    offer = {"type": "custom", "custom": {"name": "apply_patch"}}
    row = direction(CHAT, RESPONSES)
    raw = json.dumps(ask(CHAT, tools=[offer])).encode()
    profile = builtin_profile(RESPONSES, "compatible")
    translation = translate(row, raw, profile=profile, knobs=Knobs(custom_tool_bridge="wrap"))
    assert json.loads(translation.body)["tools"][0]["type"] == "function"
    held = judge(CHAT, stream_through(translation, assistant_turn(RESPONSES, part())))
    assert held.calls == [Call("call_1", "apply_patch", PATCH, kind="custom")]


def test_T50_free_text_tools_of_other_clients_are_refused_by_name_and_never_vanish() -> None:
    """A client that did not ask for wrapping is emitted (awsl-project/maxx#813)."""
    offer = {"type": "custom", "custom": {"name": "apply_patch"}}
    with pytest.raises(DragomanError, match="custom_tool_bridge") as caught:
        send(CHAT, MESSAGES, tools=[offer])
    assert caught.value.failure.status == 400
    assert (caught.value.failure.param or "").startswith("tools[0]")


@wrapping
@pytest.mark.parametrize("reason", ["cut", "length", "calls"])
def test_T50_half_a_patch_is_never_run(upstream: str, reason: str) -> None:
    """Codex applies what its item holds as soon as it is emitted as done (router-for-me/CLIProxyAPI#5753)."""
    half = part()[3][:60]
    frames = [*begins(upstream), *starts(upstream, 0, [part()]), *writes(upstream, 0, [part()], half)]
    if reason != "cut":
        word = ("length" if upstream == CHAT else "max_tokens") if reason == "length" else ""
        word = word or ("tool_calls" if upstream == CHAT else "tool_use")
        frames += [chunk({}, word) + DONE] if upstream == CHAT else [stop(0), end(word)]
    out = stream_through(wrapped(upstream), frames)
    held = judge(RESPONSES, out)
    assert (held.error is None) == (reason == "length")
    assert not items_done(out)
    assert b"custom_tool_call_input.done" not in out


@wrapping
@pytest.mark.parametrize("arguments", ["{}", '{"patch":"x","other":1}', '{"input":7}', "[]", '"text"'])
def test_T50_a_call_without_its_text_is_no_edit(upstream: str, arguments: str) -> None:
    """A model that answers another form must not make an edit of nothing, HTTP 200 (decolua/9router#1371)."""
    out = stream_through(wrapped(upstream), assistant_turn(upstream, part(arguments)))
    held = judge(RESPONSES, out)
    if arguments == "{}":  # no text at all is the empty text
        assert [call.arguments for call in held.calls] == [""]
        return
    assert held.error is not None
    assert not items_done(out)


@pytest.mark.parametrize("name", ["codex_patch-tool_1", "codex_patch-write_2", "codex_lite-tool_2"])
@wrapping
def test_T50_codex_finds_the_freeform_kind_in_its_catalogue(upstream: str, name: str) -> None:
    """Codex 0.131 and later accepts only the freeform kind in its catalogue (unslothai/unsloth#9121): its recorded
    requests keep it in all that the response repeats, and each call comes back as declared."""
    body = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))["request"]["body"]
    translation = translated(direction(RESPONSES, upstream), body, profile=PROFILE[upstream])
    sent = json.loads(translation.body)
    check(upstream, sent, HEADERS)
    assert "apply_patch" in json.dumps(sent) or "functions__exec" in json.dumps(sent)
    called = "functions__exec" if "lite" in name else "apply_patch"
    frames = assistant_turn(upstream, ("call", "call_1", called, json.dumps({"input": PATCH})))
    out = stream_through(translation, frames)
    (call,) = judge(RESPONSES, out).calls
    assert (call.kind, call.arguments) == ("custom", PATCH)
    assert (call.namespace, call.name) == (("functions", "exec") if "lite" in name else (None, "apply_patch"))
    for event in events_of(out):
        if "response" in event:
            assert event["response"]["tools"] == body.get("tools", [])
